package rules_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

var update = flag.Bool("update", false, "write generated files instead of comparing with them")

func contract(t testing.TB) rules.Contract {
	t.Helper()
	c, err := rules.Load()
	require.NoError(t, err)
	return c
}

func TestReferenceIsCurrent(t *testing.T) {
	path := filepath.Join(testkit.Root(t), "docs", "reference", "contract.md")
	got := contract(t).Reference()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/reference/contract.md is not current; run go generate ./rules:\n%s", diff)
	}
}

const valid = `
series:
  - {name: "a:b:count", kind: gauge, unit: nodes, help: h, labels: [cell], from: edge, to: central, max: {per: cell, series: 2}}
raw:
  - {name: up, tier: every, source: s, help: h, labels: [job]}
`

func TestParseRefuses(t *testing.T) {
	_, err := rules.Parse([]byte(valid))
	require.NoError(t, err)
	for name, tc := range map[string]struct{ old, new, want string }{
		"not yaml":        {"series:", "series: [", "contract.yaml: "},
		"unknown field":   {"kind: gauge", "kinds: gauge", "field kinds not found"},
		"no name":         {`"a:b:count"`, `""`, `series[0] "": name: is no metric name`},
		"bad name":        {`"a:b:count"`, `"a-b"`, `series[0] "a-b": name: is no metric name`},
		"declared twice":  {"name: up", `name: "a:b:count"`, `raw[0] "a:b:count": name: is declared twice`},
		"kind":            {"kind: gauge", "kind: gouge", `kind: "gouge" is none of`},
		"unit":            {"unit: nodes", `unit: ""`, "unit: is empty"},
		"help":            {"help: h, labels: [cell]", `help: "", labels: [cell]`, "help: is empty"},
		"label":           {"labels: [cell]", "labels: [a-b]", `labels[0] "a-b"`},
		"label twice":     {"labels: [cell]", "labels: [cell, cell]", `labels[1] "cell"`},
		"downwards":       {"from: edge, to: central", "from: central, to: edge", `from "central" to "edge"`},
		"unknown tier":    {"from: edge", "from: moon", `from "moon"`},
		"limit":           {"series: 2", "series: 0", "max.series: is 0"},
		"limit of what":   {"per: cell", "per: month", `max.per: "month" is none of`},
		"raw tier":        {"tier: every", "tier: some", `raw[0] "up": tier: "some" is none of`},
		"raw source":      {"source: s", `source: ""`, `raw[0] "up": source: is empty`},
		"negative number": {"series: 2", "series: -2", "contract.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, valid, tc.old)
			_, err := rules.Parse([]byte(strings.Replace(valid, tc.old, tc.new, 1)))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte("series: [{labels: [null]}]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := rules.Parse(raw)
		if err != nil {
			require.Empty(t, c)
			return
		}
		require.True(t, slices.IsSorted(c.Matchers(rules.Central)))
	})
}

func TestLinksCarryWhatTheContractDeclares(t *testing.T) {
	c := contract(t)
	cascade, central := c.Matchers(rules.Cascade), c.Matchers(rules.Central)
	require.Empty(t, c.Matchers(rules.Edge), "nothing is below the edge")
	require.Subset(t, central, cascade, "what a cascade reads goes on to the centrals")
	for _, s := range c.Series {
		require.Equal(t, s.From == rules.Edge && s.To != rules.Edge, slices.Contains(cascade, s.Name), s.Name)
		require.Equal(t, s.From != rules.Central && s.To == rules.Central, slices.Contains(central, s.Name), s.Name)
	}
	require.NotContains(t, central, "ALERTS")
}

func TestSampleLimitGrowsWithWhatIsBehindTheTarget(t *testing.T) {
	c, err := rules.Parse([]byte(`
series:
  - {name: per_cluster, kind: gauge, unit: u, help: h, from: edge, to: central, max: {per: cluster, series: 2}}
  - {name: per_cell, kind: gauge, unit: u, help: h, from: edge, to: central, max: {per: cell, series: 5}}
  - {name: per_geography, kind: gauge, unit: u, help: h, from: cascade, to: central, max: {per: geography, series: 7}}
  - {name: stays, kind: gauge, unit: u, help: h, from: edge, to: edge, max: {per: cell, series: 1000}}
`))
	require.NoError(t, err)
	require.EqualValues(t, 25, c.SampleLimit(rules.Cascade, rules.Size{Cells: 1, ClustersPerCell: 10}))
	require.EqualValues(t, 25*3+7, c.SampleLimit(rules.Central, rules.Size{Cells: 3, ClustersPerCell: 10}))
	require.EqualValues(t, 25*3*2+7, c.SampleLimit(rules.Central, rules.Size{Cells: 3, ClustersPerCell: 10, EdgeReplicas: 2}))
}

func TestAClusterCostsTheCentralLittle(t *testing.T) {
	var perCluster uint
	for _, s := range contract(t).Crossing(rules.Central) {
		if s.Max.Per == "cluster" {
			perCluster += s.Max.Series
		}
	}
	require.LessOrEqual(t, perCluster, uint(60), "the centre must grow with clusters and failures, not with nodes")
}
