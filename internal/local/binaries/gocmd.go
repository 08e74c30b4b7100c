package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// interruptGrace is how long the compilers have to end by themselves.
	interruptGrace = 3 * time.Second
	// tailBytes of the output are kept in memory to find the cause of a failure.
	tailBytes = 64 << 10
)

// goRun is one run of the go command.
type goRun struct {
	args          []string
	dir, bin, tmp string // working folder; folder for go install; temporary files
	log           string // file that keeps the whole output
}

// runGo runs the go command in a process group of its own and returns the end
// of its output. When it returns, no process of the group is left.
func runGo(ctx context.Context, r goRun) (output string, err error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	t, err := newTranscript(r.log)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	cmd := exec.CommandContext(ctx, path, r.args...)
	cmd.Dir, cmd.Env = r.dir, goEnv(os.Environ(), r)
	cmd.Stdout, cmd.Stderr = t, t
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// An interrupt lets the go command remove its own temporary files.
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGINT) }
	cmd.WaitDelay = interruptGrace
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting %s: %w", path, err)
	}
	err = cmd.Wait()
	endGroup(cmd.Process.Pid)
	return string(t.tail), err
}

// endGroup kills what is left of a process group and waits until it is gone, so
// that nothing writes any more into the folder that is about to be removed.
func endGroup(group int) {
	for deadline := time.Now().Add(interruptGrace); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if errors.Is(unix.Kill(-group, unix.SIGKILL), unix.ESRCH) {
			return
		}
	}
}

// goEnv is the user's environment without what would change the result: flags,
// a workspace, another target platform. Where modules come from stays theirs.
// Values are set, not dropped, because `go env -w` may hold others.
func goEnv(environ []string, r goRun) []string {
	own := []string{
		"GOFLAGS=-buildvcs=false",
		"GOWORK=off",
		"GO111MODULE=on",
		"GOOS=" + runtime.GOOS,
		"GOARCH=" + runtime.GOARCH,
		"GOBIN=" + r.bin,
		"GOTMPDIR=" + r.tmp,
		"TMPDIR=" + r.tmp,
		"PWD=" + r.dir,
	}
	return append(slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	}), own...)
}

// transcript keeps the whole output in a file and its end in memory.
type transcript struct {
	file *os.File
	tail []byte
}

func newTranscript(path string) (*transcript, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of build logs: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("making the build log: %w", err)
	}
	return &transcript{file: file}, nil
}

// Write never fails: on a full disk the log is cut short, but the compiler's
// own words about it still reach the user.
func (t *transcript) Write(p []byte) (int, error) {
	_, _ = t.file.Write(p)
	t.tail = append(t.tail, p...)
	if over := len(t.tail) - tailBytes; over > 0 {
		t.tail = slices.Delete(t.tail, 0, over)
	}
	return len(p), nil
}

func (t *transcript) close() error {
	if err := t.file.Close(); err != nil && !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("closing the build log: %w", err)
	}
	return nil
}
