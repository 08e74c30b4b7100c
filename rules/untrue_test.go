package rules_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

// ask evaluates an expression now.
func ask(t *testing.T, storage *teststorage.TestStorage, expr string) promql.Vector {
	t.Helper()
	query, err := promqltest.NewTestEngine(t, false, 5*time.Minute, 1e6).NewInstantQuery(context.Background(), storage, nil, expr, now)
	require.NoError(t, err, expr)
	defer query.Close()
	result, err := query.Exec(context.Background()).Vector()
	require.NoError(t, err, expr)
	return slices.Clone(result)
}

// byCell are the values of cells.
func byCell(result promql.Vector) map[string]float64 {
	out := map[string]float64{}
	for _, s := range result {
		out[s.Metric.Get("cell")] = s.F
	}
	return out
}

// ruleOf is the expression that a tier records a series by.
func ruleOf(t *testing.T, tier rules.Tier, record string) string {
	t.Helper()
	files, err := rules.Files(tier, rules.WrittenFor, nil)
	require.NoError(t, err)
	for _, raw := range files {
		for _, r := range parse(t, raw).Groups[0].Rules {
			if r.Record == record {
				return r.Expr
			}
		}
	}
	t.Fatalf("no rule of the %s records %s", tier, record)
	return ""
}

// TestAClockThatIsAheadIsSeen has servers of edges that stamp what they tell with
// times to come, which promtool cannot: it has no samples later than its clock.
func TestAClockThatIsAheadIsSeen(t *testing.T) {
	const world = `
load 15s
	geography:edge_expected:info{geography="asia", region="east", cell="right", edge_shard="0"} 1xN
	geography:edge_expected:info{geography="asia", region="east", cell="ahead", edge_shard="0"} 1xN
	geography:edge_expected:info{geography="asia", region="east", cell="pair", edge_shard="0"} 1xN
	geography:edge_expected:info{geography="asia", region="east", cell="silent", edge_shard="0"} 1xN
	fleet:cell_expected:info{geography="asia", region="east", cell="right"} 1xN
	fleet:cell_expected:info{geography="asia", region="east", cell="ahead"} 1xN
	fleet:cell_expected:info{geography="asia", region="east", cell="pair"} 1xN
	fleet:cell_expected:info{geography="asia", region="east", cell="silent"} 1xN
	cell:heartbeat:timestamp_seconds{geography="asia", region="east", cell="right", edge_shard="0", edge_replica="a"} 0+15xN
	cell:heartbeat:timestamp_seconds{geography="asia", region="east", cell="ahead", edge_shard="0", edge_replica="a"} 0+15xN
	cell:heartbeat:timestamp_seconds{geography="asia", region="east", cell="pair", edge_shard="0", edge_replica="a"} 0+15xN
	cell:heartbeat:timestamp_seconds{geography="asia", region="east", cell="pair", edge_shard="0", edge_replica="b"} 0+15xN
`
	for tier, record := range map[rules.Tier]string{rules.Cascade: "cell:clock_ahead:seconds", rules.Central: "cell:heartbeat_ahead:seconds"} {
		storage := load(t, world)
		app := storage.Appender(context.Background())
		for cell, replica := range map[string]string{"ahead": "a", "pair": "b"} {
			for lead := 15 * time.Second; lead <= time.Minute; lead += 15 * time.Second {
				at := now.Add(lead)
				_, err := app.Append(0, labels.FromStrings(model.MetricNameLabel, "cell:heartbeat:timestamp_seconds",
					"geography", "asia", "region", "east", "cell", cell, "edge_shard", "0", "edge_replica", replica), at.UnixMilli(), float64(at.Unix()))
				require.NoError(t, err)
			}
		}
		require.NoError(t, app.Commit())
		want := map[string]float64{"right": 0, "ahead": 60, "pair": 60, "silent": 0}
		require.Equal(t, want, byCell(ask(t, storage, ruleOf(t, tier, record))), record)
		require.Len(t, ask(t, storage, `abs(time() - cell:heartbeat:timestamp_seconds) < 1`), 4, "all look fresh to who does not ask for what is to come")
		require.NoError(t, storage.Close())
	}
}

// TestValuesThatCannotBeAreCounted has cells of which each tells something else
// that is no natural number, and one that tells no worse than nought.
func TestValuesThatCannotBeAreCounted(t *testing.T) {
	storage := load(t, `
load 15s
	cluster:nodes:count{geography="asia", region="east", cell="right", cluster="shop", edge_replica="a"} 0xN
	cluster:nodes_ready:count{geography="asia", region="east", cell="right", cluster="shop", edge_replica="a"} 0xN
	cluster:certificate_expiry:seconds{geography="asia", region="east", cell="right", cluster="shop", edge_replica="a"} -5xN
	cluster:nodes_ready:count{geography="asia", region="east", cell="none", cluster="shop", edge_replica="a"} 4xN
	cell:capacity_limit:value{geography="asia", region="east", cell="below", pool="clusters", edge_replica="b"} -1xN
	cell:capacity_limit:value{geography="asia", region="east", cell="below", pool="clusters", edge_replica="a"} 9xN
`)
	t.Cleanup(func() { require.NoError(t, storage.Close()) })
	nodes := func(cell, cluster string, value float64) promql.Sample {
		return promql.Sample{F: value, Metric: labels.FromStrings(model.MetricNameLabel, "cluster:nodes:count",
			"geography", "asia", "region", "east", "cell", cell, "cluster", cluster, "edge_replica", "a")}
	}
	store(t, storage, []promql.Sample{
		nodes("none", "shop", math.NaN()), nodes("endless", "shop", math.Inf(1)), nodes("endless", "bank", math.Inf(-1)),
	})
	got := byCell(ask(t, storage, ruleOf(t, rules.Cascade, "cell:values_impossible:count")))
	require.Equal(t, map[string]float64{"right": 0, "none": 1, "endless": 2, "below": 1}, got)
	require.True(t, math.IsNaN(ask(t, storage, `sum(cluster:nodes:count{cell="none"})`)[0].F))
}

// TestWhateverIsSummedIsNatural finds what an aggregate of the central reads of
// an edge's series under a sum, and asks that impossible values be counted of it.
func TestWhateverIsSummedIsNatural(t *testing.T) {
	c := contract(t)
	groups, err := rules.Groups(rules.Central)
	require.NoError(t, err)
	i := slices.IndexFunc(groups.Groups, func(g rulefmt.RuleGroup) bool { return g.Name == "central-aggregates" })
	found := map[string]bool{}
	for _, r := range groups.Groups[i].Rules {
		if !strings.Contains(r.Record, "geography:") && !strings.Contains(r.Record, "capacity") {
			continue
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		require.NoError(t, err)
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			for _, d := range c.Series {
				if d.Name == s.Name && d.From == rules.Edge && d.Name != "cell:state_known:bool" {
					require.True(t, d.Natural, "%s is read by %s: mark it with natural: true in rules/contract.yaml", d.Name, r.Record)
					found[d.Name] = true
				}
			}
			return nil
		})
	}
	for _, d := range c.Series {
		require.Equal(t, found[d.Name], d.Natural, "%s is natural, and no aggregate reads it", d.Name)
	}
}

// TestWhatMovedAwayCountsForNoLimit has a cascade that read two cells until one of
// them moved to another shard.
func TestWhatMovedAwayCountsForNoLimit(t *testing.T) {
	const moved = `
load 15s
	cell:heartbeat:timestamp_seconds{geography="asia", region="east", cell="stays", edge_replica="a"} 0+15xN
	cluster:nodes:count{geography="asia", region="east", cell="stays", cluster="shop", edge_replica="a"} 9xN
	cluster:nodes:count{geography="asia", region="east", cell="stays", cluster="shop", edge_replica="b"} 9xN
	cluster:nodes:count{geography="asia", region="east", cell="moved", cluster="shop", edge_replica="a"} 9x2000 stale
	cell:clock_ahead:seconds{geography="asia", region="east", cell="stays"} 0xN
	geography:edge_expected:info{geography="asia", region="east", cell="stays", edge_shard="0"} 1xN
	cascade:heartbeat:timestamp_seconds 0+15xN
	up{job="federate-edge", geography="asia", region="east", cell="stays"} 1xN
`
	expr := ruleOf(t, rules.Cascade, "cascade:series_passed:count")
	for world, want := range map[string]float64{moved: 4, strings.Replace(moved, "9x2000 stale", "9xN", 1): 5, "load 15s\n\tup 1xN": 0} {
		storage := load(t, world)
		require.InDelta(t, want, ask(t, storage, expr)[0].F, 0, "what crosses, of each server of a pair, and neither what the cascade keeps nor what is its own")
		require.NoError(t, storage.Close())
	}
}
