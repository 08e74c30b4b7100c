package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/process"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// starter runs a Starter for the test, and returns what ends it.
func starter(t *testing.T) (*process.Starter, func()) {
	t.Helper()
	s := process.NewStarter()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	stop := func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return s, stop
}

func shell(script string, out *testkit.Said) process.Spec {
	return process.Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"X=y", "PATH=/usr/bin:/bin"}, Dir: "/", Output: out}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func gone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ") // an orphan may wait for its new parent
	}, 5*time.Second, 10*time.Millisecond, "process %d is there", pid)
}

func TestExit(t *testing.T) {
	s, _ := starter(t)
	for script, want := range map[string][2]int32{"exit 0": {0, 0}, "exit 7": {7, 0}, "kill -9 $$": {137, 9}, "kill -15 $$": {143, 15}} {
		p, err := s.Start(shell(script, &testkit.Said{}))
		require.NoError(t, err)
		e := p.Exit()
		require.Equal(t, want, [2]int32{e.Code, e.Signal}, script)
		require.False(t, e.FinishedAt.Before(e.StartedAt))
	}
}

func TestEnvironmentAndOutput(t *testing.T) {
	s, _ := starter(t)
	out := &testkit.Said{}
	p, err := s.Start(shell("echo $X $HOME; pwd; echo err >&2", out))
	require.NoError(t, err)
	p.Exit()
	require.Equal(t, "y\n/\nerr\n", out.String())
}

func TestStartErrors(t *testing.T) {
	s, stop := starter(t)
	_, err := s.Start(process.Spec{Path: "/no/such", Output: &testkit.Said{}})
	require.ErrorContains(t, err, "/no/such")
	stop()
	_, err = s.Start(shell("true", &testkit.Said{}))
	require.ErrorIs(t, err, process.ErrClosed)
}

// trapping starts a shell that answers SIGTERM with a command, and waits until it
// is ready to.
func trapping(t *testing.T, s *process.Starter, answer string) *process.Process {
	t.Helper()
	out := &testkit.Said{}
	p, err := s.Start(shell("trap '"+answer+"' TERM; echo ready; while :; do sleep 0.05; done", out))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return out.String() == "ready\n" }, time.Minute, 10*time.Millisecond)
	return p
}

func TestStop(t *testing.T) {
	s, _ := starter(t)
	polite := trapping(t, s, "exit 3")
	require.Equal(t, int32(3), polite.Stop(t.Context(), 5*time.Second).Code)

	deaf := trapping(t, s, "")
	began := time.Now()
	require.Equal(t, int32(9), deaf.Stop(t.Context(), 300*time.Millisecond).Signal)
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)

	hurried := trapping(t, s, "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Equal(t, int32(9), hurried.Stop(ctx, time.Hour).Signal)
}

func TestTheGroupGoesWithItsLeader(t *testing.T) {
	s, _ := starter(t)
	out := &testkit.Said{}
	p, err := s.Start(shell("sleep 1000 & echo $!", out))
	require.NoError(t, err)
	p.Exit()
	child, err := strconv.Atoi(strings.TrimSpace(out.String()))
	require.NoError(t, err)
	gone(t, child)
}

func TestProcessesEndWithTheStarter(t *testing.T) {
	s, stop := starter(t)
	p, err := s.Start(shell("sleep 1000", &testkit.Said{}))
	require.NoError(t, err)
	require.True(t, alive(p.PID()))
	stop()
	require.Equal(t, int32(9), p.Exit().Signal)
}

func TestKillStrays(t *testing.T) {
	mark := t.TempDir()
	start := func(value string) *exec.Cmd {
		c := exec.Command("sleep", "1000")
		c.Env = []string{"A=b", "STRAY_MARK=" + value}
		require.NoError(t, c.Start())
		go func() { _ = c.Wait() }()
		return c
	}
	exact, below, other := start(mark), start(mark+"/x"), start(mark+"-other")
	defer func() { _ = other.Process.Kill() }()
	n, err := process.KillStrays("STRAY_MARK", mark)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	gone(t, exact.Process.Pid)
	gone(t, below.Process.Pid)
	require.True(t, alive(other.Process.Pid), "only whole path elements count")
	n, err = process.KillStrays("STRAY_MARK", mark)
	require.NoError(t, err)
	require.Zero(t, n)
}
