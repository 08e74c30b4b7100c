package bench_test

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/test/fleettest"
)

// BenchmarkCentralRules evaluates all rules of a central over whole fleets. What
// one evaluation takes must fit into the interval of 15 s many times.
func BenchmarkCentralRules(b *testing.B) {
	p := patternOf(b, rules.Central)
	for _, cells := range []int{3, 30, wholeCells} {
		b.Run(fmt.Sprintf("clusters=%d", cells*averageClusters), func(b *testing.B) {
			samples := slices.Clone(p.cascade)
			o := central.Options{
				Replica: "a", Replicas: []string{"a"}, Interval: interval, Geographies: []string{"g0", "g1", "g2", "g3"},
				Static: &central.Static{Centrals: map[string]string{"a": "central:9090"}},
			}
			for i := range cells {
				geography, region, name := place(i)
				o.Cells = append(o.Cells, central.Cell{Geography: geography, Region: region, Name: name})
				samples = append(samples, p.ofCell(i, averageClusters, "a")...)
			}
			files, err := central.Render(o)
			require.NoError(b, err)
			evaluate(b, fleettest.New(b, files), samples)
		})
	}
}

// BenchmarkCascadeRules evaluates all rules of a shard that is as full as the
// plan lets it become.
func BenchmarkCascadeRules(b *testing.B) {
	p := patternOf(b, rules.Cascade)
	o := cascade.Options{Geography: "g0", Replica: "a", Interval: interval, Self: []string{"cascade:9090"}}
	var samples []fleettest.Sample
	for i := 0; len(samples) < cascade.DefaultMaxSeriesPerShard; i++ {
		_, region, name := place(i)
		o.Cells = append(o.Cells, cascade.Cell{Name: name, Region: region, Endpoints: []string{name + ":9090"}})
		samples = append(samples, p.ofCell(i, averageClusters, "a")...)
	}
	files, err := cascade.Render(o)
	require.NoError(b, err)
	evaluate(b, fleettest.New(b, files), samples)
}

// BenchmarkEdgeRules evaluates all rules of an edge over raw series, with a day
// of history behind those rules that look back a day.
func BenchmarkEdgeRules(b *testing.B) {
	for name, clusters := range map[string]int{"average": averageClusters, "large": 100} {
		b.Run(fmt.Sprintf("%s/clusters=%d", name, clusters), func(b *testing.B) {
			w := &fleettest.World{
				Interval: interval, Seed: 1, Shards: map[string][]int{"g0": {0}},
				Cells: []fleettest.Cell{{Geography: "g0", Region: "r", Name: "cell", Read: []int{0}}},
			}
			for i := range clusters {
				w.Cells[0].Clusters = append(w.Cells[0].Clusters, fleettest.Cluster{Name: "c" + strconv.Itoa(i), Nodes: 10})
			}
			w.Start(b)
			edge := w.Edge("cell")
			remember(b, edge, w.Now(), clusters)
			for range 3 { // so that there are rates
				edge.Append(b, at(w.Scraped("cell"), w.Pass()))
			}
			costs := newCosts()
			for b.Loop() {
				samples := at(w.Scraped("cell"), w.Pass())
				costs.measure(b, edge, samples, w.Now())
			}
			costs.report(b, edge)
		})
	}
}

// remember gives an edge the five-minute rates of the day before, from which its
// longer windows are made.
func remember(b *testing.B, edge *fleettest.Server, until time.Time, clusters int) {
	b.Helper()
	contract, err := rules.Load()
	require.NoError(b, err)
	for when := until.Add(-24 * time.Hour); when.Before(until); when = when.Add(time.Minute) {
		var samples []fleettest.Sample
		for _, s := range contract.Series {
			if s.From != rules.Edge || s.Kind == rules.Histogram || !strings.HasPrefix(s.Name, "cluster:") || !strings.HasSuffix(s.Name, ":rate5m") {
				continue
			}
			for i := range clusters {
				set := labels.FromStrings("__name__", s.Name, "cluster", "c"+strconv.Itoa(i))
				samples = append(samples, fleettest.Sample{Labels: set, At: when, Value: 1})
			}
		}
		edge.Append(b, samples)
	}
}

// evaluate has a server hear the samples and evaluate its rules, each time.
func evaluate(b *testing.B, s *fleettest.Server, samples []fleettest.Sample) {
	b.Helper()
	now := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	for range 2 { // all series are there, and all that is to alert has begun to
		now = now.Add(interval)
		s.Append(b, at(samples, now))
		s.Round(b, now)
	}
	costs := newCosts()
	for b.Loop() {
		now = now.Add(interval)
		costs.measure(b, s, at(samples, now), now)
	}
	costs.report(b, s)
}

// costs are what the rounds of a server took, of processor time: this process'
// alone, so that others on the machine do not count.
type costs struct {
	appending, evaluating []time.Duration
	samples               int
	rules                 map[string]time.Duration
}

func newCosts() *costs { return &costs{rules: map[string]time.Duration{}} }

func (c *costs) measure(b *testing.B, s *fleettest.Server, samples []fleettest.Sample, now time.Time) {
	b.Helper()
	begun := processorTime(b)
	s.Append(b, samples)
	appended := processorTime(b)
	s.Round(b, now)
	c.appending = append(c.appending, appended-begun)
	c.evaluating = append(c.evaluating, processorTime(b)-appended)
	c.samples = len(samples)
	for _, g := range s.Groups {
		for _, r := range g.Rules() {
			c.rules[g.Name()+" "+r.Name()] += r.GetEvaluationDuration()
		}
	}
}

func (c *costs) report(b *testing.B, s *fleettest.Server) {
	b.Helper()
	b.ReportMetric(float64(c.samples), "samples/round")
	b.ReportMetric(float64(s.Storage.Head().NumSeries()), "series")
	b.ReportMetric(median(c.appending).Seconds(), "append-cpu-s/round")
	b.ReportMetric(median(c.evaluating).Seconds(), "rules-cpu-s/round")
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapAlloc)/1e6, "heap-MB")
	dearest := slices.SortedFunc(maps.Keys(c.rules), func(x, y string) int { return cmp.Compare(c.rules[y], c.rules[x]) })
	for _, rule := range dearest[:min(8, len(dearest))] {
		b.Logf("%s: %.1f ms a round", rule, c.rules[rule].Seconds()*1000/float64(len(c.evaluating)))
	}
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
