package supervisor_test

import (
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

// serving is a component that is ready when it answers over HTTP: this test
// program, run again as TestHelperServer.
func serving(t *testing.T, name, dir string) supervisor.Component {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	return supervisor.Component{
		Name: name, Path: os.Args[0], Args: []string{"-test.run=^TestHelperServer$"},
		Env:             []string{mark + "=" + dir, "SERVER_TEST_ADDRESS=" + address},
		Ready:           supervisor.Probe{URL: "http://" + address},
		StopGraceMillis: 200,
	}
}

// TestHelperServer is the process that the tests of hanging stop.
func TestHelperServer(t *testing.T) {
	address := os.Getenv("SERVER_TEST_ADDRESS")
	if address == "" {
		return
	}
	t.Log(http.ListenAndServe(address, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}

func runPatient(t *testing.T, dir string, all ...supervisor.Component) *world {
	t.Helper()
	o := options(dir, all...)
	o.HungAfter = time.Second
	return start(t, dir, o)
}

func TestRestartsWhatHangs(t *testing.T) {
	dir := t.TempDir()
	w := runPatient(t, dir, serving(t, "mute", dir), shell("other", dir, "exec sleep 300"))
	first := w.await("mute", supervisor.StateReady)
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGSTOP))
	w.await("mute", supervisor.StateUnready)
	require.Eventually(t, func() bool { return w.component("mute").Restarts == 1 }, 30*time.Second, 10*time.Millisecond)
	second := w.await("mute", supervisor.StateReady)
	require.NotEqual(t, first.PID, second.PID)
	require.True(t, gone(first.PID))
	require.Equal(t, "did not answer for 1s and was ended", second.Message)
	require.Zero(t, w.component("other").Restarts, "what has no probe cannot hang")
}

// A process that answers again in time goes on.
func TestLeavesWhatAnswersAgain(t *testing.T) {
	dir := t.TempDir()
	o := options(dir, serving(t, "slow", dir))
	o.HungAfter = 30 * time.Second
	w := start(t, dir, o)
	first := w.await("slow", supervisor.StateReady)
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGSTOP))
	w.await("slow", supervisor.StateUnready)
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGCONT))
	again := w.await("slow", supervisor.StateReady)
	require.Equal(t, first.PID, again.PID)
	require.Zero(t, again.Restarts)
}

// What needs a hanging process is not held to account for it.
func TestDependantsOfWhatHangsGoOn(t *testing.T) {
	dir := t.TempDir()
	store, server := serving(t, "store", dir), serving(t, "server", dir)
	server.After = []string{"store"}
	store.StopGraceMillis = 4_000 // the store takes its time to end
	w := runPatient(t, dir, store, server)
	first := w.await("server", supervisor.StateReady)
	storePID := w.component("store").PID
	require.NoError(t, syscall.Kill(storePID, syscall.SIGSTOP))
	w.await("store", supervisor.StateUnready)
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGSTOP))
	require.Eventually(t, func() bool { return w.component("store").Restarts == 1 }, 30*time.Second, 10*time.Millisecond)
	require.Zero(t, w.component("server").Restarts)
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGCONT))
	require.Equal(t, first.PID, w.await("server", supervisor.StateReady).PID)
}
