package binaries

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnsureExplainsAFailedBuild lets a go command fail with the words of the
// real one.
func TestEnsureExplainsAFailedBuild(t *testing.T) {
	tests := map[string]struct{ output, want string }{
		"full disk": {
			"# k8s.io/api/core/v1\n/usr/lib/go/pkg/tool/compile: writing output: write $WORK/b075/_pkg_.a: no space left on device",
			"the disk is full: free about 10 GB",
		},
		"old toolchain": {
			"go: go.mod requires go >= 1.26.0 (running go 1.24.1; GOTOOLCHAIN=local)",
			"the Go toolchain is too old: install a current Go from https://go.dev/dl, or point --bin-dir at ready binaries (go: go.mod requires go >= 1.26.0 (running go 1.24.1; GOTOOLCHAIN=local))",
		},
		"ancient toolchain": {
			"go: errors parsing go.mod:\ngo.mod:3: invalid go version '1.26.0': must match format 1.23",
			"the Go toolchain is too old",
		},
		"no network": {
			`go: downloading k8s.io/api v0.37.2
k8s.io/kubernetes imports: Get "https://proxy.example.org/k8s.io/api/@v/v0.37.2.zip": dial tcp: lookup proxy.example.org: no such host`,
			"modules cannot be downloaded: check the network, or set GOPROXY",
		},
		"refusing proxy": {
			"go: k8s.io/api@v0.37.2: reading https://proxy.example/k8s.io/api/@v/v0.37.2.mod: 403 Forbidden",
			"modules cannot be downloaded",
		},
		"proxy off": {
			"go: k8s.io/api@v0.37.2: module lookup disabled by GOPROXY=off",
			"modules cannot be downloaded",
		},
		"tampered module": {
			"verifying k8s.io/api@v0.37.2: checksum mismatch\n\tdownloaded: h1:a\n\tgo.sum: h1:b\n\nSECURITY ERROR",
			"a downloaded module is not the one that was pinned",
		},
		"no memory": {
			"k8s.io/api/core/v1: /usr/lib/go/pkg/tool/compile: signal: killed",
			"the compiler was killed, most likely for lack of memory",
		},
		"no build cache": {
			"build cache is disabled by GOCACHE=off, but required as of Go 1.12",
			"a setting of the go command is of no use: unset it in the environment, or with `go env -u`, and run again (build cache is disabled by GOCACHE=off",
		},
		"unknown experiment": {
			"go: unknown GOEXPERIMENT warp",
			"a setting of the go command is of no use",
		},
		"lost root": {
			"go: cannot find GOROOT directory: /nowhere",
			"a setting of the go command is of no use",
		},
		"anything else": {
			"# tiny.test/servers/cmd/alpha\nmain.go:3:1: syntax error: unexpected }",
			"the go command failed (main.go:3:1: syntax error: unexpected })",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			fakeGo(t, "cat >&2 <<'END'\n"+test.output+"\nEND\nexit 1")
			_, err := ensure(t.Context(), Options{CacheDir: cache}, twoTiny())
			require.ErrorContains(t, err, "building alpha: "+test.want)
			log := filepath.Join(cache, "logs", "alpha-v1.2.3.log")
			require.ErrorContains(t, err, "the whole output is in "+log)
			kept, err := os.ReadFile(log)
			require.NoError(t, err)
			require.Equal(t, test.output+"\n", string(kept))
			requireTidy(t, cache)
		})
	}
}

func TestEnsureReportsARealCompileError(t *testing.T) {
	cache := t.TempDir()
	broken := tiny("alpha", tinyModule("cmd/alpha/main.go", "package main\n\nfunc main() { undefinedHere() }\n"))
	_, err := ensure(t.Context(), Options{CacheDir: cache}, []Component{broken})
	require.ErrorContains(t, err, "undefined: undefinedHere")
	requireTidy(t, cache)
}

func TestEnsureReportsARealUnreachableProxy(t *testing.T) {
	t.Setenv("GOPROXY", "http://127.0.0.1:1")
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOMODCACHE", modCache(t))
	absent := Component{Name: "gamma", Version: "v0.3.0", module: "tiny.test/absent", pkg: "tiny.test/absent/cmd/gamma"}
	_, err := ensure(t.Context(), Options{CacheDir: t.TempDir()}, []Component{absent})
	require.ErrorContains(t, err, "building gamma: modules cannot be downloaded: check the network, or set GOPROXY")
}

func TestEnsureReportsARealOldToolchain(t *testing.T) {
	t.Setenv("GOTOOLCHAIN", "local")
	newer := tiny("alpha", []byte("-- go.mod --\nmodule tiny.test/servers\n\ngo 1.999\n-- cmd/alpha/main.go --\n"+reporter))
	_, err := ensure(t.Context(), Options{CacheDir: t.TempDir()}, []Component{newer})
	require.ErrorContains(t, err, "building alpha: the Go toolchain is too old")
	require.ErrorContains(t, err, "requires go >= 1.999")
}

func TestEnsureReportsAMissingToolchain(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cache := t.TempDir()
	var said strings.Builder
	_, err := ensure(t.Context(), Options{CacheDir: cache, Progress: &said}, twoTiny())
	require.ErrorContains(t, err, "no go command on PATH that can be run: install a current Go from https://go.dev/dl, or point --bin-dir")
	require.Empty(t, said.String(), "nothing is announced that cannot be done")
	requireTidy(t, cache)
}

func TestEnsureRefusesAGoThatMakesNothing(t *testing.T) {
	fakeGo(t, "exit 0")
	cache := t.TempDir()
	_, err := ensure(t.Context(), Options{CacheDir: cache}, twoTiny())
	require.ErrorContains(t, err, "building alpha: the go command on PATH says that it succeeded and made no program: install a current Go")
	requireTidy(t, cache)
}

func TestExplainNamesAFullDiskOfOurOwn(t *testing.T) {
	err := explain(&fs.PathError{Op: "rename", Path: "alpha", Err: syscall.ENOSPC}, "/cache")
	require.ErrorContains(t, err, "the disk of /cache is full: free about 10 GB")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, fs.ErrPermission, explain(fs.ErrPermission, "/cache"))
}

func TestEnsureRefusesACacheThatIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := ensure(t.Context(), Options{CacheDir: filepath.Join(file, "bin")}, twoTiny())
	require.ErrorContains(t, err, "making the cache of server binaries")
}
