package supervisor

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pharos-fleet/pharos/internal/local/proc"
)

// spawner starts processes from one OS thread that lives as long as the
// supervisor. The kernel sends a parent-death signal when the thread that
// started the process ends, and Go ends threads as it likes.
type spawner struct {
	requests chan spawnRequest

	mu    sync.Mutex
	known map[int]bool
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

func newSpawner() *spawner {
	return &spawner{requests: make(chan spawnRequest), known: map[int]bool{}}
}

func (s *spawner) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	for r := range s.requests {
		r.done <- s.startKnown(r.cmd)
	}
}

// startKnown holds the lock over the start, so that the reaper never sees a
// child that it does not know.
func (s *spawner) startKnown(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.known[cmd.Process.Pid] = true
	return nil
}

func (s *spawner) close() { close(s.requests) }

func (s *spawner) start(cmd *exec.Cmd) error {
	r := spawnRequest{cmd: cmd, done: make(chan error, 1)}
	s.requests <- r
	return <-r.done
}

// wait waits for a process that start started.
func (s *spawner) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, cmd.Process.Pid)
	return err
}

// reapOrphans takes ended orphans off the process table until ctx is done.
func (s *spawner) reapOrphans(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			s.reap()
		}
	}
}

// reap leaves the children that start started to their own wait.
func (s *spawner) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	zombies, err := proc.Zombies(os.Getpid())
	if err != nil {
		return
	}
	for _, pid := range zombies {
		if !s.known[pid] {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}
