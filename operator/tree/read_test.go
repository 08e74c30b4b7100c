package tree_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/operator/tree"
)

const federation = `apiVersion: pharos.dev/v1alpha1
kind: Federation
metadata:
  name: fleet
spec:
  geographies:
    - name: asia
    - name: europe
`

func cellYAML(name, geography, endpoint string) string {
	return `apiVersion: pharos.dev/v1alpha1
kind: Cell
metadata:
  name: ` + name + `
spec:
  geography: ` + geography + `
  region: ` + geography + `-east
  kubeconfigSecret: ` + name + `
  edge:
    endpoints: ["` + endpoint + `"]
`
}

// lay writes files by name into a new folder.
func lay(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func TestReadFindsCells(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		cells string
		want  []string
	}{
		"in a folder and those under it, by path": {map[string]string{
			"f.yaml":            federation,
			"cells/b.yml":       cellYAML("b", "asia", "b:9090"),
			"cells/x/a.yaml":    "# only a comment\n---\n" + cellYAML("a", "asia", "a:9090") + "---\n" + cellYAML("c", "asia", "c:9090"),
			"cells/README.md":   "not: [yaml",
			"cells/x/none.yaml": "",
			"cells/d.json":      `{"apiVersion":"pharos.dev/v1alpha1","kind":"Cell","metadata":{"name":"d"},"spec":{"geography":"asia","region":"r","kubeconfigSecret":"d"}}`,
		}, "cells", []string{"b", "d", "a", "c"}},
		"beside the Federation": {map[string]string{
			"f.yaml": federation + "---\n" + cellYAML("a", "asia", "a:9090"),
		}, "", []string{"a"}},
		"in a folder that has the Federation, too": {map[string]string{
			"f.yaml": federation + "---\n" + cellYAML("a", "asia", "a:9090"), "b.yaml": cellYAML("b", "asia", "b:9090"),
		}, ".", []string{"a", "b"}},
		"elsewhere, and not beside the Federation": {map[string]string{
			"f.yaml": federation + "---\n" + cellYAML("a", "asia", "a:9090"), "cells/b.yaml": cellYAML("b", "asia", "b:9090"),
		}, "cells", []string{"b"}},
		"in one file": {map[string]string{
			"f.yaml": federation, "cells.yaml": cellYAML("a", "asia", "a:9090"),
		}, "cells.yaml", []string{"a"}},
		"in a list": {map[string]string{
			"f.yaml": federation,
			"l.yaml": "apiVersion: v1\nkind: List\nitems:\n" + indented(cellYAML("a", "asia", "a:9090")) + indented(cellYAML("b", "asia", "b:9090")),
		}, "l.yaml", []string{"a", "b"}},
		"nowhere": {map[string]string{"f.yaml": federation, "cells/README.md": "none yet"}, "cells", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := lay(t, tc.files)
			cells := tc.cells
			if cells != "" {
				cells = filepath.Join(dir, cells)
			}
			fleet, err := tree.Read(filepath.Join(dir, "f.yaml"), cells)
			require.NoError(t, err)
			require.Equal(t, "fleet", fleet.Federation.Name)
			var names []string
			for _, c := range fleet.Cells {
				names = append(names, c.Name)
			}
			require.Equal(t, tc.want, names)
		})
	}
}

func indented(document string) string {
	return "- " + strings.ReplaceAll(strings.TrimSpace(document), "\n", "\n  ") + "\n"
}

// A person is told the file and the line, and everything at once.
func TestReadRefuses(t *testing.T) {
	good := cellYAML("a", "asia", "a:9090")
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"an unknown field": {
			map[string]string{"c.yaml": "---\n" + good + "  sice: Large\n"},
			[]string{`c.yaml:12: Cell: unknown field "spec.sice"`},
		},
		"an unknown field in a list": {
			map[string]string{"f.yaml": federation + "      maxSeries: 5\n"},
			[]string{`f.yaml:9: Federation: unknown field "spec.geographies[1].maxSeries"`},
		},
		"a field that is there twice": {
			map[string]string{"c.yaml": good + "kind: Cell\n"},
			[]string{"c.yaml:1:", `"kind" already`},
		},
		"what is no YAML": {
			map[string]string{"c.yaml": good + "---\nkind: [Cell\n"},
			[]string{"c.yaml:12:", "did not find expected"},
		},
		"what is no object": {map[string]string{"c.yaml": "- 1\n"}, []string{"c.yaml:1: is no object"}},
		"a type that the field is not": {
			map[string]string{"c.yaml": strings.Replace(good, "region: asia-east", "region: no", 1)},
			[]string{"c.yaml:1: Cell:", "region"},
		},
		"a value that is none of the field's": {
			map[string]string{"c.yaml": good + "    mode: Other\n"},
			[]string{"c.yaml:11: Cell: spec.edge.mode: Unsupported value"},
		},
		"a rule over several fields": {
			map[string]string{"f.yaml": federation + "  link:\n    type: RemoteWrite\n"},
			[]string{"f.yaml:9: Federation: spec.link: Invalid value", "needs receiveURL"},
		},
		"a cell without geography": {
			map[string]string{"c.yaml": strings.Replace(good, "  geography: asia\n", "", 1)},
			[]string{"c.yaml:5: Cell: spec.geography: Required value"},
		},
		"a name that is none": {
			map[string]string{"c.yaml": strings.Replace(good, "name: a", "name: ../a", 1)},
			[]string{"c.yaml:4: Cell: metadata.name: Invalid value"},
		},
		"a geography twice": {
			map[string]string{"f.yaml": federation + "    - name: asia\n"},
			[]string{"f.yaml:9: Federation: spec.geographies[2]: Duplicate value"},
		},
		"another kind": {
			map[string]string{"c.yaml": "apiVersion: v1\nkind: Secret\n"},
			[]string{`c.yaml:1: is "Secret" of "v1"; only Federation and Cell`},
		},
		"a version that does not exist": {
			map[string]string{"c.yaml": strings.Replace(good, "v1alpha1", "v1", 1)},
			[]string{`c.yaml:1: is "Cell" of "pharos.dev/v1"`},
		},
		"no Federation":       {map[string]string{"f.yaml": good}, []string{"f.yaml: there is no Federation in it"}},
		"several Federations": {map[string]string{"c.yaml": "---\n" + federation}, []string{"f.yaml:1 and", "c.yaml:2: there are several Federations"}},
		"a wrong item of a list": {
			map[string]string{"c.yaml": "kind: List\nitems:\n" + indented(good) + indented(good+"x: 1\n")},
			[]string{`c.yaml:23: Cell: unknown field "x"`},
		},
		"everything at once": {
			map[string]string{"f.yaml": federation + "  colour: blue\n", "c.yaml": good + "colour: red\n"},
			[]string{`f.yaml:9: Federation: unknown field "spec.colour"`, `c.yaml:11: Cell: unknown field "colour"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"f.yaml": federation, "c.yaml": good}
			maps.Copy(files, tc.files)
			dir := lay(t, files)
			_, err := tree.Read(filepath.Join(dir, "f.yaml"), filepath.Join(dir, "c.yaml"))
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	t.Run("a file that is not there", func(t *testing.T) {
		dir := lay(t, map[string]string{"f.yaml": federation})
		_, err := tree.Read(filepath.Join(dir, "g.yaml"), "")
		require.ErrorIs(t, err, os.ErrNotExist)
		_, err = tree.Read(filepath.Join(dir, "f.yaml"), filepath.Join(dir, "cells"))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}
