package tree_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
		"in documents with something behind their dashes, or an end": {map[string]string{
			"f.yaml": "%YAML 1.1\n--- !!map\n" + federation + "...\n",
			"c.yaml": "\ufeff--- # a\n" + cellYAML("a", "asia", "a:9090") + "---\t# b\n" + cellYAML("b", "asia", "b:9090") + "...\n# c\n--- !!map\n" + cellYAML("c", "asia", "c:9090"),
		}, "c.yaml", []string{"a", "b", "c"}},
		"in files whose names are in capitals": {map[string]string{
			"f.yaml": federation, "cells/A.YAML": cellYAML("a", "asia", "a:9090"), "cells/B.Yml": cellYAML("b", "asia", "b:9090"),
		}, "cells", []string{"a", "b"}},
		"beside a list of resources for kustomize": {map[string]string{
			"f.yaml": federation, "cells/a.yaml": cellYAML("a", "asia", "a:9090"), "cells/kustomization.yaml": "resources: [a.yaml]\n",
		}, "cells", []string{"a"}},
		"in an empty list": {map[string]string{"f.yaml": federation, "l.yaml": "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"}, "l.yaml", nil},
		"nowhere":          {map[string]string{"f.yaml": federation, "cells/README.md": "none yet"}, "cells", nil},
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
			[]string{`c.yaml:11: is no YAML: key "kind" already set`},
		},
		"what is no YAML": {
			map[string]string{"c.yaml": good + "---\nkind: [Cell\n"},
			[]string{"c.yaml:12: is no YAML: did not find expected"},
		},
		"what is no YAML in several places": {
			map[string]string{"f.yaml": federation + "kind: A\n", "c.yaml": "# a\n" + good + "kind: B\n---\na: 1\nb: 2\na: 3\n"},
			[]string{"f.yaml:9: is no YAML", "c.yaml:12: is no YAML", "c.yaml:16: is no YAML"},
		},
		"what is no YAML, nobody knows where": {
			map[string]string{"c.yaml": good + "---\nkind: *Cell\n"},
			[]string{"c.yaml:1: here or further down is no YAML: yaml: unknown anchor 'Cell'"},
		},
		"a document that is ended and not begun": {
			map[string]string{"c.yaml": good + "...\n" + cellYAML("b", "asia", "b:9090")},
			[]string{"c.yaml:11: is no YAML: did not find expected <document start>"},
		},
		"a wrong document with something behind its dashes": {
			map[string]string{"c.yaml": good + "--- # of b\n" + cellYAML("b", "asia", "b:9090") + "x: 1\n"},
			[]string{`c.yaml:22: Cell: unknown field "x"`},
		},
		"a key that is no string": {
			map[string]string{"c.yaml": good + "on: 1\n"},
			[]string{"c.yaml:1: the key true is no string"},
		},
		"a number that JSON does not have": {
			map[string]string{"c.yaml": good + "x: .nan\n"},
			[]string{"c.yaml:1: ", "NaN"},
		},
		"a misspelt list": {
			map[string]string{"c.yaml": "apiVersion: v1\nkind: List\nitem:\n" + indented(good)},
			[]string{`c.yaml:3: List: unknown field "item"`, "c.yaml:1: List: needs apiVersion: v1, and items"},
		},
		"a list of nobody": {
			map[string]string{"c.yaml": "kind: List\nitems: []\n"},
			[]string{"c.yaml:1: List: needs apiVersion: v1"},
		},
		"a list of what is no list": {
			map[string]string{"c.yaml": "apiVersion: v1\nkind: List\nitems: 1\n"},
			[]string{"c.yaml:1: List: json: cannot unmarshal"},
		},
		"what is being deleted": {
			map[string]string{"c.yaml": strings.Replace(good, "  name: a\n", "  name: a\n  deletionTimestamp: \"2026-01-01T00:00:00Z\"\n", 1)},
			[]string{"c.yaml:5: Cell: metadata.deletionTimestamp: a was being deleted"},
		},
		"rules over several fields beside other mistakes": {
			map[string]string{"c.yaml": good + "    mode: External\n    shards: 2\n  size: Huge\n"},
			[]string{"c.yaml:13: Cell: spec.size: Unsupported value", "c.yaml:1: Cell: rules over several fields could not be looked at before that is mended"},
		},
		"rules over several fields beside a duplicate": {
			map[string]string{"f.yaml": federation + "    - name: asia\n  link:\n    type: RemoteWrite\n"},
			[]string{"f.yaml:9: Federation: spec.geographies[2]: Duplicate value", "f.yaml:10: Federation: spec.link: Invalid value"},
		},
		"what is no object": {map[string]string{"c.yaml": "- 1\n"}, []string{"c.yaml:1: is no object"}},
		"a type that the field is not": {
			map[string]string{"c.yaml": strings.Replace(good, "region: asia-east", "region: no", 1)},
			[]string{`c.yaml:7: Cell: spec.region: Invalid value: "boolean"`},
		},
		"an amount that is none": {
			map[string]string{"c.yaml": good + "  capacity:\n    pools:\n    - name: addresses\n      limit: many\n"},
			[]string{"c.yaml:14: Cell: spec.capacity.pools[0].limit: Invalid value"},
		},
		"a value that is none of the field's": {
			map[string]string{"c.yaml": good + "    mode: Other\n"},
			[]string{"c.yaml:11: Cell: spec.edge.mode: Unsupported value"},
		},
		"a rule over several fields": {
			map[string]string{"f.yaml": federation + "  link:\n    type: RemoteWrite\n"},
			[]string{"f.yaml:9: Federation: spec.link: Invalid value", "needs receiveURL"},
		},
		"a receiver of a port that is none": {
			map[string]string{"f.yaml": federation + "  link:\n    type: RemoteWrite\n    receiveURL: https://{geography}-{shard}:99999/api/v1/write\n"},
			[]string{`f.yaml:11: Federation: spec.link.receiveURL "cascade 0 of asia": "https://asia-0:99999/api/v1/write" has no valid port`},
		},
		"a receiver whose port is a shard": {
			map[string]string{"f.yaml": federation + "  link:\n    type: RemoteWrite\n    receiveURL: https://{geography}:{shard}/w\n"},
			[]string{`f.yaml:11: Federation: spec.link.receiveURL "cascade 0 of asia": "https://asia:0/w" has no valid port`},
		},
		"a receiver with another word in braces": {
			map[string]string{"f.yaml": federation + "  link:\n    type: RemoteWrite\n    receiveURL: https://{geography}-{shard}/{foo}\n"},
			[]string{`f.yaml:11: Federation: spec.link.receiveURL "cascade 0 of asia": "https://asia-0/{foo}" has one of # { } in it`},
		},
		"a store that nobody can write to": {
			map[string]string{"f.yaml": federation + "  longTerm:\n    - name: a\n      url: https://a/w\n    - name: b\n      url: https://b:99999/w\n"},
			[]string{`f.yaml:13: Federation: spec.longTerm[1].url "b": "https://b:99999/w" has no valid port`},
		},
		"an Alertmanager in two spellings": {
			map[string]string{"f.yaml": federation + "  alerting:\n    alertmanagers:\n      - name: a\n        url: http://a:9093\n      - name: b\n        url: http://A:09093/\n"},
			[]string{`f.yaml:14: Federation: Alertmanager "b": http://A:09093/ is the one called "a" already`},
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
			map[string]string{"c.yaml": "apiVersion: v1\nkind: List\nitems:\n" + indented(good) + indented(good+"x: 1\n")},
			[]string{`c.yaml:24: Cell: unknown field "x"`},
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

// A cell that is not found would be removed: so a link is followed where it is
// named, and refused where it may hide a part of the fleet.
func TestReadAndLinks(t *testing.T) {
	dir := lay(t, map[string]string{
		"f.yaml": federation, "real/a.yaml": cellYAML("a", "asia", "a:9090"), "more/b.yaml": cellYAML("b", "asia", "b:9090"),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	link := func(target, name string) { t.Helper(); require.NoError(t, os.Symlink(target, at(name))) }
	link("real", "cells")
	link("../more/b.yaml", "real/c.yaml")
	fleet, err := tree.Read(at("f.yaml"), at("cells"))
	require.NoError(t, err)
	require.Len(t, fleet.Cells, 2, "the folder is a link, and so is a file in it")

	link("../more", "real/more")
	_, err = tree.Read(at("f.yaml"), at("cells"))
	require.ErrorContains(t, err, at("cells/more")+" is a link to a folder")
	require.NoError(t, os.Remove(at("real/more")))

	link("../gone", "real/gone")
	_, err = tree.Read(at("f.yaml"), at("cells"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "cells/gone")
}

// Nobody writes to the pipe: to read it would be to wait for ever.
func TestReadRefusesWhatIsNoFile(t *testing.T) {
	dir := lay(t, map[string]string{"f.yaml": federation, "cells/a.yaml": cellYAML("a", "asia", "a:9090")})
	pipe := filepath.Join(dir, "cells", "pipe.yaml")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for _, at := range [][2]string{{"f.yaml", "cells"}, {"f.yaml", "cells/pipe.yaml"}, {"cells/pipe.yaml", "cells"}} {
		_, err := tree.Read(filepath.Join(dir, at[0]), filepath.Join(dir, at[1]))
		require.ErrorContains(t, err, pipe+" is no regular file")
	}
	_, err := tree.Read(filepath.Join(dir, "cells"), "")
	require.ErrorContains(t, err, "cells is no regular file")
	_, err = tree.ReadPlan(pipe)
	require.ErrorContains(t, err, "reading the plan of the last render: "+pipe+" is no regular file")
}
