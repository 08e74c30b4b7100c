package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	firstPause = 250 * time.Millisecond
	longPause  = 10 * time.Second
	// settled is how long a process must have run for the next pause to be short again.
	settled = 30 * time.Second
	// outputGrace is how long output is read after a process has ended, when
	// something that it left behind keeps the pipe open.
	outputGrace = time.Second
)

// runComponent keeps one component running until its stop phase.
func (s *Supervisor) runComponent(c Component) {
	stop := s.stop[c.StopPhase].opened()
	defer s.rec.set(c.Name, ReasonStopped, "", func(st *ComponentStatus) { st.State, st.PID = StateStopped, 0 })
	if stopped := s.awaitTurn(c, stop); stopped {
		return
	}
	pause := newPause()
	for {
		started := time.Now()
		if stopped := s.runOnce(c, stop); stopped {
			return
		}
		if time.Since(started) > settled {
			pause.Reset()
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-stop:
			return
		}
	}
}

// awaitTurn waits for what the component needs. It returns true when the
// component was told to stop meanwhile.
func (s *Supervisor) awaitTurn(c Component, stop <-chan struct{}) bool {
	for _, name := range c.After {
		select {
		case <-s.ready[name].opened():
		case <-stop:
			return true
		}
	}
	for c.AfterFile != "" {
		if _, err := os.Stat(c.AfterFile); err == nil {
			break
		}
		select {
		case <-time.After(probeInterval):
		case <-stop:
			return true
		}
	}
	return false
}

func newPause() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstPause),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(longPause),
		backoff.WithMaxElapsedTime(0),
	)
}

// runOnce runs the process once. It returns true when the process was told to stop.
func (s *Supervisor) runOnce(c Component, stop <-chan struct{}) bool {
	output := s.newLog(c.Name)
	defer func() { _ = output.Close() }()
	cmd := command(c, output)
	if err := s.spawn.start(cmd); err != nil {
		s.failed(c, ReasonStartFailed, fmt.Sprintf("starting %s: %v", c.Path, err))
		return false
	}
	pid := cmd.Process.Pid
	s.rec.set(c.Name, ReasonStarted, fmt.Sprintf("process %d", pid), func(st *ComponentStatus) { st.State, st.PID = StateStarting, pid })

	exited := make(chan error, 1)
	go func() { exited <- s.spawn.wait(cmd) }()
	w := s.watch(c)
	defer w.end()
	select {
	case err := <-exited:
		w.end()
		s.failed(c, ReasonExited, ending(cmd, err))
		return false
	case <-w.hung:
		_ = terminate(cmd, exited, c.stopGrace()) // how it ends says nothing: it was told to
		s.failed(c, ReasonHung, fmt.Sprintf("did not answer for %s and was ended", s.hungAfter))
		return false
	case <-stop:
		w.end()
		_ = terminate(cmd, exited, c.stopGrace()) // it was told to: any end will do
		return true
	}
}

func (s *Supervisor) failed(c Component, reason Reason, message string) {
	s.rec.set(c.Name, reason, message, func(st *ComponentStatus) { fail(st, message) })
}

func fail(st *ComponentStatus, message string) {
	st.State, st.PID, st.Message = StateBackOff, 0, message
	st.Restarts++
}

func command(c Component, output io.Writer) *exec.Cmd {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = c.Env
	cmd.Dir = "/"
	cmd.Stdout = lossy{output}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = outputGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// terminate asks the process to end, then kills its process group, and returns how it ended.
func terminate(cmd *exec.Cmd, exited <-chan error, grace time.Duration) error {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-exited:
		return err
	case <-timer.C:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return <-exited
	}
}

// ending says for a person how the process ended.
func ending(cmd *exec.Cmd, err error) string {
	if err == nil {
		return "ended by itself with exit status 0"
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return "ended by itself: " + cmd.ProcessState.String()
	}
	return fmt.Sprintf("ended by itself: %v", err)
}

// lossy drops what cannot be written: a full disk must not close the pipe that
// a component writes its log to, which would kill it.
type lossy struct{ w io.Writer }

func (l lossy) Write(p []byte) (int, error) {
	if _, err := l.w.Write(p); err != nil && !errors.Is(err, os.ErrClosed) {
		return len(p), nil
	}
	return len(p), nil
}
