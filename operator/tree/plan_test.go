package tree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/operator/tree"
)

// told has somebody to tell of an alert.
const told = federation + robot

// dense has cascades that hold a few cells each.
var dense = strings.Replace(told, "- name: asia\n", "- name: asia\n      maxSeriesPerShard: 20000\n", 1)

// sized are so many cells, each of the size that it is given, else Small.
func sized(sizes map[int]string, numbers ...int) []string {
	var cells []string
	for _, i := range numbers {
		size := sizes[i]
		if size == "" {
			size = "Small"
		}
		cells = append(cells, strings.Replace(cellYAML(fmt.Sprintf("asia-%02d", i), "asia", fmt.Sprintf("a%02d:9090", i)), "spec:\n", "spec:\n  size: "+size+"\n", 1)+"    shards: 1\n")
	}
	return cells
}

func upTo(n int) []int {
	var all []int
	for i := range n {
		all = append(all, i)
	}
	return all
}

// again renders documents into a folder where something may have been rendered.
func again(t *testing.T, dir, vouched string, documents ...string) *tree.Tree {
	t.Helper()
	made, err := tried(t, dir, vouched, documents...)
	require.NoError(t, err)
	write(t, made, dir)
	return made
}

// tried is what would be rendered into a folder.
func tried(t *testing.T, dir, vouched string, documents ...string) (*tree.Tree, error) {
	t.Helper()
	f := lay(t, map[string]string{"f.yaml": strings.Join(documents, "---\n")})
	fleet, err := tree.Read(filepath.Join(f, "f.yaml"), "")
	require.NoError(t, err)
	before, err := tree.PlanOf(dir)
	require.NoError(t, err)
	return tree.Continue(fleet, tree.Options{Namespace: "pharos-system", Before: before, Vouched: vouched})
}

// stepOf is the ID with which a render warns of what is under way.
func stepOf(t *testing.T, made *tree.Tree) string {
	t.Helper()
	id := regexp.MustCompile(`--end-moves=([0-9a-f]{12})$`)
	for _, w := range made.Warnings {
		if m := id.FindStringSubmatch(w); m != nil {
			return m[1]
		}
	}
	require.Fail(t, "nothing is under way", made.Warnings)
	return ""
}

var target = regexp.MustCompile(`- (a\d\d):9090`)

// readBy tells which cascades read each cell, from the files of targets that are in a
// folder.
func readBy(t *testing.T, dir string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for name, content := range contents(t, dir) {
		if !strings.HasPrefix(name, "hub/files/cascade-asia-") || !strings.HasSuffix(name, "/targets-0-of-1.yaml") {
			continue
		}
		for _, m := range target.FindAllStringSubmatch(content, -1) {
			out[m[1]] = append(out[m[1]], filepath.Base(filepath.Dir(name)))
		}
	}
	for cell := range out {
		slices.Sort(out[cell])
	}
	return out
}

// Whatever one change of a fleet does, a cell that was read by a cascade is read
// by that one in the next render too, and by no third one.
func TestNoCellLeavesItsCascadeInOneRender(t *testing.T) {
	for name, change := range map[string]struct {
		sizes   map[int]string
		numbers []int
	}{
		"one cell grows": {map[int]string{7: "Large"}, upTo(40)},
		"one cell goes":  {nil, upTo(40)[1:]},
		"one cell comes": {nil, upTo(41)},
		"many cells go":  {nil, upTo(12)},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			again(t, out, "", append([]string{dense}, sized(nil, upTo(40)...)...)...)
			before := readBy(t, out)
			again(t, out, "", append([]string{dense}, sized(change.sizes, change.numbers...)...)...)
			now := readBy(t, out)
			require.Len(t, now, len(change.numbers))
			for cell, by := range now {
				require.LessOrEqual(t, len(by), 2, cell)
				if len(before[cell]) > 0 {
					require.Contains(t, by, before[cell][0], "cell %s left %s and is read by %s", cell, before[cell], by)
				}
			}
		})
	}
}

// A cell that moves is in two cascades for as many renders as the team wants, and
// in the new one alone when it says so.
func TestAMoveEndsWhenItIsToldTo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	small, grown := append([]string{dense}, sized(nil, upTo(16)...)...), append([]string{dense}, sized(map[int]string{0: "Large"}, upTo(16)...)...)
	again(t, out, "", small...)
	made := again(t, out, "", grown...)
	moving := readBy(t, out)
	var twice []string
	for cell, by := range moving {
		if len(by) == 2 {
			twice = append(twice, cell)
		}
	}
	require.NotEmpty(t, twice, "the shard of the cell that has grown is too full")
	require.Len(t, made.Warnings, len(twice)+1, "and one about the volume of the cell that has grown")
	require.Contains(t, made.Warnings[0], "is read by cascade shards 0 and")

	first := contents(t, out)
	again(t, out, "", grown...)
	require.Equal(t, first, contents(t, out), "the same input gives the same bytes")

	again(t, out, stepOf(t, made), grown...)
	for cell, by := range readBy(t, out) {
		if slices.Contains(twice, cell) {
			require.NotContains(t, by, moving[cell][0], "the cell has left")
			require.Contains(t, by, moving[cell][1])
		}
	}
}

// An edge that gets more servers is divided over as many renders as it takes.
func TestAnEdgeIsDividedStepByStep(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	one := []string{told, strings.Replace(cellYAML("a", "asia", "a0:9090"), `["a0:9090"]`, `["a0:9090"]`, 1) + "    shards: 1\n"}
	two := []string{told, strings.Replace(cellYAML("a", "asia", "a0:9090"), `["a0:9090"]`, `["a0:9090", "a1:9090"]`, 1) + "    shards: 2\n"}
	expected := func() int {
		return strings.Count(contents(t, out)["hub/files/central-a/topology.rules.yaml"], "edge_shard: ")
	}
	again(t, out, "", one...)
	require.Equal(t, 1, expected())
	made := again(t, out, "", two...)
	require.Equal(t, 1, expected(), "the new server has not been heard of")
	require.DirExists(t, filepath.Join(out, "cells/a/files/edge-1-a"))
	made = again(t, out, stepOf(t, made), two...)
	require.Equal(t, 2, expected())
	both := contents(t, out)["cells/a/files/edge/prometheus.yml"]
	made = again(t, out, stepOf(t, made), two...)
	require.Equal(t, 2, expected())
	require.NotEqual(t, both, contents(t, out)["cells/a/files/edge/prometheus.yml"], "each server watches what is its own")
	require.Empty(t, made.Warnings)
}

func TestThePlanIsKept(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	documents := append([]string{dense}, sized(nil, upTo(3)...)...)
	again(t, out, "", documents...)
	plan := filepath.Join(out, tree.PlanFile)

	raw, err := os.ReadFile(plan)
	require.NoError(t, err)
	require.NoError(t, os.Remove(plan))
	_, err = tree.PlanOf(out)
	require.ErrorContains(t, err, "plan.yaml is gone, from a folder with 2 cascades")
	require.NoError(t, os.Rename(filepath.Join(out, tree.ManifestFile), filepath.Join(out, "elsewhere")))
	_, err = tree.PlanOf(out)
	require.ErrorContains(t, err, "plan.yaml is gone, from a folder with 2 cascades", "the cascades tell, if nothing else does")
	require.NoError(t, os.Rename(filepath.Join(out, "elsewhere"), filepath.Join(out, tree.ManifestFile)))

	edited := strings.Replace(string(raw), "shard: 0", "shard: 1", 1)
	require.NotEqual(t, string(raw), edited)
	require.NoError(t, os.WriteFile(plan, []byte(edited), 0o600))
	_, err = tree.PlanOf(out)
	require.ErrorContains(t, err, plan+" is not as the last render wrote it")

	require.NoError(t, os.WriteFile(plan, append(raw, "cells: 3\n"...), 0o600))
	_, err = tree.PlanOf(out)
	require.ErrorContains(t, err, plan+": is no plan that a render wrote")
	require.ErrorContains(t, err, `unknown field "cells"`)

	empty, err := tree.PlanOf(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, empty.Geographies)
}

// A cell that grows has the volume that it was made with, and keeps what fits into
// it, until somebody says that its volume is another.
func TestAVolumeStaysAsItWasMade(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	edge := func() string { return contents(t, out)["cells/asia-00/manifests/edge.yaml"] }
	again(t, out, "", append([]string{told}, sized(nil, 0)...)...)
	require.Contains(t, edge(), "storage: 20Gi")
	require.Contains(t, edge(), "--storage.tsdb.retention.size=16384MB")

	grown := append([]string{told}, sized(map[int]string{0: "Large"}, 0)...)
	made := again(t, out, "", grown...)
	require.Contains(t, edge(), "storage: 20Gi", "an API server refuses another")
	require.Contains(t, edge(), "--storage.tsdb.retention.size=16384MB")
	require.Contains(t, edge(), "memory: 20Gi", "the rest follows the size")
	require.Len(t, made.Warnings, 1)
	require.Contains(t, made.Warnings[0], "cells/asia-00: edge keeps its volume of 20Gi, and what fits into it, where 150Gi is needed")
	require.Empty(t, again(t, out, "", append([]string{told}, sized(nil, 0)...)...).Warnings)

	grown[1] += "    resources:\n      volume: 150Gi\n"
	require.Empty(t, again(t, out, "", grown...).Warnings)
	require.Contains(t, edge(), "storage: 150Gi")
	require.Contains(t, edge(), "--storage.tsdb.retention.size=122880MB")
}

// The servers of the hub are as large as what is described needs, or as somebody says.
func TestServersOfTheHubAreSized(t *testing.T) {
	files := func(documents ...string) map[string][]byte {
		made, err := read(t, documents...)
		return rendered(t, made, err)
	}
	small := files(append([]string{told}, sized(nil, 0)...)...)
	require.Contains(t, string(small["hub/manifests/central-a.yaml"]), "memory: 448Mi")
	require.Contains(t, string(small["hub/manifests/cascade-asia-0.yaml"]), "memory: 832Mi")
	sizes := map[int]string{}
	for i := range 30 {
		sizes[i] = "Large"
	}
	large := files(append([]string{told}, sized(sizes, upTo(30)...)...)...)
	require.Contains(t, string(large["hub/manifests/central-b.yaml"]), "memory: 3136Mi")
	require.Contains(t, string(large["hub/manifests/central-b.yaml"]), "storage: 30Gi")
	own := files(append([]string{federation + "  resources:\n    central:\n      memory: 64Gi\n"}, sized(nil, 0)...)...)
	require.Contains(t, string(own["hub/manifests/central-a.yaml"]), "memory: 64Gi")
	require.Contains(t, string(own["hub/manifests/cascade-asia-0.yaml"]), "memory: 832Mi")
}
