package supervisor_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/proc"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

const mark = "PHAROS_SUPERVISOR_TEST"

// world is a supervisor that runs in this process, over a folder of its own.
type world struct {
	t    *testing.T
	dir  string
	stop context.CancelFunc
	done chan error
	s    *supervisor.Supervisor
}

func options(dir string, all ...supervisor.Component) supervisor.Options {
	return supervisor.Options{
		Plan:       supervisor.Plan{Components: all},
		StatusFile: filepath.Join(dir, "status.json"),
		EventsFile: filepath.Join(dir, "events.jsonl"),
		LogDir:     filepath.Join(dir, "logs"),
		Log:        slog.New(slog.DiscardHandler),
	}
}

func run(t *testing.T, dir string, all ...supervisor.Component) *world {
	t.Helper()
	return start(t, dir, options(dir, all...))
}

func start(t *testing.T, dir string, o supervisor.Options) *world {
	t.Helper()
	s, err := supervisor.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{t: t, dir: dir, stop: cancel, done: make(chan error, 1), s: s}
	go func() { w.done <- s.Run(ctx) }()
	t.Cleanup(func() { w.end() })
	return w
}

func (w *world) end() {
	w.stop()
	if err, open := <-w.done; open {
		require.NoError(w.t, err)
		close(w.done)
	}
}

func (w *world) component(name string) supervisor.ComponentStatus {
	w.t.Helper()
	status, err := supervisor.ReadStatus(filepath.Join(w.dir, "status.json"))
	require.NoError(w.t, err)
	c, ok := status.Component(name)
	require.True(w.t, ok, name)
	return c
}

func (w *world) await(name string, state supervisor.State) supervisor.ComponentStatus {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.component(name).State == state }, time.Minute, 10*time.Millisecond,
		"%s: %s", name, state)
	return w.component(name)
}

func (w *world) events() []supervisor.Event {
	w.t.Helper()
	f, err := os.Open(filepath.Join(w.dir, "events.jsonl"))
	require.NoError(w.t, err)
	defer func() { _ = f.Close() }()
	var all []supervisor.Event
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e supervisor.Event
		require.NoError(w.t, json.Unmarshal(lines.Bytes(), &e))
		all = append(all, e)
	}
	return all
}

// shell is a component that runs a script.
func shell(name, dir, script string) supervisor.Component {
	return supervisor.Component{
		Name: name, Path: "/bin/sh", Args: []string{"-c", script},
		Env:             []string{mark + "=" + dir, "PATH=" + os.Getenv("PATH")},
		StopGraceMillis: 2000,
	}
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func TestRestartsWhatWasKilledAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	w := run(t, dir, shell("one", dir, "exec sleep 300"))
	first := w.await("one", supervisor.StateReady)
	require.Zero(t, first.Restarts)
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))
	require.Eventually(t, func() bool { return w.component("one").Restarts == 1 }, time.Minute, 10*time.Millisecond)
	second := w.await("one", supervisor.StateReady)
	require.NotEqual(t, first.PID, second.PID)
	require.Contains(t, second.Message, "signal: killed")

	w.end()
	require.True(t, gone(second.PID))
	require.Equal(t, supervisor.StateStopped, w.component("one").State)
	var reasons []supervisor.Reason
	for _, e := range w.events() {
		reasons = append(reasons, e.Reason)
	}
	require.Equal(t, []supervisor.Reason{
		supervisor.ReasonStarted, supervisor.ReasonReady, supervisor.ReasonExited,
		supervisor.ReasonStarted, supervisor.ReasonReady, supervisor.ReasonStopped,
	}, reasons)
}

func TestWaitsForWhatItNeeds(t *testing.T) {
	dir := t.TempDir()
	var serving atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !serving.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	store := shell("store", dir, "exec sleep 300")
	store.Ready = supervisor.Probe{URL: server.URL}
	user := shell("user", dir, "exec sleep 300")
	user.After, user.AfterFile = []string{"store"}, filepath.Join(dir, "prepared")
	w := run(t, dir, store, user)

	w.await("store", supervisor.StateStarting)
	require.Equal(t, supervisor.StateWaiting, w.component("user").State)
	serving.Store(true)
	w.await("store", supervisor.StateReady)
	time.Sleep(300 * time.Millisecond)
	require.Equal(t, supervisor.StateWaiting, w.component("user").State, "the file is not there yet")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prepared"), nil, 0o600))
	w.await("user", supervisor.StateReady)
	ready, _ := w.s.Status().Ready()
	require.True(t, ready)
}

func TestEndsPhaseByPhase(t *testing.T) {
	dir := t.TempDir()
	trap := `trap 'echo NAME >> order; exit 0' TERM; while :; do sleep 0.05; done`
	var all []supervisor.Component
	for phase, name := range []string{"first", "second", "third"} {
		c := shell(name, dir, "cd '"+dir+"'; "+strings.ReplaceAll(trap, "NAME", name))
		c.StopPhase = phase
		all = append([]supervisor.Component{c}, all...)
	}
	w := run(t, dir, all...)
	for _, c := range all {
		w.await(c.Name, supervisor.StateReady)
	}
	time.Sleep(200 * time.Millisecond) // the shells set their traps
	w.end()
	order, err := os.ReadFile(filepath.Join(dir, "order"))
	require.NoError(t, err)
	require.Equal(t, "first\nsecond\nthird\n", string(order))
}

func TestKillsWhatDoesNotEnd(t *testing.T) {
	dir := t.TempDir()
	deaf := shell("deaf", dir, `trap '' TERM; while :; do sleep 0.05; done`)
	deaf.StopGraceMillis = 300
	w := run(t, dir, deaf)
	pid := w.await("deaf", supervisor.StateReady).PID
	time.Sleep(200 * time.Millisecond)
	begun := time.Now()
	w.end()
	require.Less(t, time.Since(begun), 3*time.Second)
	require.True(t, gone(pid))
}

func TestReapsOrphans(t *testing.T) {
	dir := t.TempDir()
	// The grandchild outlives its parent, ends, and must not stay a zombie.
	w := run(t, dir, shell("parent", dir, `(sleep 0.5 & echo $! > '`+dir+`/orphan'); exec sleep 300`))
	w.await("parent", supervisor.StateReady)
	var orphan int
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "orphan"))
		orphan, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return orphan > 0
	}, 5*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return gone(orphan) }, time.Minute, 20*time.Millisecond)
}

func TestSaysWhenAProgramIsMissing(t *testing.T) {
	dir := t.TempDir()
	w := run(t, dir, supervisor.Component{Name: "ghost", Path: filepath.Join(dir, "none")})
	c := w.await("ghost", supervisor.StateBackOff)
	require.Contains(t, c.Message, "no such file")
}

func TestKeepsOutput(t *testing.T) {
	dir := t.TempDir()
	w := run(t, dir, shell("talker", dir, "echo to out; echo to err >&2; exec sleep 300"))
	w.await("talker", supervisor.StateReady)
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "logs", "talker.log"))
		return strings.Contains(string(b), "to out\n") && strings.Contains(string(b), "to err\n")
	}, 5*time.Second, 10*time.Millisecond)
}

// TestLogThatCannotBeWrittenKillsNobody stands in for a full disk: the log's
// name is taken by a folder.
func TestLogThatCannotBeWrittenKillsNobody(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "logs", "talker.log", "x"), 0o700))
	w := run(t, dir, shell("talker", dir, "for i in 1 2 3 4 5 6 7 8; do echo $i || exit 1; sleep 0.05; done; touch '"+dir+"/done'; exec sleep 300"))
	w.await("talker", supervisor.StateReady)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "done"))
		return err == nil
	}, 5*time.Second, 10*time.Millisecond)
	require.Zero(t, w.component("talker").Restarts)
}

// TestChildrenDieWithTheirSupervisor kills a supervisor in a process of its own.
func TestChildrenDieWithTheirSupervisor(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperSupervisor$")
	cmd.Env = append(os.Environ(), "SUPERVISOR_TEST_DIR="+dir)
	require.NoError(t, cmd.Start())
	status := filepath.Join(dir, "status.json")
	require.Eventually(t, func() bool {
		s, err := supervisor.ReadStatus(status)
		ready, _ := s.Ready()
		return err == nil && ready
	}, 10*time.Second, 20*time.Millisecond)
	// Long enough for idle threads to end, which must not take the children along.
	time.Sleep(500 * time.Millisecond)
	found, err := proc.Marked(mark, dir)
	require.NoError(t, err)
	require.Len(t, found, 20)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool {
		found, err := proc.Marked(mark, dir)
		return err == nil && len(found) == 0
	}, 5*time.Second, 20*time.Millisecond)
}

// TestHelperSupervisor is the process that TestChildrenDieWithTheirSupervisor kills.
func TestHelperSupervisor(t *testing.T) {
	dir := os.Getenv("SUPERVISOR_TEST_DIR")
	if dir == "" {
		return
	}
	var all []supervisor.Component
	for i := range 20 {
		all = append(all, shell(fmt.Sprintf("c%d", i), dir, "exec sleep 300"))
	}
	run(t, dir, all...)
	time.Sleep(5 * time.Minute)
}
