package proc_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/proc"
)

const mark = "PHAROS_PROC_TEST"

// sleeper starts a process, marked or not, that lasts until it is killed.
func sleeper(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	cmd.Env = append(os.Environ(), env...)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd
}

func pids(all []proc.Process) []int {
	var found []int
	for _, p := range all {
		found = append(found, p.PID)
	}
	return found
}

func TestKillMarkedLeavesOthersAlone(t *testing.T) {
	value := t.TempDir()
	ours, theirs, nearly := sleeper(t, mark+"="+value), sleeper(t), sleeper(t, mark+"="+value+"x")

	found, err := proc.Marked(mark, value)
	require.NoError(t, err)
	require.Equal(t, []int{ours.Process.Pid}, pids(found))
	require.Equal(t, os.Getpid(), found[0].Parent)
	require.Equal(t, "sleep", found[0].Program)
	require.Equal(t, "sleep 300", found[0].Command)
	require.Positive(t, found[0].ResidentBytes)

	killed, err := proc.KillMarked(mark, value, time.Now().Add(5*time.Second))
	require.NoError(t, err)
	require.Equal(t, []int{ours.Process.Pid}, pids(killed))
	found, err = proc.Marked(mark, value)
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, syscall.Kill(theirs.Process.Pid, 0), "an unmarked process lives")
	require.NoError(t, syscall.Kill(nearly.Process.Pid, 0), "a process of another fleet lives")
}

func TestKillMarkedReachesGrandchildren(t *testing.T) {
	value := t.TempDir()
	cmd := exec.Command("sh", "-c", "(sleep 300 & sleep 300 & wait) & exit 0")
	cmd.Env = append(os.Environ(), mark+"="+value)
	require.NoError(t, cmd.Run())
	found, err := proc.Marked(mark, value)
	require.NoError(t, err)
	require.NotEmpty(t, found, "orphans are found")
	_, err = proc.KillMarked(mark, value, time.Now().Add(5*time.Second))
	require.NoError(t, err)
	found, err = proc.Marked(mark, value)
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestSignalNeedsTheMark(t *testing.T) {
	value := t.TempDir()
	theirs := sleeper(t)
	require.NoError(t, proc.Signal(theirs.Process.Pid, mark, value, syscall.SIGKILL))
	require.NoError(t, syscall.Kill(theirs.Process.Pid, 0))
	require.False(t, proc.IsMarked(theirs.Process.Pid, mark, value))

	ours := sleeper(t, mark+"="+value)
	require.True(t, proc.IsMarked(ours.Process.Pid, mark, value))
	require.NoError(t, proc.Signal(ours.Process.Pid, mark, value, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !proc.IsMarked(ours.Process.Pid, mark, value) }, time.Minute, 10*time.Millisecond)
	require.NoError(t, proc.Signal(1<<30, mark, value, syscall.SIGKILL), "a process that is gone is no error")
}

func TestListenerAndOwner(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "127.64.9.9:0", "0.0.0.0:0"} {
		l, err := net.Listen("tcp4", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		at := netip.MustParseAddrPort(l.Addr().String())
		require.Error(t, proc.Free(l.Addr().String()))

		all, err := proc.Listeners()
		require.NoError(t, err)
		var addresses []netip.AddrPort
		for _, found := range all {
			addresses = append(addresses, found.Address)
		}
		require.Contains(t, addresses, at)
		owner, ok := proc.Owner(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port()))
		if at.Addr() == netip.MustParseAddr("127.64.9.9") {
			require.False(t, ok, "another address of the same port is free")
			continue
		}
		require.True(t, ok)
		require.Equal(t, os.Getpid(), owner.PID)
	}
}

func TestFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.ErrorIs(t, proc.Free(address), syscall.EADDRINUSE)
	require.NoError(t, l.Close())
	require.NoError(t, proc.Free(address))
	_, ok := proc.Owner(netip.MustParseAddrPort(address))
	require.False(t, ok)
}

func TestSummary(t *testing.T) {
	all := []proc.Process{{PID: 1, Program: "a b"}, {PID: 2, Program: "c"}, {PID: 3, Program: "d"}, {PID: 4, Program: "e"}, {PID: 5, Program: "f"}}
	require.Equal(t, "a b (process 1), c (process 2), d (process 3) and 2 more", proc.Summary(all))
	require.Equal(t, "c (process 2)", proc.Summary(all[1:2]))
}
