package local_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/binaries"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/proc"
)

// testInstance is kept for tests, so that they do not meet a fleet that runs: those
// of the end-to-end tests, which run at the same time, are 7 to 9.
const testInstance = 6

func open(t *testing.T, dir string) *local.Fleet {
	t.Helper()
	f, err := local.Open(testInstance, dir)
	require.NoError(t, err)
	return f
}

func writeFleet(t *testing.T, f *local.Fleet, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(f.Layout.Dir, 0o700))
	require.NoError(t, os.WriteFile(f.Layout.FleetFile(), []byte(content), 0o600))
}

func TestStateFolderOfAnotherVersion(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "with space"))
	require.NoError(t, local.CheckStateFolder(f.Layout), "none is fine")
	writeFleet(t, f, `{"schemaVersion": 0, "instance": 6, "pharos": "v0.0.9"}`)
	err := f.Up(t.Context(), local.Options{})
	require.ErrorContains(t, err, "has version 0 (from pharos v0.0.9) and this pharos reads version 1")
	require.ErrorContains(t, err, "`pharos down --instance 6 --state-dir ")

	writeFleet(t, f, `{"schemaVersion": 1, "instance": 3}`)
	require.ErrorContains(t, f.Up(t.Context(), local.Options{}), "belongs to instance 3")
	writeFleet(t, f, `{`)
	require.ErrorContains(t, f.Up(t.Context(), local.Options{}), f.Layout.FleetFile())

	// Whatever version it has, it can be removed.
	writeFleet(t, f, `{"schemaVersion": 7, "instance": 6}`)
	result, err := f.Down(t.Context(), false)
	require.NoError(t, err)
	require.True(t, result.Found)
	require.NoDirExists(t, f.Layout.Dir)
}

func TestDownOfNothing(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "none"))
	result, err := f.Down(t.Context(), false)
	require.NoError(t, err)
	require.False(t, result.Found)
	report, err := f.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, local.StateNone, report.State)
	require.NoDirExists(t, f.Layout.Dir, "looking leaves nothing behind")
}

func TestTakenPorts(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	require.NoError(t, local.CheckPorts(f.Layout))
	l, err := net.Listen("tcp", f.Layout.DingTalkAddress())
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	err = f.Up(t.Context(), local.Options{Binaries: binaries.Options{BinDir: "/nowhere"}})
	require.ErrorContains(t, err, fmt.Sprintf("port 127.0.0.1:16660, which dingtalk needs, is taken by local.test (process %d)", os.Getpid()))
	require.NoDirExists(t, f.Layout.Dir, "nothing is left behind")

	for _, at := range f.Layout.Listeners()[:5] {
		l, err := net.Listen("tcp", at.Address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
	}
	err = local.CheckPorts(f.Layout)
	require.ErrorContains(t, err, "etcd")
	require.ErrorContains(t, err, "and 3 more")
	_, err = f.Down(t.Context(), false)
	require.NoError(t, err, "there is no fleet, whoever listens")
}

func TestDownFindsStrangersOnItsAddresses(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	writeFleet(t, f, `{"schemaVersion": 1, "instance": 6}`)
	pod := f.Layout.PodCIDR(layout.Hub()).Addr().Next()
	l, err := net.Listen("tcp", net.JoinHostPort(pod.String(), "0"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, err = f.Down(t.Context(), false)
	require.ErrorContains(t, err, "local.test")
	require.ErrorContains(t, err, l.Addr().String())
}

func TestDownKillsStrays(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet with space"))
	writeFleet(t, f, `{"schemaVersion": 1, "instance": 6}`)
	stray := exec.Command("sleep", "300")
	stray.Env = append(os.Environ(), layout.FleetEnv+"="+f.Layout.Dir)
	require.NoError(t, stray.Start())
	ended := make(chan error, 1)
	go func() { ended <- stray.Wait() }()
	result, err := f.Down(t.Context(), true)
	require.NoError(t, err)
	require.Len(t, result.Killed, 1)
	require.Error(t, <-ended)
	require.FileExists(t, f.Layout.FleetFile(), "kept")
}

func TestLock(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	require.NoError(t, os.Mkdir(f.Layout.Dir, 0o700))
	lock, err := local.TakeLock(f.Layout)
	require.NoError(t, err)
	_, err = local.TakeLock(f.Layout)
	require.ErrorIs(t, err, local.ErrLocked)
	require.ErrorContains(t, f.Up(t.Context(), local.Options{}), "another pharos is starting or stopping the fleet")
	require.NoError(t, lock.Close())
	lock, err = local.TakeLock(f.Layout)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestMissingBinariesLeaveNothing(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	var said strings.Builder
	err := f.Up(t.Context(), local.Options{Binaries: binaries.Options{BinDir: t.TempDir()}, Progress: &said})
	require.ErrorContains(t, err, "kube-apiserver")
	require.NoDirExists(t, f.Layout.Dir)
	left, err := proc.KillMarked(layout.FleetEnv, f.Layout.Dir, time.Now())
	require.NoError(t, err)
	require.Empty(t, left)
}
