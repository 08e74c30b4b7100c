package tree_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pharos-fleet/pharos/operator/tree"
)

func fleet(t *testing.T, documents ...string) *tree.Tree {
	t.Helper()
	made, err := read(t, append([]string{federation}, documents...)...)
	require.NoError(t, err)
	return made
}

// contents are all files under a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, _ := os.Stat(path); info == nil || !info.Mode().IsRegular() {
			out[path] = d.Type().String()
			return nil
		}
		raw, err := os.ReadFile(path)
		relative, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(relative)] = string(raw)
		return err
	}))
	return out
}

func write(t *testing.T, made *tree.Tree, dir string) tree.Summary {
	t.Helper()
	s, err := made.Write(t.Context(), dir)
	require.NoError(t, err)
	return s
}

// alone checks that nothing was left beside the folder.
func alone(t *testing.T, dir string) {
	t.Helper()
	beside, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	for _, e := range beside {
		require.Equal(t, filepath.Base(dir), e.Name())
	}
}

func TestWriteFollowsTheFleet(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a, b := cellYAML("a", "asia", "a:9090"), cellYAML("b", "asia", "b:9090")
	s := write(t, fleet(t, a, b), out)
	require.Equal(t, s.Files, s.Changed)
	all := contents(t, out)
	require.Len(t, all, s.Files+1)
	require.Contains(t, all[tree.ManifestFile], "  cells/b/files/edge/prometheus.yml\n")

	s = write(t, fleet(t, a, b), out)
	require.Zero(t, s.Changed+s.Removed, "nothing is new")
	require.Equal(t, all, contents(t, out))

	s = write(t, fleet(t, a), out)
	require.Positive(t, s.Removed)
	require.NoDirExists(t, filepath.Join(out, "cells", "b"))
	require.FileExists(t, filepath.Join(out, "cells", "a", "files", "edge", "prometheus.yml"))
	alone(t, out)
}

func TestWriteLeavesOthersAlone(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	mine := map[string]string{
		"README.md": "of the team", "cells/a/kustomization.yaml": "resources: []", "cells/b/secret.yaml": "kind: Secret", ".git/HEAD": "ref",
	}
	for name, content := range mine {
		require.NoError(t, os.MkdirAll(filepath.Join(out, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(out, name), []byte(content), 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(out, ".git", "refs"), 0o700))
	require.NoError(t, os.Symlink("README.md", filepath.Join(out, "link")))
	a, b := cellYAML("a", "asia", "a:9090"), cellYAML("b", "asia", "b:9090")
	write(t, fleet(t, a, b), out)
	write(t, fleet(t, a), out)
	all := contents(t, out)
	for name, content := range mine {
		require.Equal(t, content, all[name], name)
		info, err := os.Stat(filepath.Join(out, name))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
	}
	require.DirExists(t, filepath.Join(out, ".git", "refs"))
	to, err := os.Readlink(filepath.Join(out, "link"))
	require.NoError(t, err)
	require.Equal(t, "README.md", to)
	require.NoFileExists(t, filepath.Join(out, "cells", "b", "files", "edge", "prometheus.yml"))
	alone(t, out)
}

func TestWriteRefuses(t *testing.T) {
	a := cellYAML("a", "asia", "a:9090")
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, out string)
		want    string
	}{
		"somebody's file where one must be": {func(t *testing.T, out string) {
			require.NoError(t, os.MkdirAll(filepath.Join(out, "cells/a/manifests"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(out, "cells/a/manifests/edge.yaml"), []byte("mine"), 0o600))
		}, "holds cells/a/manifests/edge.yaml, where something would be rendered"},
		"a file where a folder must be": {func(t *testing.T, out string) {
			require.NoError(t, os.MkdirAll(out, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(out, "cells"), []byte("mine"), 0o600))
		}, "holds cells, where something would be rendered"},
		"a folder where a file must be": {func(t *testing.T, out string) {
			require.NoError(t, os.MkdirAll(filepath.Join(out, "hub/manifests/central-a.yaml"), 0o755))
		}, "holds hub/manifests/central-a.yaml, where something would be rendered"},
		"a rendered file that was edited": {func(t *testing.T, out string) {
			write(t, fleet(t, a), out)
			require.NoError(t, os.WriteFile(filepath.Join(out, "hub/files/central-a/prometheus.yml"), []byte("mine"), 0o600))
		}, "has been edited since, in hub/files/central-a/prometheus.yml"},
		"a manifest that leads elsewhere": {func(t *testing.T, out string) {
			require.NoError(t, os.MkdirAll(out, 0o755))
			line := strings.Repeat("0", 64) + "  ../../etc/passwd\n"
			require.NoError(t, os.WriteFile(filepath.Join(out, tree.ManifestFile), []byte(line), 0o600))
		}, tree.ManifestFile + ":1:"},
		"a manifest that goes on and on": {func(t *testing.T, out string) {
			require.NoError(t, os.MkdirAll(out, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(out, tree.ManifestFile), []byte("\n"+strings.Repeat("x", 1<<20)), 0o600))
		}, tree.ManifestFile + ":1:"},
		"a rendered file that a pipe has taken the place of": {func(t *testing.T, out string) {
			write(t, fleet(t, a), out)
			edge := filepath.Join(out, "cells/a/manifests/edge.yaml")
			require.NoError(t, os.Remove(edge))
			require.NoError(t, unix.Mkfifo(edge, 0o600))
		}, "holds cells/a/manifests/edge.yaml, where something would be rendered"},
		"a file of before that a pipe has taken the place of": {func(t *testing.T, out string) {
			write(t, fleet(t, a, cellYAML("b", "asia", "b:9090")), out)
			edge := filepath.Join(out, "cells/b/manifests/edge.yaml")
			require.NoError(t, os.Remove(edge))
			require.NoError(t, unix.Mkfifo(edge, 0o600))
		}, "has been edited since, in cells/b/manifests/edge.yaml"},
		"an edited file of a cell that is gone": {func(t *testing.T, out string) {
			write(t, fleet(t, a, cellYAML("b", "asia", "b:9090")), out)
			require.NoError(t, os.WriteFile(filepath.Join(out, "cells/b/manifests/edge.yaml"), []byte("mine"), 0o600))
		}, "has been edited since, in cells/b/manifests/edge.yaml"},
		"a manifest that is lost, beside files of another fleet": {func(t *testing.T, out string) {
			write(t, fleet(t, cellYAML("a", "asia", "other:9090")), out)
			require.NoError(t, os.Remove(filepath.Join(out, tree.ManifestFile)))
		}, "and no earlier render wrote it"},
		"a folder that leads elsewhere": {func(t *testing.T, out string) {
			require.NoError(t, os.MkdirAll(out, 0o755))
			require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(out, "hub")))
		}, "path escapes"},
		"a link instead of a folder, to nothing": {func(t *testing.T, out string) {
			require.NoError(t, os.Symlink("nothing", out))
		}, "looking for the folder"},
		"a file instead of a folder": {func(t *testing.T, out string) {
			require.NoError(t, os.WriteFile(out, nil, 0o600))
		}, "is a file"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			tc.prepare(t, out)
			before := contents(t, out)
			_, err := fleet(t, a).Write(t.Context(), out)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, before, contents(t, out), "nothing was written")
			alone(t, out)
			_, err = fleet(t, a).Diff(t.Context(), out, io.Discard)
			require.ErrorContains(t, err, tc.want, "what would be refused is no difference")
			require.Equal(t, before, contents(t, out))
		})
	}
	t.Run("a file where a folder above must be", func(t *testing.T) {
		above := filepath.Join(t.TempDir(), "above")
		require.NoError(t, os.WriteFile(above, nil, 0o600))
		_, err := fleet(t, a).Write(t.Context(), filepath.Join(above, "out"))
		require.ErrorContains(t, err, "making the folder to render into")
	})
	t.Run("a render that is ended", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "out")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := fleet(t, a).Write(ctx, out)
		require.ErrorIs(t, err, context.Canceled)
		require.NoDirExists(t, out)
	})
}

func TestDiff(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	a, b := cellYAML("a", "asia", "a:9090"), cellYAML("b", "asia", "b:9090")
	diff := func(made *tree.Tree) (string, bool) {
		var said strings.Builder
		s, err := made.Diff(t.Context(), out, &said)
		require.NoError(t, err)
		return said.String(), s.Changed+s.Removed > 0
	}
	write(t, fleet(t, a), out)
	require.NoError(t, os.WriteFile(filepath.Join(out, "README.md"), []byte("of the team"), 0o600))
	before := contents(t, out)
	said, differs := diff(fleet(t, a))
	require.False(t, differs)
	require.Empty(t, said)

	said, differs = diff(fleet(t, a, b))
	require.True(t, differs)
	require.Contains(t, said, "--- /dev/null\n+++ b/cells/b/files/edge/prometheus.yml\n")
	require.Contains(t, said, "--- a/hub/files/cascade-asia-0/targets-0-of-1.yaml\n+++ b/hub/files/cascade-asia-0/targets-0-of-1.yaml\n")
	require.Contains(t, said, "+    - b:9090\n")
	require.NotContains(t, said, "README")

	said, differs = diff(fleet(t))
	require.True(t, differs)
	require.Contains(t, said, "--- a/cells/a/files/edge/prometheus.yml\n+++ /dev/null\n")
	require.Equal(t, before, contents(t, out), "a comparison changes nothing")

	_, err := fleet(t, a).Diff(t.Context(), filepath.Join(out, "none"), os.Stdout)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
