package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

// supervisedBy makes a fleet whose supervisor is a shell script, which ends well
// when it is told to.
func supervisedBy(t *testing.T, script string) *local.Fleet {
	t.Helper()
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	writeFleet(t, f, `{"schemaVersion": 1, "instance": 6}`)
	l := f.Layout
	robot := l.PKIDir("dingtalk")
	for _, dir := range []string{l.BinDir(), l.LogDir(), robot} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(robot, "access-token"), []byte("t"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(robot, "secret"), []byte("s"), 0o600))
	require.NoError(t, os.WriteFile(l.Pharos(), []byte("#!/bin/sh\ntrap 'exit 0' TERM\necho $$ > '"+l.PIDFile()+"'\n"+script+"\n"), 0o700))
	return f
}

// bringUp starts the fleet in the background.
func bringUp(ctx context.Context, f *local.Fleet) <-chan error {
	failed := make(chan error, 1)
	go func() { failed <- local.BringUp(ctx, f, nil) }()
	return failed
}

func await(t *testing.T, failed <-chan error, timeout time.Duration) error {
	t.Helper()
	select {
	case err := <-failed:
		return err
	case <-time.After(timeout):
		require.Fail(t, "the start hangs")
		return nil
	}
}

func TestStartWhoseSupervisorEnds(t *testing.T) {
	err := await(t, bringUp(t.Context(), supervisedBy(t, "echo torn; exit 3")), 5*time.Second)
	require.ErrorContains(t, err, "the supervisor ended: exit status 3: its log ends with: torn")
}

func TestDownDuringAStart(t *testing.T) {
	f := supervisedBy(t, "while :; do sleep 0.05; done")
	starting := bringUp(t.Context(), f)
	require.Eventually(t, func() bool { return f.Running() == nil }, time.Minute, 10*time.Millisecond)
	result, err := f.Down(t.Context(), false)
	require.NoError(t, err)
	require.Less(t, result.Took, 5*time.Second)
	require.EqualError(t, await(t, starting, 5*time.Second), "the fleet was stopped while it started")
	require.NoDirExists(t, f.Layout.Dir)
}

// While the fleet ends, what is being installed fails in words that say nothing.
func TestFailureWhileTheFleetEndsIsItsEnd(t *testing.T) {
	f := supervisedBy(t, "sleep 1")
	require.NoError(t, os.WriteFile(f.Layout.StatusFile(), []byte(`{"components": [{"name": "etcd", "state": "Stopped"}]}`), 0o600))
	require.NoError(t, os.Remove(filepath.Join(f.Layout.PKIDir("dingtalk"), "secret"))) // the installation fails at once
	err := await(t, bringUp(t.Context(), f), 5*time.Second)
	require.EqualError(t, err, "the fleet was stopped while it started")
}

// The supervisor and what it runs were stopped by SIGSTOP: none of them hears.
func TestDownOfAFleetThatHangs(t *testing.T) {
	f := supervisedBy(t, "sleep 301 & kill -STOP $!; kill -STOP $$")
	starting := bringUp(t.Context(), f)
	require.Eventually(t, func() bool { return f.Running() == nil }, time.Minute, 10*time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	result, err := f.Down(t.Context(), false)
	require.NoError(t, err)
	require.Less(t, result.Took, 10*time.Second)
	require.NotEmpty(t, result.Killed, "it is said whom it had to kill")
	require.Error(t, await(t, starting, 5*time.Second))
}

// TestHelperHoldsLock is not a test: it is a pharos that has the lock of a fleet.
func TestHelperHoldsLock(t *testing.T) {
	dir := os.Getenv("LOCK_TEST_DIR")
	if dir == "" {
		return
	}
	release, err := local.Claim(open(t, dir))
	require.NoError(t, err)
	defer release()
	require.NoError(t, os.WriteFile(dir+".held", nil, 0o600))
	time.Sleep(time.Minute)
}

func holdLock(t *testing.T, f *local.Fleet) *exec.Cmd {
	t.Helper()
	holder := exec.Command(os.Args[0], "-test.run=^TestHelperHoldsLock$")
	holder.Env = append(os.Environ(), "LOCK_TEST_DIR="+f.Layout.Dir)
	require.NoError(t, holder.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(f.Layout.Dir + ".held"); return err == nil }, time.Minute, 10*time.Millisecond)
	return holder
}

// A start that builds servers has no supervisor yet; it is ended itself.
func TestDownEndsAStartWithoutSupervisor(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	holder := holdLock(t, f)
	ended := make(chan error, 1)
	go func() { ended <- holder.Wait() }()
	_, err := f.Down(t.Context(), false)
	require.NoError(t, err)
	require.ErrorContains(t, <-ended, "terminated")
	require.NoDirExists(t, f.Layout.Dir)
}

// Who does not end is named, so that he can be ended.
func TestDownNamesWhoHasTheLock(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	holder := holdLock(t, f)
	require.NoError(t, holder.Process.Signal(unix.SIGSTOP))
	begun := time.Now()
	_, err := f.Down(t.Context(), false)
	require.ErrorContains(t, err, "another pharos, local.test (process ")
	require.ErrorContains(t, err, "does not end: end that process, and run this again")
	require.Less(t, time.Since(begun), 10*time.Second)
	require.ErrorContains(t, f.Up(t.Context(), local.Options{}), "another pharos, local.test (process ")
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	_, err = f.Down(t.Context(), false)
	require.NoError(t, err)
}

func TestStartTellsWhatFallsSilent(t *testing.T) {
	status := func(s supervisor.State) supervisor.Status {
		return supervisor.Status{Components: []supervisor.ComponentStatus{{Name: layout.Etcd, State: s}}}
	}
	var said strings.Builder
	local.Tell(status(supervisor.StateReady), status(supervisor.StateUnready), &said)
	require.Contains(t, said.String(), "etcd was ready and does not answer any more (0 of 1 are ready)")
	said.Reset()
	local.Tell(status(supervisor.StateUnready), status(supervisor.StateUnready), &said)
	require.Empty(t, said.String(), "once is enough")
	local.Tell(status(supervisor.StateUnready), status(supervisor.StateReady), &said)
	require.Contains(t, said.String(), "etcd is ready")
}
