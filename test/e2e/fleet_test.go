// Package e2e runs the pharos binary as a person would, on real parts, and
// looks at what becomes of the fleet.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/proc"
	"github.com/pharos-fleet/pharos/internal/obs"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// binary is the pharos under test, where every user may run it.
var binary string

func TestMain(m *testing.M) {
	// The libraries of Kubernetes write to standard error until they are given a logger.
	obs.BridgeKubernetes(slog.New(slog.DiscardHandler))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pharos-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a folder for the binary:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "pharos")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "../../cmd/pharos")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := errors.Join(os.Chmod(dir, 0o755), build.Run()); err != nil {
		fmt.Fprintln(os.Stderr, "building pharos:", err)
		return 1
	}
	return m.Run()
}

// person is somebody at a terminal, with a home of their own.
type person struct {
	t        *testing.T
	instance int
	home     string
	bin      string
	uid      uint32 // 0 means the user who runs the tests
}

// newPerson makes a home. Its name has spaces, as homes have.
func newPerson(t *testing.T, instance int) *person {
	t.Helper()
	base, err := os.MkdirTemp("", "pharos-e2e-")
	require.NoError(t, err)
	p := &person{t: t, instance: instance, home: filepath.Join(base, "a home of one's own"), bin: servers(t)}
	require.NoError(t, os.Mkdir(p.home, 0o700))
	t.Cleanup(func() {
		_, _ = p.pharos("down")
		require.NoError(t, os.RemoveAll(base))
	})
	return p
}

// in is the same person in a subtest.
func (p *person) in(t *testing.T) *person {
	same := *p
	same.t = t
	return &same
}

// serversMade is held while the folder of servers is filled: a program that is
// being written cannot be run.
var serversMade sync.Mutex

// servers is a folder with all server binaries that any user may read.
func servers(t *testing.T) string {
	t.Helper()
	serversMade.Lock()
	defer serversMade.Unlock()
	dir := filepath.Join(filepath.Dir(binary), "servers")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "prometheus", "promtool", "alertmanager", "amtool"} {
		to := filepath.Join(dir, name)
		if _, err := os.Stat(to); err == nil {
			continue
		}
		if err := os.Link(testkit.Binary(t, name), to); err != nil {
			// Another file system: copy.
			b, err := os.ReadFile(testkit.Binary(t, name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(to, b, 0o755))
		}
	}
	return dir
}

// becomeOrdinary makes the person an ordinary user where the tests run as root.
// Elsewhere they are one already.
func (p *person) becomeOrdinary() {
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	p.uid = nobody
	require.NoError(p.t, os.Chmod(filepath.Dir(p.home), 0o755))
	require.NoError(p.t, os.Chown(p.home, nobody, nobody))
}

func (p *person) command(ctx context.Context, args ...string) *exec.Cmd {
	args = append(args, "--instance", strconv.Itoa(p.instance))
	if args[0] == "up" || args[0] == "demo" {
		args = append(args, "--bin-dir", p.bin)
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH")}
	if p.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.uid, Gid: p.uid}}
	}
	return cmd
}

// pharos runs a command to its end and returns what it printed.
func (p *person) pharos(args ...string) (string, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	var out, stderr bytes.Buffer
	cmd := p.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	p.t.Logf("pharos %s (%v)\n%s", strings.Join(args, " "), err, stderr.String())
	if err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, lastLine(stderr.String()))
	}
	return out.String(), nil
}

func (p *person) must(args ...string) string {
	p.t.Helper()
	out, err := p.pharos(args...)
	require.NoError(p.t, err)
	return out
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func (p *person) stateDir() string {
	return filepath.Join(p.home, ".local", "state", "pharos", fmt.Sprintf("fleet-%d", p.instance))
}

func (p *person) fleet() *local.Fleet {
	p.t.Helper()
	f, err := local.Open(p.instance, p.stateDir())
	require.NoError(p.t, err)
	return f
}

func (p *person) status() local.Report {
	p.t.Helper()
	var r local.Report
	require.NoError(p.t, json.Unmarshal([]byte(p.must("status", "-o", "json")), &r))
	return r
}

// requireNothingLeft looks at the machine itself, not at what pharos says.
func (p *person) requireNothingLeft() {
	p.t.Helper()
	left, err := proc.Marked(layout.FleetEnv, p.stateDir())
	require.NoError(p.t, err)
	require.Empty(p.t, left, "processes")
	listeners, err := proc.Listeners()
	require.NoError(p.t, err)
	l := p.fleet().Layout
	for _, at := range listeners {
		ours := slices.ContainsFunc(l.Listeners(), func(x layout.Listener) bool { return x.Address == at.Address.String() })
		b := at.Address.Addr().As16()
		ours = ours || b[12] == 127 && b[13] == byte(64+p.instance)
		require.False(p.t, ours, "%s is still listened on", at.Address)
	}
	var files []string
	require.NoError(p.t, filepath.WalkDir(p.home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	require.Empty(p.t, files, "files")
}

// eventually polls until the check says nothing is missing.
func eventually(t *testing.T, within time.Duration, what string, missing func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		why := missing()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %s", what, within, why)
		}
		time.Sleep(time.Second)
	}
}
