package tree_test

import (
	"context"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/operator/tree"
)

// during is a context of a render in whose midst something happens.
type during struct {
	context.Context
	once *sync.Once
	what func()
}

func (d during) Err() error {
	d.once.Do(d.what)
	return d.Context.Err()
}

func midst(t *testing.T, what func()) context.Context { return during{t.Context(), &sync.Once{}, what} }

func TestWriteTakesNothingThatComesMeanwhile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a, b := cellYAML("a", "asia", "a:9090"), cellYAML("b", "asia", "b:9090")
	write(t, fleet(t, a, b), out)
	mine := filepath.Join(out, "cells", "b", "mine.yaml")
	_, err := fleet(t, a).Write(midst(t, func() { require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600)) }), out)
	require.NoError(t, err)
	require.FileExists(t, mine)
	require.NoDirExists(t, filepath.Join(out, "cells", "b", "manifests"))
}

func TestTwoRendersDoNotMeet(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a, b := cellYAML("a", "asia", "a:9090"), cellYAML("b", "asia", "b:9090")
	_, err := fleet(t, a).Write(midst(t, func() {
		_, err := fleet(t, b).Write(t.Context(), out)
		require.ErrorContains(t, err, "another render is at work in "+out)
	}), out)
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(out, "cells", "a"))
	require.NoDirExists(t, filepath.Join(out, "cells", "b"))
}

// A shell may stand in the folder, and its mode may keep others out.
func TestWriteKeepsTheFolder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.MkdirAll(filepath.Join(out, "shared"), 0o755))
	require.NoError(t, os.Chmod(out, 0o700))
	require.NoError(t, os.Chmod(filepath.Join(out, "shared"), 0o770|fs.ModeSetgid))
	before, err := os.Stat(out)
	require.NoError(t, err)
	t.Chdir(out)
	write(t, fleet(t, cellYAML("a", "asia", "a:9090")), ".")
	require.FileExists(t, filepath.Join("cells", "a", "manifests", "edge.yaml"))
	after, err := os.Stat(out)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.Equal(t, before.Mode(), after.Mode())
	shared, err := os.Stat("shared")
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|fs.ModeSetgid|0o770, shared.Mode())
}

// What is there and is what would be written is nobody's loss.
func TestWriteTakesOverWhatIsTheSame(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a := cellYAML("a", "asia", "a:9090")
	write(t, fleet(t, a), out)
	all := contents(t, out)
	require.NoError(t, os.Remove(filepath.Join(out, tree.ManifestFile)))
	s, err := fleet(t, a).Diff(t.Context(), out, io.Discard)
	require.NoError(t, err)
	require.Zero(t, s.Changed+s.Removed)
	s = write(t, fleet(t, a), out)
	require.Zero(t, s.Changed+s.Removed)
	require.Equal(t, all, contents(t, out))
}

func TestStrays(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a, b := cellYAML("a", "asia", "a:9090"), cellYAML("b", "asia", "b:9090")
	require.Empty(t, write(t, fleet(t, a, b), out).Strays)
	for _, name := range []string{"hub/manifests/zz.yaml", "hub/manifests/NOTE", "cells/a/manifests/x.JSON", "cells/a/mine.yaml"} {
		require.NoError(t, os.WriteFile(filepath.Join(out, name), []byte("{}"), 0o600))
	}
	want := []string{"cells/a/manifests/x.JSON", "hub/manifests/zz.yaml"}
	s, err := fleet(t, a).Diff(t.Context(), out, io.Discard)
	require.NoError(t, err)
	require.Equal(t, want, s.Strays)
	require.Equal(t, want, write(t, fleet(t, a), out).Strays)
}

// A render that is killed anywhere leaves what the next one makes whole.
func TestWriteAfterAKill(t *testing.T) {
	if out := os.Getenv("RENDER_UNTIL_KILLED"); out != "" {
		one, other := fleet(t, cellYAML("a", "europe", "e:9090"), cellYAML("b", "asia", "b:9090")), fleet(t, cellYAML("a", "asia", "a:9090"))
		for {
			write(t, one, out)
			write(t, other, out)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	fresh := filepath.Join(t.TempDir(), "fresh")
	c := cellYAML("c", "asia", "c:9090")
	write(t, fleet(t, c), fresh)
	for range 10 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestWriteAfterAKill$")
		cmd.Env = append(os.Environ(), "RENDER_UNTIL_KILLED="+out)
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { _, err := os.Stat(out); return err == nil }, time.Minute, time.Millisecond)
		time.Sleep(rand.N(200 * time.Millisecond))
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		write(t, fleet(t, c), out)
		require.Equal(t, contents(t, fresh), contents(t, out))
	}
}
