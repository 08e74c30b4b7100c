package binaries

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// checkTimeout bounds the answer of one binary to --version.
const checkTimeout = 20 * time.Second

// check refuses a binary that is not there, does not run or is not the version
// that the component asks for. The version is the one it reports; a program
// built by go install may not know it, and then its build record decides.
func (c Component) check(ctx context.Context, path string) error {
	if err := executable(path); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s does not answer --version: %w", c.Name, err)
	}
	if c.reported(out) || c.recorded(path) {
		return nil
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return fmt.Errorf("%s is not version %s but reports %q", c.Name, c.reports, line)
}

// reported tells whether the output names exactly our version, so that neither
// 1.37.20 nor 1.37.2-rc.1 passes for 1.37.2.
func (c Component) reported(output []byte) bool {
	return slices.ContainsFunc(strings.Fields(string(output)), func(word string) bool {
		return strings.TrimPrefix(strings.TrimRight(word, ",;"), "v") == c.reports
	})
}

func (c Component) recorded(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Main.Path == c.module && info.Main.Version == c.Version
}
