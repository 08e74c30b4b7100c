// Package process runs host processes that cannot outlive the program that started them. Every process leads a process
// group of its own, and carries a parent-death signal. It knows nothing of pods.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// drainTimeout is how long the output of a process is read after its end, when a child of it still holds the pipe.
const drainTimeout = 300 * time.Millisecond

// ErrClosed is returned by Starter.Start when the Starter does not run.
var ErrClosed = errors.New("the process starter has ended")

// Spec says what to run.
type Spec struct {
	// Path is the absolute path of the program.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// Env is the whole environment, as NAME=value.
	Env []string
	// Dir is the working directory.
	Dir string
	// Output receives standard output and standard error. It must not return errors: a writer that does would break the
	// program's pipe.
	Output io.Writer
}

// Exit says how a process ended.
type Exit struct {
	// Code is the exit code, or 128 plus the signal's number.
	Code int32
	// Signal is the signal that ended the process, 0 for none.
	Signal int32
	// StartedAt and FinishedAt bound its life.
	StartedAt, FinishedAt time.Time
}

// Starter starts processes from one operating system thread. The kernel ties a parent-death signal to the thread that
// forked, and Go ends threads as it likes; so the forking thread is held for as long as processes may run.
type Starter struct {
	requests chan startRequest
	ended    chan struct{}
}

type startRequest struct {
	cmd    *exec.Cmd
	result chan error
}

// NewStarter returns a Starter, which starts nothing until Run is called.
func NewStarter() *Starter {
	return &Starter{requests: make(chan startRequest), ended: make(chan struct{})}
}

// Run serves Start until the context ends. The thread ends with it, and so does, by SIGKILL, every process that was
// started and still runs.
func (s *Starter) Run(ctx context.Context) {
	defer close(s.ended)
	onThread(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case r := <-s.requests:
				r.result <- r.cmd.Start()
			}
		}
	})
}

// onThread runs a function on a thread that ends with it. Go keeps a process's first thread for as long as the process
// lives: a goroutine that finds itself there holds that thread, so that the next gets another.
func onThread(run func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // unlocked on the first thread only: any other must end with this goroutine
		if syscall.Gettid() != os.Getpid() {
			run()
			return
		}
		onThread(run)
		runtime.UnlockOSThread()
	}()
	<-done
}

// Start starts a process in a new process group. It returns an error when the program cannot be executed, and ErrClosed
// after the end of Run.
func (s *Starter) Start(spec Spec) (*Process, error) {
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = spec.Output, spec.Output
	cmd.WaitDelay = drainTimeout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	r := startRequest{cmd: cmd, result: make(chan error, 1)}
	select {
	case s.requests <- r:
	case <-s.ended:
		return nil, ErrClosed
	}
	if err := <-r.result; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Path, err)
	}
	p := &Process{cmd: cmd, startedAt: time.Now(), done: make(chan struct{})}
	go p.wait()
	return p, nil
}

// Process is one running or ended process and its group.
type Process struct {
	cmd       *exec.Cmd
	startedAt time.Time
	done      chan struct{}
	exit      Exit
	killOnce  sync.Once
}

// PID returns the process id, which is the process group's id, too.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// StartedAt returns when the process was started.
func (p *Process) StartedAt() time.Time { return p.startedAt }

// Done is closed once the process has ended, its group was killed and its output was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended. It waits for the end.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// wait is the goroutine that owns the process.
func (p *Process) wait() {
	defer close(p.done)
	_ = p.cmd.Wait() // the state says more than the error
	p.exit = exitOf(p.cmd.ProcessState, p.startedAt, time.Now())
	p.signal(syscall.SIGKILL) // whatever the program left in its group
}

// Stop asks the process group to end by SIGTERM, kills it when the grace is over or the context ends, and waits.
func (p *Process) Stop(ctx context.Context, grace time.Duration) Exit {
	if grace > 0 {
		p.signal(syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	p.Kill()
	return p.Exit()
}

// Kill ends the process group at once.
func (p *Process) Kill() {
	p.killOnce.Do(func() { p.signal(syscall.SIGKILL) })
}

func (p *Process) signal(sig syscall.Signal) {
	// ESRCH means that the group is gone, which is what is wanted.
	_ = syscall.Kill(-p.cmd.Process.Pid, sig)
}

func exitOf(state *os.ProcessState, startedAt, finishedAt time.Time) Exit {
	e := Exit{Code: int32(state.ExitCode()), StartedAt: startedAt, FinishedAt: finishedAt}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = int32(ws.Signal())
		e.Code = 128 + e.Signal
	}
	return e
}
