package rules_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/relabel"
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
	_, err := rules.Parse("contract.yaml", []byte(valid))
	require.NoError(t, err)
	for name, tc := range map[string]struct{ old, new, want string }{
		"not yaml":        {"series:", "series: [", "c.yaml:2: did not find expected"},
		"unknown field":   {"kind: gauge", "kinds: gauge", "c.yaml:3: field kinds not found"},
		"no name":         {`"a:b:count"`, `""`, `c.yaml:3: series[0] "": name: is no metric name`},
		"bad name":        {`"a:b:count"`, `"a-b"`, `series[0] "a-b": name: is no metric name`},
		"declared twice":  {"name: up", `name: "a:b:count"`, `c.yaml:5: raw[0] "a:b:count": name: a:b:count is declared twice, first in line 3`},
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
		"negative number": {"series: 2", "series: -2", "c.yaml:3: cannot unmarshal"},
		"raw kind":        {"tier: every,", "tier: every, kind: heap,", `c.yaml:5: raw[0] "up": kind: "heap" is none of`},
		"no cluster":      {"per: cell", "per: cluster", `labels: has no cluster, but max.per is cluster`},
		"hidden clusters": {"labels: [cell]", "labels: [cell, cluster]", `c.yaml:3: series[0] "a:b:count": max.per: is "cell" for a series of a cluster`},
		"too many": {"labels: [cell], from: edge, to: central, max: {per: cell, series: 2}",
			"labels: [cluster], from: edge, to: central, max: {per: cluster, series: 61}", "c.yaml:3: a central would hold 61 series"},
		"le": {"kind: gauge, unit: nodes, help: h, labels: [cell]", "kind: histogram, unit: nodes, help: h, labels: [le]", `labels[0] "le": is that of every histogram`},
		"part twice": {"labels: [job]}", `labels: [job]}
  - {name: h_sum, tier: edge, source: s, help: h, labels: []}
  - {name: h, kind: histogram, tier: edge, source: s, help: h, labels: []}`, `c.yaml:7: raw[2] "h": name: h_sum is declared twice, first in line 6`},
		"two documents": {"raw:", "---\nraw:", "c.yaml: has more than one document"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, valid, tc.old)
			_, err := rules.Parse("c.yaml", []byte(strings.Replace(valid, tc.old, tc.new, 1)))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestParseTellsEverythingAtOnce(t *testing.T) {
	_, err := rules.Parse("c.yaml", []byte(strings.NewReplacer("unit: nodes", `unit: ""`, "kind: gauge", "kind: x", "tier: every", "tier: x").Replace(valid)))
	var problems rules.Problems
	require.ErrorAs(t, err, &problems)
	require.Len(t, problems, 3)
	_, err = rules.Parse("c.yaml", []byte("series: [{kinds: 1}]\nraws: []"))
	require.ErrorAs(t, err, &problems)
	require.Equal(t, []int{1, 2}, []int{problems[0].Line, problems[1].Line}, "each in its line")
	for _, empty := range []string{"", "\n# nothing\n", "series: []", "{}", "null"} {
		_, err = rules.Parse("c.yaml", []byte(empty))
		require.Error(t, err, "%q declares nothing", empty)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte("series: [{labels: [null]}]"))
	f.Add([]byte("series: &a\n  - {name: x, <<: *a}\nraw: *a"))
	f.Add([]byte("raw: [{name: h, kind: histogram}]\n---\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := rules.Parse("contract.yaml", raw)
		if err != nil {
			require.Empty(t, c)
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotZero(t, len(c.Series)+len(c.Raw))
		require.True(t, slices.IsSorted(c.Matchers(rules.Central)))
	})
}

func TestLinksCarryWhatTheContractDeclares(t *testing.T) {
	c := contract(t)
	cascade, central := c.Matchers(rules.Cascade), c.Matchers(rules.Central)
	require.Empty(t, c.Matchers(rules.Edge), "nothing is below the edge")
	require.Subset(t, central, cascade, "what a cascade reads goes on to the centrals")
	for _, s := range c.Series {
		for _, name := range s.Kind.Names(s.Name) {
			require.Equal(t, s.From == rules.Edge && s.To != rules.Edge, slices.Contains(cascade, name), name)
			require.Equal(t, s.From != rules.Central && s.To == rules.Central, slices.Contains(central, name), name)
		}
	}
	require.NotContains(t, central, "ALERTS")
}

func TestAHistogramCrossesWhole(t *testing.T) {
	c, err := rules.Parse("contract.yaml", []byte(`
series:
  - {name: classic, kind: histogram, unit: s, help: h, labels: [], from: edge, to: cascade, max: {per: cell, series: 12}}
  - {name: native, kind: native, unit: s, help: h, labels: [], from: edge, to: cascade, max: {per: cell, series: 1}}
raw:
  - {name: took, kind: histogram, tier: edge, source: s, help: h, labels: []}
`))
	require.NoError(t, err)
	require.Equal(t, []string{"classic_bucket", "classic_count", "classic_sum", "native"}, c.Matchers(rules.Cascade))
	require.Equal(t, []string{"took_bucket", "took_count", "took_sum"}, c.RawFrom("s"))
	require.NoError(t, c.Readable("classic_bucket", rules.Edge))
	require.ErrorContains(t, c.Readable("classic", rules.Edge), "is not declared")
}

func TestTheKeepRuleIsTheMatchers(t *testing.T) {
	c := contract(t)
	for _, tier := range []rules.Tier{rules.Cascade, rules.Central} {
		keep, err := relabel.NewRegexp(c.Keep(tier))
		require.NoError(t, err)
		for _, name := range c.Matchers(tier) {
			require.True(t, keep.MatchString(name), name)
			require.False(t, keep.MatchString(name+"x"), name)
		}
		require.False(t, keep.MatchString("ALERTS"))
	}
}

func TestSampleLimitGrowsWithWhatIsBehindTheTarget(t *testing.T) {
	c, err := rules.Parse("contract.yaml", []byte(`
series:
  - {name: per_cluster, kind: gauge, unit: u, help: h, from: edge, to: central, max: {per: cluster, series: 2}, labels: [cluster]}
  - {name: per_cell, kind: gauge, unit: u, help: h, from: edge, to: central, max: {per: cell, series: 5}}
  - {name: per_geography, kind: gauge, unit: u, help: h, from: cascade, to: central, max: {per: geography, series: 7}}
  - {name: stays, kind: gauge, unit: u, help: h, from: edge, to: edge, max: {per: cell, series: 1000}}
`))
	require.NoError(t, err)
	const clusters = 2 * (9 + 1) // the meta cluster is one more
	require.EqualValues(t, clusters+5, c.SampleLimit(rules.Cascade, rules.Size{Cells: 1, ClustersPerCell: 9}))
	require.EqualValues(t, (clusters+5)*3+7, c.SampleLimit(rules.Central, rules.Size{Cells: 3, ClustersPerCell: 9}))
	require.EqualValues(t, (clusters+5)*3*2+7, c.SampleLimit(rules.Central, rules.Size{Cells: 3, ClustersPerCell: 9, EdgeReplicas: 2}))
	require.EqualValues(t, (clusters+5*4)*3*2+7, c.SampleLimit(rules.Central, rules.Size{Cells: 3, ClustersPerCell: 9, EdgeReplicas: 2, EdgeShards: 4}))
}

func TestAClusterCostsTheCentralLittle(t *testing.T) {
	var perCluster uint
	for _, s := range contract(t).Series {
		if s.To == rules.Central && s.Max.Per == "cluster" && !s.Exception {
			perCluster += s.Max.Series
		}
	}
	require.LessOrEqual(t, perCluster, uint(rules.MaxPerCluster), "the centre must grow with clusters and failures, not with nodes")
	t.Logf("%d of %d series of each cluster at a central", perCluster, rules.MaxPerCluster)
}
