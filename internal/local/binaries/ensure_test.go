package binaries

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnsureBuildsInsideTheModule(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "home with spaces", "bin")
	var out bytes.Buffer
	set, err := ensure(t.Context(), Options{CacheDir: cache, Progress: &out}, twoTiny())
	require.NoError(t, err)
	require.Equal(t, Set{
		"alpha": filepath.Join(cache, "alpha-v1.2.3", "alpha"),
		"beta":  filepath.Join(cache, "beta-v1.2.3", "beta"),
	}, set)
	answer, err := exec.Command(set["alpha"], "--version").Output()
	require.NoError(t, err)
	require.Equal(t, "tiny version v1.2.3\n", string(answer), "the linker was told the version")
	require.Contains(t, out.String(), "built 1 of 2: alpha v1.2.3 in ")
	require.Contains(t, out.String(), "built 2 of 2: beta v1.2.3 in ")
	requireTidy(t, cache)
}

func TestEnsureIgnoresTheUsersGoSettings(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=vendor -tags=nonsense")
	t.Setenv("GOOS", "windows")
	t.Setenv("GOARCH", "arm")
	t.Setenv("GOBIN", filepath.Join(t.TempDir(), "elsewhere"))
	t.Setenv("GOWORK", "/nowhere/go.work")
	t.Setenv("GO111MODULE", "off")
	t.Setenv("GOTOOLCHAIN", "go1.20")
	t.Setenv("GOROOT", "/nowhere")
	t.Setenv("GOEXPERIMENT", "nonsense")
	t.Setenv("GOCACHE", "off")
	cache := t.TempDir()
	_, err := ensure(t.Context(), Options{CacheDir: cache}, twoTiny())
	require.NoError(t, err)
	requireTidy(t, cache)
}

func TestEnsureInstallsAPublishedProgram(t *testing.T) {
	const module = "tiny.test/published"
	t.Setenv("GOPROXY", moduleProxy(t, module, "v0.3.0", map[string]string{
		"go.mod":               "module " + module + "\n\ngo 1.26.0\n",
		"cmd/gamma/main.go":    reporter,
		"internal/x/unused.go": "package x\n",
	}))
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOMODCACHE", modCache(t))
	cache := t.TempDir()
	gamma := Component{Name: "gamma", Version: "v0.3.0", module: module, pkg: module + "/cmd/gamma", reports: "3.0"}
	set, err := ensure(t.Context(), Options{CacheDir: cache}, []Component{gamma})
	require.NoError(t, err)
	requireTidy(t, cache)
	require.NoError(t, gamma.check(t.Context(), set["gamma"]), "its build record says what it is, though it does not know itself")
	gamma.Version = "v0.4.0"
	require.ErrorContains(t, gamma.check(t.Context(), set["gamma"]), `not version 3.0 but reports "tiny version unset"`)
}

func TestEnsureUsesWhatTheCacheHasWithoutGo(t *testing.T) {
	cache := t.TempDir()
	_, err := ensure(t.Context(), Options{CacheDir: cache}, twoTiny())
	require.NoError(t, err)
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	set, err := ensure(t.Context(), Options{CacheDir: cache, Progress: &out}, twoTiny())
	require.NoError(t, err)
	require.Len(t, set, 2)
	require.Empty(t, out.String(), "nothing to tell when nothing is built")
}

func TestEnsureEndsWithItsContextAndResumes(t *testing.T) {
	cache := t.TempDir()
	slow, header := slowTiny(t)
	components := append(twoTiny(), slow)
	ctx, interrupt := context.WithCancelCause(t.Context())
	errInterrupt := errors.New("interrupted by the test")
	failed := make(chan error, 1)
	go func() {
		_, err := ensure(ctx, Options{CacheDir: cache}, components)
		failed <- err
	}()
	waitCompiling(t, header)
	interrupt(errInterrupt)
	select {
	case err := <-failed:
		require.ErrorIs(t, err, errInterrupt)
		require.ErrorContains(t, err, "building slow was interrupted; what was finished is kept")
	case <-time.After(5 * interruptGrace):
		require.Fail(t, "still building long after the interrupt")
	}
	requireNobodyReads(t, header)
	requireTidy(t, cache)

	var out bytes.Buffer
	slow.source = tinyModule("cmd/slow/main.go", reporter)
	_, err := ensure(t.Context(), Options{CacheDir: cache, Progress: &out}, append(twoTiny(), slow))
	require.NoError(t, err)
	require.Contains(t, out.String(), "built 1 of 1: slow", "the two that were finished stayed finished")
	requireTidy(t, cache)
}

func TestEnsureRemovesWhatAKilledBuilderLeft(t *testing.T) {
	cache := t.TempDir()
	left := filepath.Join(cache, workPrefix+"123", "out")
	require.NoError(t, os.MkdirAll(left, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(left, "alpha"), []byte("half"), 0o755))
	_, err := ensure(t.Context(), Options{CacheDir: cache}, twoTiny())
	require.NoError(t, err)
	requireTidy(t, cache)
}

func TestEnsureBuildsOnceForManyCallers(t *testing.T) {
	cache, counted := t.TempDir(), filepath.Join(t.TempDir(), "runs")
	goCommand, err := exec.LookPath("go")
	require.NoError(t, err)
	fakeGo(t, `echo run >> "`+counted+`"; exec "`+goCommand+`" "$@"`)
	var callers sync.WaitGroup
	outputs, errs := make([]bytes.Buffer, 4), make([]error, 4)
	for i := range errs {
		callers.Go(func() {
			_, errs[i] = ensure(t.Context(), Options{CacheDir: cache, Progress: &outputs[i]}, twoTiny())
		})
	}
	callers.Wait()
	require.NoError(t, errors.Join(errs...))
	runs, err := os.ReadFile(counted)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(runs), "run"), "each of two binaries was built by exactly one caller")
	requireTidy(t, cache)
}

func TestEnsureSaysThatItWaits(t *testing.T) {
	cache := t.TempDir()
	slow, header := slowTiny(t)
	building, stop := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() { _, _ = ensure(building, Options{CacheDir: cache}, []Component{slow}) })
	defer first.Wait()
	defer stop()
	waitCompiling(t, header)

	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	var out bytes.Buffer
	_, err := ensure(ctx, Options{CacheDir: cache, Progress: &out}, twoTiny())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Regexp(t, `^waiting for another build of the server binaries \(process \d+\)\n`, out.String())
}

func modCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	// The go command makes its module cache read-only, which t.TempDir cannot remove.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", dir).Run() })
	return dir
}
