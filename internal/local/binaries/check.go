package binaries

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// checkTimeout bounds the answer of one binary to --version.
const checkTimeout = 5 * time.Second

// check refuses a binary that is not there, does not run or is not the version
// that the component asks for. The version is the one it reports; a program
// built by go install may not know it, and then its build record decides.
func (c Component) check(ctx context.Context, path string) error {
	if err := executable(path); err != nil {
		return err
	}
	out, err := askVersion(ctx, path)
	if err != nil {
		return fmt.Errorf("%s does not answer --version: %w", c.Name, err)
	}
	if c.reported(out) || c.recorded(path) {
		return nil
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return fmt.Errorf("%s is not version %s but reports %q", c.Name, c.reports, line)
}

// askVersion runs the program in a process group of its own, all of which is
// gone when it returns: whatever the program is, it neither hangs us by what it
// started nor lives on when we are killed.
func askVersion(ctx context.Context, path string) ([]byte, error) {
	// The kernel ties the parent-death signal to the thread that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what it left; most leave nothing
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("it was ended after %s without an answer", checkTimeout)
	}
	return out, err
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
