package links_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/rules"
)

// path is one way of a cell's series up to the centrals, by who tells of them.
type path struct{ edge, cell, replica, cascade string }

func paths() []path {
	return []path{
		{"pair-a", pairCell, "a", "cascade-0"},
		{"pair-b", pairCell, "b", "cascade-0"},
		{"moving", movingCell, "a", "cascade-0"},
		{"moving", movingCell, "a", "cascade-1"},
		{"stock-a", stockCell, "stock-a", "cascade-1"},
		{"stock-b", stockCell, "stock-b", "cascade-1"},
	}
}

// labels are everything that a series which came this way bears.
func (p path) labels(name string, more model.LabelSet) model.Metric {
	out := model.Metric{
		model.MetricNameLabel: model.LabelValue(name),
		"geography":           geography, "region": region, "cell": model.LabelValue(p.cell),
		"edge_shard": "0", "edge_replica": model.LabelValue(p.replica),
		"cascade_shard": model.LabelValue(strings.TrimPrefix(p.cascade, "cascade-")), "cascade_replica": "a",
	}
	maps.Copy(out, model.Metric(more))
	return out
}

// moments are the samples of one series by their time, each in the form in which
// the server tells of it.
type moments map[model.Time]string

func momentsOf(s *model.SampleStream) moments {
	out := moments{}
	for _, v := range s.Values {
		out[v.Timestamp] = v.Value.String()
	}
	for _, h := range s.Histograms {
		out[h.Timestamp] = h.Histogram.String()
	}
	return out
}

// bySeries sorts samples by the labels that the exporter gave to their series.
func bySeries(m model.Matrix) map[string]moments {
	out := map[string]moments{}
	for _, s := range m {
		out[fmt.Sprintf("%s le=%q", s.Metric[model.MetricNameLabel], s.Metric["le"])] = momentsOf(s)
	}
	return out
}

// selectors are what is compared, with how many series each edge has of it. A
// classic histogram is four buckets, the one without a bound, sum and count.
func selectors() map[string]int {
	return map[string]int{
		"test_value": 1, "cell:heartbeat:timestamp_seconds": 1,
		`{__name__=~"test_classic_seconds_(bucket|sum|count)"}`: 7, "test_native_seconds": 1, "test_custom_seconds": 1,
	}
}

// everythingArrivesUnchanged compares what both centrals have with what the edges
// measured, sample by sample: labels, times and values.
func (f *fleet) everythingArrivesUnchanged(t *testing.T) {
	since := time.Now()
	time.Sleep(10 * interval)
	for selector, series := range selectors() {
		for _, name := range centralNames() {
			waitSamples(t, f.servers[name], selector, since)
		}
		for _, p := range paths() {
			arrived := map[string]map[string]moments{}
			for _, name := range centralNames() {
				arrived[name] = f.arrived(t, name, p, selector, since)
			}
			// Read after what has arrived, so that it holds all of that.
			measured := bySeries(f.servers[p.edge].Raw(t, selector, since.Add(-10*interval)))
			require.Len(t, measured, series, p.edge)
			for name, all := range arrived {
				place := fmt.Sprintf("%s of %s over %s at %s", selector, p.edge, p.cascade, name)
				require.Len(t, all, series, "%s: series of exactly the right labels", place)
				unchanged(t, place, measured, all)
				together(t, place, all)
			}
		}
	}
}

// unchanged checks that what arrived was measured, at that time.
func unchanged(t *testing.T, place string, measured, arrived map[string]moments) {
	t.Helper()
	for key, all := range arrived {
		require.GreaterOrEqual(t, len(all), 2, "%s: %s: samples in ten intervals", place, key)
		for at, value := range all {
			require.Equal(t, measured[key][at], value, "%s: %s at %s", place, key, at.Time())
		}
	}
}

// arrived is what a central has that came one way, told by its labels, all of
// them.
func (f *fleet) arrived(t *testing.T, central string, p path, selector string, since time.Time) map[string]moments {
	t.Helper()
	var mine model.Matrix
	for _, s := range f.servers[central].Raw(t, selector, since) {
		more := model.LabelSet{}
		for _, label := range []model.LabelName{"le", "cluster"} {
			if value, ok := s.Metric[label]; ok {
				more[label] = value
			}
		}
		if s.Metric.Equal(p.labels(string(s.Metric[model.MetricNameLabel]), more)) {
			mine = append(mine, s)
		}
	}
	for _, s := range mine {
		if cluster, ok := s.Metric["cluster"]; ok {
			require.EqualValues(t, shop, cluster)
		}
	}
	return bySeries(mine)
}

// together checks that the series of one histogram were never pulled apart: what
// there is of one at a moment, there is of all.
func together(t *testing.T, place string, all map[string]moments) {
	t.Helper()
	count := map[model.Time]int{}
	for _, series := range all {
		for at := range series {
			count[at]++
		}
	}
	for at, n := range count {
		require.Equal(t, len(all), n, "%s: series at %s", place, at.Time())
	}
}

// nativeStaysNative: a histogram of either native kind has buckets at the centrals,
// and none has become numbers on the way.
func (f *fleet) nativeStaysNative(t *testing.T) {
	for _, name := range centralNames() {
		for _, histogram := range []string{"test_native_seconds", "test_custom_seconds"} {
			for _, s := range f.servers[name].Vector(t, histogram) {
				require.NotNil(t, s.Histogram, "%s at %s is a number", s.Metric, name)
				require.NotEmpty(t, s.Histogram.Buckets)
			}
		}
	}
}

// nothingElsePasses looks at every series that came up to a central.
func (f *fleet) nothingElsePasses(t *testing.T) {
	declared := map[string]bool{}
	for _, name := range contract(t).Matchers(rules.Central) {
		declared[name] = true
	}
	for _, name := range centralNames() {
		for _, n := range f.servers[name].Vector(t, `count by (__name__) (last_over_time({cascade_replica!=""}[1m]))`) {
			require.True(t, declared[string(n.Metric[model.MetricNameLabel])], "%s at %s", n.Metric, name)
		}
		require.Empty(t, f.servers[name].Vector(t, `{cascade_replica!="", job!=""} or {cascade_replica!="", instance!=""} or {prometheus!=""} or {prometheus_replica!=""} or {environment!=""}`))
	}
	for _, name := range cascadeNames() {
		require.Empty(t, f.servers[name].Vector(t, "test_undeclared"))
	}
}

// everythingCountsOnce: two edges of a pair tell of a cell, or two cascades while
// it moves, and its numbers are there once.
func (f *fleet) everythingCountsOnce(t *testing.T) {
	f.atCentrals(t, func(s *promtest.Server) error { return s.Gives("count(test_value)", float64(len(paths()))) })
	f.atCentrals(t, func(s *promtest.Server) error {
		return s.Gives("sum(max by (geography, region, cell, cluster) (0 * test_value + 1))", cells)
	})
	f.atCentrals(t, func(s *promtest.Server) error { return s.Gives("fleet:cells_contributing:count", cells) })
}
