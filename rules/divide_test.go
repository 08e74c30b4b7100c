package rules_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pharos-fleet/pharos/rules"
)

// configMap is how many bytes a ConfigMap holds.
const configMap = 1 << 20

func itself(s string) string { return s }

func TestWhatFitsIntoOneFileIsNotDivided(t *testing.T) {
	for _, items := range [][]string{nil, {"a"}, {"b", "a"}} {
		pieces := rules.Divide("x", ".yaml", items, itself, func(string) int { return 1 })
		require.Equal(t, map[string][]string{"x.yaml": items}, pieces)
	}
}

// Whatever the items are, each is in one file, in the order given; no file is
// larger than it may be, unless it is one item; and a newcomer changes one file
// as long as the number of files is the same.
func TestDividedItemsAreEachInOnePlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfDistinct(rapid.StringN(1, 40, -1), itself).Draw(t, "items")
		each := rapid.IntRange(1, 100_000).Draw(t, "size")
		size := func(string) int { return each }
		pieces := rules.Divide("x", ".yaml", items, itself, size)
		require.Equal(t, slices.Sorted(slices.Values(items)), slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(pieces))...))))
		require.Equal(t, 0, len(pieces)&(len(pieces)-1), "a power of two")
		for name, some := range pieces {
			require.True(t, len(some) < 2 || len(some)*each <= configMap/4 || len(pieces) >= len(items), name)
			for i := 1; i < len(some); i++ {
				require.Less(t, slices.Index(items, some[i-1]), slices.Index(items, some[i]), "the order stays")
			}
			stem, number, ok := rules.PieceOf(name)
			require.Equal(t, len(pieces) > 1, ok, name)
			require.True(t, !ok || stem == "x" && number < len(pieces), name)
		}
		after := rules.Divide("x", ".yaml", append(slices.Clone(items), "a newcomer of fifty letters, which no item above is"), itself, size)
		changed := 0
		for name := range after {
			if !slices.Equal(pieces[name], after[name]) {
				changed++
			}
		}
		require.True(t, len(after) != len(pieces) || changed == 1, changed)
	})
}

func TestOnlyPiecesAreTakenForPieces(t *testing.T) {
	for name, want := range map[string]string{
		"topology-3-of-16.rules.yaml": "topology 3", "a-b-10-of-32.yaml": "a-b 10",
		"topology.rules.yaml": "", "topology-fleet.rules.yaml": "", "3-of-16": "", "central-capacity.rules.yaml": "", "x-1-of-.yaml": "",
		"x-99999999999999999999-of-3.yaml": "",
	} {
		stem, number, ok := rules.PieceOf(name)
		got := ""
		if ok {
			got = fmt.Sprint(stem, " ", number)
		}
		require.Equal(t, want, got, name)
	}
}

// constantsOf is the topology of a large fleet, as a central has it.
func constantsOf(cells int, suffix string) []rules.Constant {
	out := []rules.Constant{{Record: "fleet:cells_expected:count", Value: float64(cells)}}
	for i := range cells {
		labels := map[string]string{"geography": "asia", "region": "east", "cell": fmt.Sprintf("cell-%05d%s", i, suffix)}
		out = append(out, rules.Constant{Record: "fleet:cell_expected:info", Labels: labels, Value: 1})
	}
	return out
}

// A topology that is too large for one file says the same in several: no group
// is called as one of the whole, and each file fits, however names are written.
func TestALargeTopologyIsDivided(t *testing.T) {
	for _, suffix := range []string{"", strings.Repeat("\U0001f984", 40), strings.Repeat(`"\`, 60)} {
		constants := constantsOf(2_000, suffix)
		files, err := rules.Files(rules.Central, rules.WrittenFor, constants)
		require.NoError(t, err)
		require.NotContains(t, files, rules.TopologyFileName)
		names := rules.RuleFiles(rules.Central, files)
		require.ElementsMatch(t, slices.Collect(maps.Keys(files)), names)
		require.Equal(t, rules.FileNames(rules.Central)[1:], names[len(names)-len(rules.Subjects(rules.Central)):], "what is expected comes first")
		counted, undeclared := map[string]int{}, 0
		for _, name := range names[:len(names)-len(rules.Subjects(rules.Central))] {
			require.Less(t, len(files[name]), configMap/3, name)
			group := parse(t, files[name]).Groups[0]
			require.Equal(t, strings.TrimSuffix(name, rules.FileSuffix), group.Name)
			for _, r := range group.Rules {
				counted[r.Record+r.Labels["cell"]]++
				if r.Record == "central:series_undeclared:count" {
					undeclared++
				}
			}
		}
		require.Len(t, counted, len(constants)+1)
		for what, n := range counted {
			require.Equal(t, 1, n, what)
		}
		require.Equal(t, 1, undeclared)
	}
}

// A cell that joins or leaves changes its own file, and the one with the counts.
func TestACellMoreChangesItsOwnFile(t *testing.T) {
	before, err := rules.Files(rules.Central, rules.WrittenFor, constantsOf(10_000, ""))
	require.NoError(t, err)
	after, err := rules.Files(rules.Central, rules.WrittenFor, constantsOf(10_001, ""))
	require.NoError(t, err)
	require.Len(t, after, len(before))
	var changed []string
	for name := range after {
		if string(after[name]) != string(before[name]) {
			changed = append(changed, name)
		}
	}
	require.Len(t, changed, 2, changed)
	require.Contains(t, changed, "topology-fleet.rules.yaml")
}
