package binaries

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// workVariable is in the environment of every process of a build; its value is
// the cache. It tells the next builder whom a builder left that was killed.
const workVariable = "PHAROS_BUILD"

// guarding is the life of a group's leader: it waits until the other end of its
// input is closed, and then kills the group, itself included.
const guarding = `trap '' INT TERM HUP; read -r _; kill -KILL 0`

// group is a process group that cannot outlive this program. A parent-death
// signal would end the go command only, and not the compilers that it started;
// the leader notices the death of this program by its closed pipe.
type group struct {
	leader *exec.Cmd
	held   io.Closer
}

func newGroup(env []string) (*group, error) {
	leader := exec.Command("/bin/sh", "-c", guarding)
	leader.Env, leader.Dir = env, "/"
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	held, err := leader.StdinPipe()
	if err == nil {
		err = leader.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the guard of the compilers: %w", err)
	}
	return &group{leader: leader, held: held}, nil
}

func (g *group) id() int { return g.leader.Process.Pid }

// end kills what is left of the group and waits until it is gone, so that
// nothing writes any more into the folder that is about to be removed.
func (g *group) end() {
	_ = unix.Kill(-g.id(), unix.SIGKILL) // the leader is not waited for yet, so the group is still ours
	_ = g.held.Close()
	_ = g.leader.Wait() // it was killed
	for deadline := time.Now().Add(interruptGrace); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if errors.Is(unix.Kill(-g.id(), unix.SIGKILL), unix.ESRCH) {
			return
		}
	}
}
