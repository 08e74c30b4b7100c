package binaries

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnsureTakesReadyBinaries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ready binaries")
	script(t, dir, "alpha", `echo "alpha, version 1.2.3 (branch: HEAD)"`)
	script(t, dir, "beta", `echo "beta v1.2.3"`)
	want := Set{"alpha": filepath.Join(dir, "alpha"), "beta": filepath.Join(dir, "beta")}
	set, err := ensure(t.Context(), Options{BinDir: dir}, twoTiny())
	require.NoError(t, err)
	require.Equal(t, want, set)

	t.Setenv(DirVariable, dir)
	set, err = ensure(t.Context(), Options{}, twoTiny())
	require.NoError(t, err)
	require.Equal(t, want, set, "the environment names the same folder")
}

func TestEnsureRefusesReadyBinaries(t *testing.T) {
	tests := map[string]struct{ body, want string }{
		"older":             {`echo "alpha version 1.2.2"`, `alpha is not version 1.2.3 but reports "alpha version 1.2.2"`},
		"longer number":     {`echo "alpha version 1.2.30"`, "alpha is not version 1.2.3"},
		"release candidate": {`echo "alpha version v1.2.3-rc.1"`, "alpha is not version 1.2.3"},
		"broken":            {`exit 3`, "alpha does not answer --version: exit status 3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script(t, dir, "alpha", test.body)
			_, err := ensure(t.Context(), Options{BinDir: dir}, twoTiny())
			require.ErrorContains(t, err, "using the server binaries in "+dir)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "no file at "+filepath.Join(dir, "beta"), "every fault is told at once")
		})
	}
}

// A program that hangs, and leaves a child that keeps its output open, neither
// hangs the check nor stays.
func TestEnsureEndsAReadyBinaryThatHangs(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "alpha", "sleep 100 & echo $! > "+dir+"/child; wait")
	script(t, dir, "beta", "sleep 100")
	begun := time.Now()
	_, err := ensure(t.Context(), Options{BinDir: dir}, twoTiny())
	require.ErrorContains(t, err, "alpha does not answer --version: it was ended after 5s without an answer")
	require.ErrorContains(t, err, "beta does not answer --version: it was ended after 5s")
	require.Less(t, time.Since(begun), checkTimeout+3*time.Second, "all are asked side by side")
	child, err := os.ReadFile(filepath.Join(dir, "child"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(child)))
	require.NoError(t, err)
	requireGone(t, pid)
}

func TestFind(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv(DirVariable, dir)
	_, err := Find("etcd")
	require.ErrorContains(t, err, "finding etcd in PHAROS_BIN_DIR="+dir)
	script(t, dir, "etcd", "exit 0")
	path, err := Find("etcd")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "etcd"), path)

	t.Setenv(DirVariable, "")
	_, err = Find("etcd")
	require.ErrorContains(t, err, "run `pharos local binaries` to build it, or set PHAROS_BIN_DIR")
	cached := filepath.Join(cache, "pharos", "bin", "etcd-v3.7.3")
	script(t, cached, "etcd", "exit 0")
	path, err = Find("etcd")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cached, "etcd"), path)
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = Find("etcd")
	require.ErrorContains(t, err, "is not executable")

	_, err = Find("victoria-metrics")
	require.ErrorContains(t, err, "run `pharos local binaries --for-tests` to build it")

	_, err = Find("docker")
	require.ErrorContains(t, err, "the local fleet has no such binary")
}

func TestComponents(t *testing.T) {
	components, err := Components()
	require.NoError(t, err)
	versions := map[string]string{}
	for _, c := range components {
		versions[c.Name] = c.Version + " reports " + c.reports
	}
	require.Equal(t, map[string]string{
		"etcd":                    "v3.7.3 reports 3.7.3",
		"kube-apiserver":          "v1.37.2 reports 1.37.2",
		"kube-controller-manager": "v1.37.2 reports 1.37.2",
		"kube-scheduler":          "v1.37.2 reports 1.37.2",
		"prometheus":              "v0.316.0 reports 3.16.0",
		"promtool":                "v0.316.0 reports 3.16.0",
		"alertmanager":            "v0.31.1 reports 0.31.1",
		"amtool":                  "v0.31.1 reports 0.31.1",
		"kwok":                    "v0.8.0 reports 0.8.0",
	}, versions)
	require.Subset(t, components[1].linking, []string{
		"k8s.io/component-base/version.gitVersion=v1.37.2",
		"k8s.io/component-base/version.gitMajor=1",
		"k8s.io/component-base/version.gitMinor=37",
	})
}

// The fleet does without what only tests run.
func TestForTests(t *testing.T) {
	components, err := Components()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, c := range components {
		names[c.Name] = true
	}
	versions := map[string]string{}
	for _, c := range ForTests() {
		require.False(t, names[c.Name], c.Name)
		versions[c.Name] = c.Version + " reports " + c.reports
	}
	require.Equal(t, map[string]string{
		"victoria-metrics":    "v1.148.9 reports 1.148.9",
		"node_exporter":       "v1.12.1 reports 1.12.1",
		"prometheus-operator": "v0.85.0 reports 0.85.0",
	}, versions)
}

func TestPinnedRefusesADamagedModule(t *testing.T) {
	_, err := pinned([]byte("-- go.sum --\n"))
	require.ErrorContains(t, err, "no go.mod")
	_, err = pinned([]byte("-- go.mod --\nnonsense here\n"))
	require.ErrorContains(t, err, "reading the pinned versions")
}
