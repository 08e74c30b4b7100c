package tiers_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/test/fleettest"
)

// TestEveryAggregateIsTrue computes every number of a geography and of the fleet
// twice: by the rules of three tiers, each from what the contract lets through to
// it, and by the queries of the table from all raw series of the fleet in one
// server.
func TestEveryAggregateIsTrue(t *testing.T) {
	t.Parallel()
	w := worldOfSums()
	w.Start(t)
	table := everyAggregate(t)
	for range 21 { // what looks back ten minutes, and alerts that wait
		w.Round(t)
	}
	seen := compare(t, w, table, 3)
	for name := range table {
		if name != "fleet:alert_held:info" {
			require.True(t, seen[name], "%s is nowhere in the world, so that nothing was compared", name)
		}
	}

	t.Run("while a geography is dark and half of a cell of another", func(t *testing.T) {
		w.Trouble.Dead = map[string]bool{"europe-1-0-a": true, "europe-2-0-a": true, "asia-2-1-a": true, "asia-1-0-b": true}
		for range 8 {
			w.Round(t)
		}
		seen := compare(t, w, table, 2)
		require.True(t, seen["fleet:alert_held:info"], "a node of a dark cell was not ready, and is held")
		require.Equal(t, 2.0, w.Central.Query(t, "fleet:cells_contributing:count", w.Now())[0].F)
	})
	t.Run("after they came back", func(t *testing.T) {
		w.Trouble.Dead = nil
		for range 12 {
			w.Round(t)
		}
		compare(t, w, table, 1)
	})
}

// worldOfSums has all that could make a sum count twice or not at all: a pair of
// edges, an edge of two shards, a cell that two cascades read, a geography
// without cells, a cluster without nodes and one that is not watched, meta
// clusters, scrapes that are missed, and counters that begin anew.
func worldOfSums() *fleettest.World {
	shop := func(names ...string) []fleettest.Cluster {
		var out []fleettest.Cluster
		for i, name := range names {
			out = append(out, fleettest.Cluster{Name: name, Nodes: 3 + i})
		}
		return out
	}
	return &fleettest.World{
		Interval: 30 * time.Second, Seed: 7,
		Shards: map[string][]int{asia: {0, 1}, europe: {0}, "oceania": {0}},
		Cells: []fleettest.Cell{
			{Geography: asia, Region: "east", Name: "asia-1", Replicas: []string{"a", "b"}, Read: []int{0}, Clusters: shop("shop", "bank")},
			{Geography: asia, Region: "east", Name: "asia-2", Shards: 2, Read: []int{0}, Clusters: shop("shop", "post", "mill")},
			{Geography: asia, Region: "south", Name: "asia-3", Read: []int{0, 1}, Clusters: append(shop("shop"), fleettest.Cluster{Name: "void"}, fleettest.Cluster{Name: rules.MetaCluster, Nodes: 3})},
			{Geography: europe, Region: "west", Name: "europe-1", Read: []int{0}, Clusters: append(shop("shop"), fleettest.Cluster{Name: "lost", Nodes: 2, Unwatched: true})},
			{Geography: europe, Region: "west", Name: "europe-2", Read: []int{0}, Clusters: append(shop("bank", "farm"), fleettest.Cluster{Name: rules.MetaCluster, Nodes: 2})},
		},
		Trouble: fleettest.Trouble{Sick: 0.2, Gaps: 0.02, Restarts: true},
	}
}

// everyAggregate is the table of direct queries. A number of a geography or the
// fleet that the contract says there is at a central must be in it, and nothing
// else may.
func everyAggregate(t *testing.T) map[string]string {
	t.Helper()
	contract, err := rules.Load()
	require.NoError(t, err)
	table := directly()
	declared := map[string]bool{}
	for _, s := range contract.Series {
		if !strings.HasPrefix(s.Name, "geography:") && !strings.HasPrefix(s.Name, "fleet:") || s.From != rules.Central {
			continue
		}
		for _, name := range s.Kind.Names(s.Name) {
			declared[name] = true
			if table[name] == "" {
				t.Errorf("%s is a number of the whole, and directly() has no query that computes it from raw series: add one", name)
			}
		}
	}
	for name := range table {
		require.True(t, declared[name], "%s has a query and is not declared", name)
	}
	return table
}

// compare lets rounds pass, compares every aggregate after each, and says which
// were there at all.
func compare(t *testing.T, w *fleettest.World, table map[string]string, rounds int) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for range rounds {
		w.Round(t)
		for name, direct := range table {
			got := byLabels(w.Central.Query(t, asked(name), w.Now()))
			want := byLabels(w.Direct.Query(t, direct, w.Now()))
			require.Equal(t, keys(want), keys(got), "%s at %s: other series than\n%s", name, w.Now(), direct)
			for set, v := range want {
				if !same(name, v, got[set]) {
					t.Errorf("%s%s at %s: the tiers say %v, and directly it is %v by\n%s", name, set, w.Now(), got[set], v, direct)
				}
			}
			seen[name] = seen[name] || len(want) > 0
		}
		if t.Failed() {
			t.FailNow() // the next rounds would say the same
		}
	}
	return seen
}

// asked is what of an aggregate is compared.
func asked(name string) string {
	if name == "fleet:alert_held:info" {
		// Other alerts depend on more than what is raw.
		return name + `{alertname="PharosNodeNotReady", because="cell"}`
	}
	return name
}

// same compares a count exactly, and what is divided or is a rate by a billionth.
func same(name string, a, b float64) bool {
	if strings.HasSuffix(name, ":count") || strings.HasSuffix(name, ":bool") || strings.HasSuffix(name, ":info") {
		return a == b
	}
	return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
}

// byLabels are the values of a result by what they are about: neither the name
// nor who told counts.
func byLabels(v promql.Vector) map[string]float64 {
	out := map[string]float64{}
	for _, s := range v {
		out[labels.NewBuilder(s.Metric).Del(model.MetricNameLabel).Labels().String()] = s.F
	}
	return out
}

func keys(values map[string]float64) map[string]bool {
	out := map[string]bool{}
	for k := range values {
		out[k] = true
	}
	return out
}
