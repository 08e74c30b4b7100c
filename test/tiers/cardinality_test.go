package tiers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/test/fleettest"
)

// TestACentralGrowsWithClustersAndFailures loads a central through the rules of
// all tiers and counts what it holds of each business cluster.
func TestACentralGrowsWithClustersAndFailures(t *testing.T) {
	t.Parallel()
	t.Run("all is well", func(t *testing.T) {
		held := heldWith(t, 0)
		for cluster, names := range held.exceptions {
			t.Errorf("nothing is wrong with cluster %s, and the central holds exceptions of it: %v", cluster, names)
		}
		require.ElementsMatch(t, held.series["small"], held.series["large"], "a cluster of many nodes costs a central more than one of few")
		require.GreaterOrEqual(t, len(held.series["small"]), 25, "the world tells the central of hardly anything")
	})
	t.Run("much is wrong", func(t *testing.T) {
		held := heldWith(t, 0.5)
		require.NotEmpty(t, held.exceptions["large"], "half of everything fails, and no exception says so")
	})
}

// holding is what a central holds of each cluster, whoever told it.
type holding struct {
	series     map[string][]string // each with its labels
	exceptions map[string][]string
}

// heldWith has a share of everything fail, and checks the limit.
func heldWith(t *testing.T, sick float64) holding {
	t.Helper()
	w := &fleettest.World{
		Interval: 30 * time.Second, Seed: 3, Shards: map[string][]int{asia: {0, 1}}, Trouble: fleettest.Trouble{Sick: sick},
		Cells: []fleettest.Cell{{
			// A pair of edges that two cascades read tells everything four times.
			Geography: asia, Region: "east", Name: asiaCell, Replicas: []string{"a", "b"}, Read: []int{0, 1},
			Clusters: []fleettest.Cluster{{Name: "small", Nodes: 2}, {Name: "large", Nodes: 40}},
		}},
	}
	w.Start(t)
	for range 14 { // the rates of five minutes
		w.Round(t)
	}
	held := holding{series: map[string][]string{}, exceptions: map[string][]string{}}
	isException := exceptions(t)
	tellings := w.Central.Query(t, `{cluster!="", cluster!="`+rules.MetaCluster+`"}`, w.Now())
	for _, s := range tellings {
		into := held.series
		if isException(s.Metric.Get(model.MetricNameLabel)) {
			into = held.exceptions
		}
		cluster := s.Metric.Get("cluster")
		into[cluster] = append(into[cluster], labels.NewBuilder(s.Metric).Del(rules.Tellers()...).Del("cluster").Labels().String())
	}
	for _, all := range []map[string][]string{held.series, held.exceptions} {
		for cluster := range all {
			slices.Sort(all[cluster])
			all[cluster] = slices.Compact(all[cluster])
		}
	}
	for cluster, series := range held.series {
		t.Logf("%s: %d series, and %d exceptions", cluster, len(series), len(held.exceptions[cluster]))
		require.LessOrEqual(t, len(series), rules.MaxPerCluster,
			"the central holds more series of cluster %s than it may:\n%s", cluster, strings.Join(series, "\n"))
	}
	t.Logf("%d series of clusters as four paths tell them", len(tellings))
	return held
}

// exceptions tells the names of series that are there only where something is
// wrong.
func exceptions(t *testing.T) func(name string) bool {
	t.Helper()
	contract, err := rules.Load()
	require.NoError(t, err)
	names := []string{"ALERTS", "ALERTS_FOR_STATE"}
	for _, s := range contract.Series {
		if s.Exception {
			names = append(names, s.Kind.Names(s.Name)...)
		}
	}
	return func(name string) bool { return slices.Contains(names, name) }
}
