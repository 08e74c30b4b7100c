package local

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/components"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/pki"
)

// prepare writes the files of the fleet. The data of an earlier run stay; keys,
// certificates and run-time files are made anew.
func (s *start) prepare(found map[string]string) (components.RobotFiles, error) {
	l := s.layout
	robot := robotFiles(l)
	if err := newRecord(l, found).write(l); err != nil {
		return robot, err
	}
	if err := removeRuntime(l); err != nil {
		return robot, err
	}
	dirs := []string{l.EtcdDir(), l.HomeDir(), l.LogDir(), l.DingTalkDir(), l.PreparedDir()}
	for _, c := range layout.MetaClusters() {
		dirs = append(dirs, l.PodsDir(c))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return robot, fmt.Errorf("making state folder: %w", err)
		}
	}
	if err := components.WriteCredentials(l, time.Now()); err != nil {
		return robot, err
	}
	for _, path := range []string{robot.AccessToken, robot.Secret} {
		if err := pki.WriteSecret(path, []byte(randomSecret())); err != nil {
			return robot, err
		}
	}
	if err := pki.WriteSecret(l.StagesFile(), components.Stages); err != nil {
		return robot, err
	}
	return robot, copySelf(l.Pharos())
}

func robotFiles(l layout.Layout) components.RobotFiles {
	dir := l.PKIDir("dingtalk")
	return components.RobotFiles{AccessToken: filepath.Join(dir, "access-token"), Secret: filepath.Join(dir, "secret")}
}

func randomSecret() string {
	b := make([]byte, 32)
	// Read never fails: the program ends when the kernel has no randomness.
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// copySelf copies the running program, so that building a new one does not
// change a fleet that runs.
func copySelf(path string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the pharos program: %w", err)
	}
	defer func() { _ = self.Close() }()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("copying the pharos program: %w", err)
	}
	copied, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return fmt.Errorf("copying the pharos program: %w", err)
	}
	_, err = io.Copy(copied, self)
	if closing := copied.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("copying the pharos program: %w", err)
	}
	return nil
}
