package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/binaries"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// tree lists what is below a folder.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return all
}

// Somebody gives --state-dir $HOME: it has folders of the names that a fleet has.
func TestFolderThatIsNoFleetIsLeftAlone(t *testing.T) {
	for name, file := range map[string]string{
		"home":                "bin/tool",
		"logs only":           "logs/app.log",
		"foreign fleet file":  "fleet.json",
		"foreign lock":        "lock/holder",
		"a lock and a thesis": "lock.txt",
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, t.TempDir())
			precious := filepath.Join(f.Layout.Dir, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(precious), 0o750))
			require.NoError(t, os.WriteFile(precious, []byte(`{"ships": 3}`), 0o600))
			require.NoError(t, os.Chmod(f.Layout.Dir, 0o750))
			before := tree(t, f.Layout.Dir)
			for _, keep := range []bool{false, true} {
				_, err := f.Down(t.Context(), keep)
				require.ErrorContains(t, err, f.Layout.Dir)
			}
			require.Error(t, f.Up(t.Context(), local.Options{Binaries: binaries.Options{BinDir: "/nowhere"}}))
			require.Equal(t, before, tree(t, f.Layout.Dir), "nothing is added and nothing removed")
			require.Equal(t, os.FileMode(0o750), mode(t, f.Layout.Dir))
		})
	}
}

func TestAnotherInstanceIsRefused(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	writeFleet(t, f, `{"schemaVersion": 1, "instance": 3}`)
	stray := startStray(t, f)
	for what, err := range map[string]error{"down": downErr(t, f), "status": statusErr(t, f), "fault": f.Running(), "up": f.Up(t.Context(), local.Options{})} {
		require.ErrorContains(t, err, "belongs to instance 3: give --instance 3", what)
		require.NotContains(t, err.Error(), "pharos up", what)
	}
	require.FileExists(t, f.Layout.FleetFile())
	require.NoError(t, stray.Process.Signal(syscall.Signal(0)), "nothing is ended")
	require.NoError(t, stray.Process.Kill())
	require.Error(t, stray.Wait())
}

func TestAnotherVersionIsNotToBeStarted(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	writeFleet(t, f, `{"schemaVersion": 0, "instance": 6, "pharos": "v0.0.9"}`)
	for what, err := range map[string]error{"status": statusErr(t, f), "fault": f.Running()} {
		require.ErrorContains(t, err, "has version 0 (from pharos v0.0.9)", what)
		require.NotContains(t, err.Error(), "pharos up", what)
	}
}

// The fleet file is half written, or somebody edited it.
func TestDamagedFleetFile(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	writeFleet(t, f, `{"schemaVersion": 1, "inst`)
	for what, err := range map[string]error{"down": downErr(t, f), "status": statusErr(t, f), "fault": f.Running(), "up": f.Up(t.Context(), local.Options{})} {
		require.ErrorContains(t, err, f.Layout.Dir, what)
		require.ErrorContains(t, err, "remove the folder", what)
	}
	require.FileExists(t, f.Layout.FleetFile())
	stray := startStray(t, f)
	ended := make(chan error, 1)
	go func() { ended <- stray.Wait() }()
	result, err := f.Down(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, result.Killed, 1)
	require.Error(t, <-ended)
	require.NoDirExists(t, f.Layout.Dir)
}

func downErr(t *testing.T, f *local.Fleet) error {
	t.Helper()
	_, err := f.Down(t.Context(), false)
	return err
}

func statusErr(t *testing.T, f *local.Fleet) error {
	t.Helper()
	_, err := f.Status(t.Context())
	return err
}

// startStray starts a process that bears the mark of the fleet.
func startStray(t *testing.T, f *local.Fleet) *exec.Cmd {
	t.Helper()
	stray := exec.Command("sleep", "300")
	stray.Env = append(os.Environ(), layout.FleetEnv+"="+f.Layout.Dir)
	require.NoError(t, stray.Start())
	return stray
}

// The fleet file is gone, but a process still says whose the folder is.
func TestDownKnowsAFleetByItsProcesses(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	require.NoError(t, os.MkdirAll(f.Layout.LogDir(), 0o700))
	stray := startStray(t, f)
	ended := make(chan error, 1)
	go func() { ended <- stray.Wait() }()
	result, err := f.Down(t.Context(), false)
	require.NoError(t, err)
	require.Error(t, <-ended)
	require.Len(t, result.Killed, 1)
	require.NoDirExists(t, f.Layout.Dir)
}

// A start that was killed at any moment leaves a folder that is known for a fleet's.
func TestMarkComesFirst(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	release, err := local.Claim(f)
	require.NoError(t, err)
	require.FileExists(t, f.Layout.FleetFile())
	report, err := f.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, local.StateStarting, report.State, "the lock is held")
	release()
	result, err := f.Down(t.Context(), false)
	require.NoError(t, err)
	require.True(t, result.Found)
	require.NoDirExists(t, f.Layout.Dir)
}

func TestStateFolderIsClosedToOthers(t *testing.T) {
	f := open(t, t.TempDir())
	require.NoError(t, os.Chmod(f.Layout.Dir, 0o755))
	release, err := local.Claim(f)
	require.NoError(t, err)
	release()
	require.Equal(t, os.FileMode(0o700), mode(t, f.Layout.Dir))
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Mode().Perm()
}

// Every process is ready, but what the operator says of the tiers is not known.
func TestFleetWithoutItsTiersIsDegraded(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	writeFleet(t, f, `{"schemaVersion": 1, "instance": 6, "readyAt": "2026-01-02T03:04:05Z"}`)
	require.NoError(t, os.WriteFile(f.Layout.StatusFile(), []byte(`{"components": [{"name": "etcd", "state": "Ready"}]}`), 0o600))
	stray := startStray(t, f)
	require.NoError(t, os.WriteFile(f.Layout.PIDFile(), []byte(strconv.Itoa(stray.Process.Pid)), 0o600))
	report, err := f.Status(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, report.Tiers)
	require.Equal(t, local.StateDegraded, report.State)
	require.NoError(t, stray.Process.Kill())
	require.Error(t, stray.Wait())
}
