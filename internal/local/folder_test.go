package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
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

func TestDownOfAnotherInstanceIsRefused(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	writeFleet(t, f, `{"schemaVersion": 1, "instance": 3}`)
	_, err := f.Down(t.Context(), false)
	require.ErrorContains(t, err, "belongs to instance 3")
	require.FileExists(t, f.Layout.FleetFile())
}

// The fleet file is gone, but a process still says whose the folder is.
func TestDownKnowsAFleetByItsProcesses(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	require.NoError(t, os.MkdirAll(f.Layout.LogDir(), 0o700))
	stray := exec.Command("sleep", "300")
	stray.Env = append(os.Environ(), layout.FleetEnv+"="+f.Layout.Dir)
	require.NoError(t, stray.Start())
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
