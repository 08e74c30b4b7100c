package bench_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/test/fleettest"
)

// The whole fleet: 10,000 business clusters of ten nodes each.
const (
	wholeCells       = 300
	wholeGeographies = 4
	wholeRegions     = 20
	averageClusters  = 33 // of a cell: 10,000 in 300
	largestClusters  = 500
	interval         = 15 * time.Second
	// One cluster in a hundred is in trouble: half of all in it fails.
	healthyClusters = 99
)

// pattern is what a tier hears of one cluster in good health, of one in trouble,
// of a cell's own cluster, of a cell, and of a cascade. A small fleet made it, by
// the rules of all tiers; a large one is many copies of it.
type pattern struct {
	healthy, sick, meta, cell, cascade []fleettest.Sample
}

// patternOf runs two small fleets, a healthy one and one in which half of all
// fails.
func patternOf(tb testing.TB, to rules.Tier) pattern {
	tb.Helper()
	var out pattern
	for _, sick := range []float64{0, 0.5} {
		w := &fleettest.World{
			Interval: interval, Seed: 1, Shards: map[string][]int{"asia": {0}}, Trouble: fleettest.Trouble{Sick: sick},
			Cells: []fleettest.Cell{{
				Geography: "asia", Region: "east", Name: "cell", Read: []int{0}, Clusters: []fleettest.Cluster{{Name: "shop", Nodes: 10}},
			}},
		}
		w.Start(tb)
		for range 25 {
			w.Round(tb)
		}
		for _, s := range w.Crossing(tb, to) {
			out.add(s, sick > 0)
		}
	}
	return out
}

func (p *pattern) add(s fleettest.Sample, sick bool) {
	cluster := s.Labels.Get("cluster")
	switch {
	case cluster == "shop" && sick:
		p.sick = append(p.sick, s)
	case sick:
	case cluster == "shop":
		p.healthy = append(p.healthy, s)
	case cluster == rules.MetaCluster:
		p.meta = append(p.meta, s)
	case s.Labels.Has("cell"):
		p.cell = append(p.cell, s)
	default:
		p.cascade = append(p.cascade, s)
	}
}

// place is where a cell of the whole fleet is.
func place(cell int) (geography, region, name string) {
	return "g" + strconv.Itoa(cell%wholeGeographies), fmt.Sprintf("region-%02d", cell%wholeRegions), fmt.Sprintf("cell-%05d", cell)
}

// ofCell are the series of a cell with so many business clusters, as the servers
// of a pair tell them, or one server.
func (p pattern) ofCell(cell, clusters int, replicas ...string) []fleettest.Sample {
	var out []fleettest.Sample
	geography, region, name := place(cell)
	for _, replica := range replicas {
		where := []string{"geography", geography, "region", region, "cell", name, "edge_replica", replica}
		copied := func(of []fleettest.Sample, more ...string) {
			for _, s := range of {
				out = append(out, relabelled(s, append(where, more...)))
			}
		}
		copied(p.cell)
		copied(p.meta)
		for cluster := range clusters {
			id := cell*largestClusters + cluster
			of := p.healthy
			if id%(healthyClusters+1) == healthyClusters {
				of = p.sick
			}
			copied(of, "cluster", "c"+strconv.Itoa(id))
		}
	}
	return out
}

func relabelled(s fleettest.Sample, values []string) fleettest.Sample {
	b := labels.NewBuilder(s.Labels)
	for i := 0; i < len(values); i += 2 {
		b.Set(values[i], values[i+1])
	}
	s.Labels = b.Labels()
	return s
}

// at gives the samples at a moment: what tells a time tells this one.
func at(samples []fleettest.Sample, now time.Time) []fleettest.Sample {
	for i := range samples {
		samples[i].At = now
		if strings.Contains(samples[i].Labels.Get("__name__"), "heartbeat:timestamp") {
			samples[i].Value = float64(now.UnixMilli()) / 1000
		}
	}
	return samples
}
