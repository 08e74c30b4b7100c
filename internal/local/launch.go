package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

const (
	// stopTimeout is how long a supervisor may take to end its components.
	stopTimeout = 7500 * time.Millisecond
	// killTimeout is how long processes may take to end after SIGKILL.
	killTimeout = 2 * time.Second
	// unlockTimeout is how long the kernel may take to let go of their locks.
	unlockTimeout = time.Second
	// silenceTimeout is how long the kernel may take to close their sockets.
	silenceTimeout = 3 * time.Second
)

// File descriptors that the supervisor inherits, after the three standard ones.
const (
	// lockFD keeps the state folder locked.
	lockFD = 3
	// leashFD ends the supervisor when its other end is closed before a byte was
	// written: the starting program is gone.
	leashFD = 4
)

// released is the byte by which the starting program lets the fleet go on alone.
const released = 'r'

// handle is the starting program's hold on the supervisor.
type handle struct {
	pid   int
	leash *os.File
	// exited is closed once the supervisor has ended; err, which is set before,
	// says how. Any number may wait for it.
	exited chan struct{}
	err    error
}

// startSupervisor starts the supervisor in a session of its own, so that the
// signals of the terminal do not reach it.
func startSupervisor(l layout.Layout, lock *os.File) (*handle, error) {
	held, leash, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	defer func() { _ = held.Close() }()
	log, err := os.OpenFile(l.LogFile("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the supervisor: %w", err), leash.Close())
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(l.Pharos(), "local", "supervise", "--instance", strconv.Itoa(l.Instance), "--state-dir", l.Dir)
	cmd.Env = append(os.Environ(), layout.FleetEnv+"="+l.Dir)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock, held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the supervisor: %w", err), leash.Close())
	}
	h := &handle{pid: cmd.Process.Pid, leash: leash, exited: make(chan struct{})}
	go func() {
		defer close(h.exited)
		h.err = cmd.Wait()
	}()
	return h, nil
}

// release lets the supervisor go on when this program ends.
func (h *handle) release() error {
	_, err := h.leash.Write([]byte{released})
	if err = errors.Join(err, h.leash.Close()); err != nil {
		return fmt.Errorf("releasing the supervisor: %w", err)
	}
	return nil
}

// abandon ends the supervisor and waits for it.
func (h *handle) abandon() error {
	_ = h.leash.Close()
	select {
	case <-h.exited:
	case <-time.After(stopTimeout):
		if err := syscall.Kill(h.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending the supervisor: %w", err)
		}
		<-h.exited
	}
	if _, told := errors.AsType[*exec.ExitError](h.err); told {
		return nil // it was told to end: any status will do
	}
	return h.err
}

// Supervise runs the fleet's processes until ctx is done or the program that
// started it is gone before it let go. It is what the supervisor process runs.
func Supervise(ctx context.Context, l layout.Layout, log *slog.Logger) error {
	// Inherited by this process only: the components must not hold the lock.
	unix.CloseOnExec(lockFD)
	unix.CloseOnExec(leashFD)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	plan, err := supervisor.ReadPlan(l.PlanFile())
	if err != nil {
		return err
	}
	s, err := supervisor.New(supervisor.Options{
		Plan: plan, StatusFile: l.StatusFile(), EventsFile: l.EventsFile(), LogDir: l.LogDir(), Log: log,
	})
	if err != nil {
		return err
	}
	if err := pki.WriteSecret(l.PIDFile(), []byte(strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return err
	}
	leash := os.NewFile(leashFD, "leash")
	go func() { // ends with the process at the latest: nothing else closes the leash
		if b := make([]byte, 1); !readOne(leash, b) || b[0] != released {
			log.Info("ending: the program that started the fleet is gone")
			cancel()
		}
	}()
	return s.Run(ctx)
}

func readOne(f *os.File, b []byte) bool {
	n, err := f.Read(b)
	return err == nil && n == 1
}
