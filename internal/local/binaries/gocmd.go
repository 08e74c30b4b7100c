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
	mark          string // value of workVariable in every process of the build
}

// runGo runs the go command in a process group of its own and returns the end
// of its output. When it returns, or this program is killed, no process of the
// group is left.
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
	env := goEnv(os.Environ(), r)
	g, err := newGroup(env)
	if err != nil {
		return "", err
	}
	defer g.end()
	cmd := exec.CommandContext(ctx, path, r.args...)
	cmd.Dir, cmd.Env = r.dir, env
	cmd.Stdout, cmd.Stderr = t, t
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.id()}
	// An interrupt lets the go command remove its own temporary files.
	cmd.Cancel = func() error { return unix.Kill(-g.id(), unix.SIGINT) }
	cmd.WaitDelay = interruptGrace
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting %s: %w", path, err)
	}
	err = cmd.Wait()
	return string(t.tail), err
}

// goEnv is the user's environment without what would change the result: flags,
// a workspace, another target platform. Where modules come from stays theirs.
// Values are set, not dropped, because `go env -w` may hold others, save those
// for which no value means "as the go command is made".
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
		workVariable + "=" + r.mark,
	}
	return append(slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return unfit(name, value) || slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	}), own...)
}

// unfit are settings of the user's that would build with another Go, build
// something else, or build nothing. That no toolchain may be downloaded is a
// wish that is kept.
func unfit(name, value string) bool {
	switch name {
	case "GOROOT", "GOEXPERIMENT":
		return true
	case "GOCACHE":
		return !filepath.IsAbs(value)
	case "GOTOOLCHAIN":
		return value != "local" && value != "auto" && value != "path"
	}
	return false
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
