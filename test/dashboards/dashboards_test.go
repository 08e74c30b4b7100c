// Package dashboards_test asks a central of a whole fleet what Grafana would ask.
package dashboards_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/dashboards"
	"github.com/pharos-fleet/pharos/test/fleettest"
)

// TestDashboardsOfASickFleet looks at every panel while a good part of everything
// fails and one cell is dark: each query has something to say then, and each row
// says which dashboard it leads to.
func TestDashboardsOfASickFleet(t *testing.T) {
	w := fleet()
	w.Cells[0].Clusters = append(w.Cells[0].Clusters, fleettest.Cluster{Name: "lost", Nodes: 1, Unwatched: true})
	w.Trouble = fleettest.Trouble{Sick: 0.5}
	w.Start(t)
	w.Central.Append(t, history(w.Now()))
	for range 21 { // what looks back ten minutes, and alerts that wait
		round(t, w)
	}
	w.Trouble.Dead = map[string]bool{"asia-2-0-a": true}
	for range 6 {
		round(t, w)
	}
	w.Central.Scrape(t, "another cascade", w.Now(), rareTroubles(w.Now()))
	everyQuery(t, "asia-1", func(t *testing.T, p *dashboard.Panel, expr string) {
		cell := "asia-1"
		if *p.Title == "Cells not seen" {
			cell = "asia-2"
		}
		result := w.Central.Query(t, expr, w.Now())
		assert.NotEmpty(t, result, "%s shows nothing of cell %s:\n%s", *p.Title, cell, expr)
		rowsLeadOn(t, p, result)
		once(t, result)
	})

	t.Run("the figures are those of the fleet", func(t *testing.T) {
		ask := func(uid, title string, n int) float64 {
			result := w.Central.Query(t, query(t, uid, title, n), w.Now())
			require.Len(t, result, 1)
			return result[0].F
		}
		require.InDelta(t, 2, ask(dashboards.GlobalUID, "Cells contributing", 0), 0)
		require.InDelta(t, 3, ask(dashboards.GlobalUID, "Cells contributing", 1), 0)
		require.InDelta(t, 2.0/3, ask(dashboards.GlobalUID, "Nodes", 3), 1e-9, "the completeness beside the sum")
		require.InDelta(t, 2+3+2, ask(dashboards.GlobalUID, "Nodes", 0), 0, "a pair of edges counts once, meta clusters and the dark cell do not")
		dark := w.Central.Query(t, query(t, dashboards.GlobalUID, "Cells not heard of", 0), w.Now())
		require.Len(t, dark, 1)
		require.Equal(t, "asia-2", dark[0].Metric.Get("cell"))
		require.Len(t, w.Central.Query(t, query(t, dashboards.ClusterUID, "Up", 0), w.Now()), 4, "shop, bank, lost and the cell's own")
	})
}

// TestDashboardsOfAFleetInWhichAllIsWell looks at every panel while nothing is
// wrong. Only what lists troubles is empty: a figure of nought is shown as one.
func TestDashboardsOfAFleetInWhichAllIsWell(t *testing.T) {
	w := fleet()
	w.Start(t)
	w.Central.Append(t, history(w.Now()))
	for range 21 {
		round(t, w)
	}
	everyQuery(t, "asia-1", func(t *testing.T, p *dashboard.Panel, expr string) {
		result := w.Central.Query(t, expr, w.Now())
		if p.Type == "stat" && !strings.Contains(expr, "missing") {
			assert.NotEmpty(t, result, "%s would say that it is unknown:\n%s", *p.Title, expr)
		}
		once(t, result)
	})
	for _, troubles := range []string{"Cells not heard of", "Clusters that are down", "Clusters with nodes not ready", "Racks with unhealthy nodes"} {
		require.Empty(t, w.Central.Query(t, query(t, dashboards.GlobalUID, troubles, 0), w.Now()), troubles)
	}
	for n := range 3 {
		require.Empty(t, w.Central.Query(t, query(t, dashboards.PipelineUID, "Cells not seen", n), w.Now()))
	}
}

// fleet has a pair of edges, an edge of two shards, and two geographies.
func fleet() *fleettest.World {
	return &fleettest.World{
		Interval: 30 * time.Second, Seed: 11, Shards: map[string][]int{"asia": {0, 1}, "europe": {0}},
		Cells: []fleettest.Cell{
			{Geography: "asia", Region: "east", Name: "asia-1", Replicas: []string{"a", "b"}, Read: []int{0, 1}, Clusters: []fleettest.Cluster{{Name: "shop", Nodes: 2}, {Name: "bank", Nodes: 3}}},
			{Geography: "asia", Region: "east", Name: "asia-2", Read: []int{0}, Clusters: []fleettest.Cluster{{Name: "mill", Nodes: 1}}},
			{Geography: "europe", Region: "west", Name: "europe-1", Shards: 2, Read: []int{0}, Clusters: []fleettest.Cluster{{Name: "farm", Nodes: 2}}},
		},
	}
}

// history is what the central recorded of a pool in the day before: it fills.
func history(until time.Time) []fleettest.Sample {
	var out []fleettest.Sample
	for ago := 24 * time.Hour; ago > 0; ago -= 5 * time.Minute {
		out = append(out, fleettest.Sample{
			Labels: labels.FromStrings("__name__", "cell:capacity:ratio", "geography", "asia", "region", "east", "cell", "asia-1", "pool", "cpu"),
			At:     until.Add(-ago), Value: 0.9 - ago.Hours()/100,
		})
	}
	return out
}

// rareTroubles are what a cascade tells of things that never go wrong in a world
// of fleettest.
func rareTroubles(at time.Time) []fleettest.Sample {
	var out []fleettest.Sample
	for name, value := range map[string]float64{
		"cell:edge_up:max": 0, "cell:state_known:bool": 0, "cell:targets:count": 9, "cell:targets_up:count": 2,
		"cell:scrape_fill:ratio": 0.9, "cell:scrape_duration:seconds": 3, "cell:config_refused:bool": 1,
		"cascade:scrape_fill:ratio": 0.9, "cascade:scrape_duration:seconds": 3, "cascade:config_refused:bool": 1,
		"cluster:agent_scrapes_failed:ratio": 0.8,
		"cluster:etcd_has_leader:min":        0, "cluster:etcd_members_missing:count": 1, "node:filesystem_full_in:seconds": 3600,
	} {
		about := map[string]string{"__name__": name, "geography": "asia", "region": "east", "cell": "asia-1", "edge_replica": "a", "edge_shard": "0", "cascade_replica": "a", "cascade_shard": "9"}
		switch {
		case strings.HasPrefix(name, "cell:"):
			about["cell"] = "asia-2"
		case strings.HasPrefix(name, "cascade:"):
			about = map[string]string{"__name__": name, "geography": "asia", "cascade_shard": "9", "cascade_replica": "a"}
		default:
			about["cluster"] = "ruin"
		}
		if name == "cluster:agent_scrapes_failed:ratio" {
			about["component"] = "kubelet"
		}
		if strings.HasPrefix(name, "node:") {
			about["node"], about["mountpoint"] = "n", "/"
		}
		out = append(out, fleettest.Sample{Labels: labels.FromMap(about), At: at, Value: value})
	}
	return out
}

// round lets an interval pass, and tells the central what it scrapes of others
// than cascades.
func round(t *testing.T, w *fleettest.World) {
	t.Helper()
	w.Round(t)
	var peers []fleettest.Sample
	for _, name := range []string{"cells_contributing:count", "nodes:count"} {
		for _, told := range w.Central.Query(t, "fleet:"+name, w.Now()) {
			for _, replica := range []string{"a", "b"} {
				peers = append(peers, fleettest.Sample{
					Labels: labels.FromStrings("__name__", "central:peer_"+name, "central_replica", replica, "job", "federate-central", "instance", "central-"+replica),
					At:     w.Now(), Value: told.F,
				})
			}
		}
	}
	w.Central.Scrape(t, "federate-central", w.Now(), peers)
	w.Central.Scrape(t, "the last hop", w.Now(), lastHop(w.Now()))
}

// everyQuery fills in the variables of every query of every panel, as Grafana
// does for a person who has chosen a cell.
func everyQuery(t *testing.T, cell string, do func(t *testing.T, p *dashboard.Panel, expr string)) {
	t.Helper()
	all, err := dashboards.All()
	require.NoError(t, err)
	for _, d := range all {
		t.Run(*d.Uid, func(t *testing.T) {
			for _, either := range d.Panels {
				for _, target := range either.Panel.Targets {
					do(t, either.Panel, filledIn(target.(prometheus.Dataquery).Expr, cell))
				}
			}
		})
	}
}

func filledIn(expr, cell string) string {
	return strings.NewReplacer("$cell", cell, "$cluster", ".*", "$geography", "asia|europe").Replace(expr)
}

// query is the nth query of a panel.
func query(t *testing.T, uid, title string, n int) string {
	t.Helper()
	all, err := dashboards.All()
	require.NoError(t, err)
	for _, d := range all {
		for _, either := range d.Panels {
			if *d.Uid == uid && *either.Panel.Title == title {
				return filledIn(either.Panel.Targets[n].(prometheus.Dataquery).Expr, "asia-1")
			}
		}
	}
	t.Fatalf("dashboard %s has no panel %q", uid, title)
	return ""
}

// rowsLeadOn checks that every row has the labels by which it leads elsewhere.
func rowsLeadOn(t *testing.T, p *dashboard.Panel, result promql.Vector) {
	t.Helper()
	for _, link := range p.FieldConfig.Defaults.Links {
		for _, m := range regexp.MustCompile(`__(?:data\.fields|field\.labels)\.([a-z]+)`).FindAllStringSubmatch(*link.Url, -1) {
			for _, row := range result {
				require.NotEmpty(t, row.Metric.Get(m[1]), "a row of %q leads to a %s and does not say which: %s", *p.Title, m[1], row.Metric)
			}
		}
	}
}

// once checks that nothing is shown once for each server that told it.
func once(t *testing.T, result promql.Vector) {
	t.Helper()
	var seen []string
	for _, row := range result {
		about := labels.NewBuilder(row.Metric).Del("edge_replica", "edge_shard", "cascade_replica").Labels().String()
		require.NotContains(t, seen, about)
		require.False(t, slices.Contains(seen, about), "shown twice: %s", about)
		seen = append(seen, about)
	}
}
