package binaries

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// helperCache names, for TestHelperBuilds, the cache to build in.
const helperCache, helperHeader = "PHAROS_TEST_CACHE", "PHAROS_TEST_HEADER"

// TestHelperBuilds is not a test: it is the builder that is killed below.
func TestHelperBuilds(t *testing.T) {
	cache := os.Getenv(helperCache)
	if cache == "" {
		return
	}
	_, err := ensure(t.Context(), Options{CacheDir: cache}, []Component{slowTinyOf(os.Getenv(helperHeader))})
	require.NoError(t, err)
}

// Neither a signal that nobody handles nor one that nobody can handle leaves a
// compiler behind, and the next run removes the files, be there nothing to build.
func TestKilledBuilderLeavesNothing(t *testing.T) {
	// Children take over an ignored signal, but not a handled one: with this, the
	// test means the same when it is itself run under nohup.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	for _, sig := range []syscall.Signal{unix.SIGKILL, unix.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			cache := t.TempDir()
			_, err := ensure(t.Context(), Options{CacheDir: cache}, twoTiny())
			require.NoError(t, err)
			_, header := slowTiny(t)
			builder := exec.Command(os.Args[0], "-test.run=^TestHelperBuilds$")
			builder.Env = append(os.Environ(), helperCache+"="+cache, helperHeader+"="+header)
			require.NoError(t, builder.Start())
			waitCompiling(t, header)
			require.NoError(t, builder.Process.Signal(sig))
			require.Error(t, builder.Wait())
			require.Eventually(t, func() bool { return nobodyReads(header) }, time.Minute, 10*time.Millisecond, "the assembler lives on")

			left, err := filepath.Glob(filepath.Join(cache, workPrefix+"*"))
			require.NoError(t, err)
			require.NotEmpty(t, left)
			_, err = ensure(t.Context(), Options{CacheDir: cache}, twoTiny())
			require.NoError(t, err)
			requireTidy(t, cache)
		})
	}
}

// What a builder that is alive works in is left alone by those who need nothing.
func TestTidyLeavesABuilderAlone(t *testing.T) {
	cache := t.TempDir()
	unlock, err := lock(t.Context(), cache, newProgress(t.Output()))
	require.NoError(t, err)
	work := filepath.Join(cache, workPrefix+"1")
	require.NoError(t, os.Mkdir(work, 0o755))
	tidy(cache)
	require.DirExists(t, work)
	require.NoError(t, unlock())
	tidy(cache)
	require.NoDirExists(t, work)
}

// requireGone asserts that a process has ended, or is about to be taken off the table.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return true
		}
		stat, err := p.Stat()
		return err != nil || stat.State == "Z"
	}, 5*time.Second, 10*time.Millisecond, "process %d is still there", pid)
}
