package rules_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
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

func parse(t *testing.T, raw []byte) *rulefmt.RuleGroups {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	groups, errs := rulefmt.Parse(raw, false, model.UTF8Validation, parser.NewParser(parser.Options{}), quiet)
	require.Empty(t, errs)
	return groups
}

// world is a failing cluster in a cell, as an edge scrapes it.
const world = `
load 15s
	edge:interval:seconds 15x4
	up{job="business", instance="i", cluster="shop"} 1x4
	pharos_cluster_up{job="edge-agent", instance="i", cluster="shop"} 1x4
	kube_node_info{job="edge-agent", instance="i", cluster="shop", node="n1"} 1x4
	kube_node_info{job="edge-agent", instance="i", cluster="shop", node="n2"} 1x4
	kube_node_status_condition{job="edge-agent", instance="i", cluster="shop", node="n1", condition="Ready", status="unknown"} 1x4
	kube_node_status_condition{job="edge-agent", instance="i", cluster="shop", node="n2", condition="Ready", status="true"} 1x4
	kube_node_labels{job="edge-agent", instance="i", cluster="shop", node="n1", label_topology_kubernetes_io_zone="z", label_topology_pharos_dev_rack="r", label_pharos_dev_pool="p"} 1x4
	kube_node_labels{job="edge-agent", instance="i", cluster="shop", node="n2", label_topology_kubernetes_io_zone="z", label_topology_pharos_dev_rack="r", label_pharos_dev_pool="p"} 1x4
`

// TestEveryRuleRecordsExactlyWhatIsDeclared evaluates the rules of the three
// tiers on top of each other with Prometheus' own engine, carrying up what the
// contract lets pass, and compares the labels of everything recorded.
func TestEveryRuleRecordsExactlyWhatIsDeclared(t *testing.T) {
	c := contract(t)
	place := map[string]string{"geography": "asia", "region": "east", "cell": "c1"}
	edge := record(t, promqltest.LoadedStorage(t, world), nil, rules.Edge)
	checkLabels(t, c, rules.Edge, edge, place)

	up := carry(c, rules.Cascade, edge, merged(place, map[string]string{"edge_replica": "a"}))
	cascade := record(t, teststorage.New(t), append(up, topology(t, rules.Cascade)...), rules.Cascade)
	checkLabels(t, c, rules.Cascade, cascade, nil)

	up = carry(c, rules.Central, append(up, cascade...), map[string]string{"geography": "asia", "cascade_replica": "a"})
	central := record(t, teststorage.New(t), append(up, topology(t, rules.Central)...), rules.Central)
	checkLabels(t, c, rules.Central, central, nil)
	require.Equal(t, 2.0, value(t, central, "fleet:nodes:count"))
	require.Equal(t, 1.0, value(t, central, "fleet:nodes_ready:count"))
	require.Equal(t, 1.0, value(t, central, "fleet:cells_contributing:count"))
}

var now = time.Unix(60, 0)

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// record evaluates a tier's recording rules over the storage and the samples.
func record(t *testing.T, storage *teststorage.TestStorage, have []promql.Sample, tier rules.Tier) []promql.Sample {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, storage.Close()) })
	store(t, storage, have)
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1e6)
	groups, err := rules.Groups(tier)
	require.NoError(t, err)
	var out []promql.Sample
	for _, r := range groups.Groups[0].Rules {
		if r.Record == "" {
			continue
		}
		query, err := engine.NewInstantQuery(context.Background(), storage, nil, r.Expr, now)
		require.NoError(t, err)
		result, err := query.Exec(context.Background()).Vector()
		require.NoError(t, err, r.Record)
		require.NotEmpty(t, result, "%s records nothing", r.Record)
		var got []promql.Sample
		for _, s := range result {
			s.Metric = labels.NewBuilder(s.Metric).Set(model.MetricNameLabel, r.Record).Labels()
			got = append(got, s)
		}
		query.Close()
		store(t, storage, got)
		out = append(out, got...)
	}
	return out
}

func store(t *testing.T, storage *teststorage.TestStorage, samples []promql.Sample) {
	t.Helper()
	app := storage.Appender(context.Background())
	for _, s := range samples {
		_, err := app.Append(0, s.Metric, now.UnixMilli(), s.F)
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
}

// carry is the link into a tier: what the contract names, with the sender's
// external labels where the series has none of its own.
func carry(c rules.Contract, to rules.Tier, samples []promql.Sample, external map[string]string) []promql.Sample {
	var out []promql.Sample
	for _, s := range samples {
		if !slices.Contains(c.Matchers(to), s.Metric.Get(model.MetricNameLabel)) {
			continue
		}
		b := labels.NewBuilder(s.Metric)
		for name, v := range external {
			if s.Metric.Get(name) == "" {
				b.Set(name, v)
			}
		}
		s.Metric = b.Labels()
		out = append(out, s)
	}
	return out
}

// topology is what a tier package renders for one cell.
func topology(t *testing.T, tier rules.Tier) []promql.Sample {
	t.Helper()
	var text string
	switch tier {
	case rules.Cascade:
		text = `load 15s
	geography:interval:seconds{geography="asia"} 15x4
	geography:cells_expected:count{geography="asia"} 1x4
	geography:cell_expected:info{geography="asia", region="east", cell="c1"} 1x4
`
	case rules.Central:
		text = `load 15s
	fleet:interval:seconds 15x4
	fleet:cells_expected:count 1x4
	fleet:cell_expected:info{geography="asia", region="east", cell="c1"} 1x4
	fleet:central_expected:info{central="a"} 1x4
`
	}
	storage := promqltest.LoadedStorage(t, text)
	defer func() { require.NoError(t, storage.Close()) }()
	query, err := promqltest.NewTestEngine(t, false, 5*time.Minute, 1e6).NewInstantQuery(context.Background(), storage, nil, `{__name__!=""}`, now)
	require.NoError(t, err)
	defer query.Close()
	result, err := query.Exec(context.Background()).Vector()
	require.NoError(t, err)
	return slices.Clone(result)
}

func checkLabels(t *testing.T, c rules.Contract, tier rules.Tier, samples []promql.Sample, external map[string]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range samples {
		name := s.Metric.Get(model.MetricNameLabel)
		i := slices.IndexFunc(c.Series, func(d rules.Series) bool { return d.Name == name })
		require.GreaterOrEqual(t, i, 0, "%s is not declared", name)
		require.Equal(t, tier, c.Series[i].From, "%s is recorded at another tier than declared", name)
		var got []string
		s.Metric.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel {
				got = append(got, l.Name)
			}
		})
		got = append(got, slices.Collect(maps.Keys(external))...)
		require.ElementsMatch(t, c.Series[i].Labels, got, name)
		seen[name] = true
	}
	for _, d := range c.Series {
		constant := slices.Contains([]string{
			"edge:interval:seconds", "geography:interval:seconds", "geography:cell_expected:info", "geography:cells_expected:count",
			"fleet:interval:seconds", "fleet:cell_expected:info", "fleet:cells_expected:count", "fleet:central_expected:info",
		}, d.Name)
		if d.From == tier && !constant {
			require.True(t, seen[d.Name], "%s is declared and never recorded", d.Name)
		}
	}
}

func value(t *testing.T, samples []promql.Sample, name string) float64 {
	t.Helper()
	for _, s := range samples {
		if s.Metric.Get(model.MetricNameLabel) == name {
			return s.F
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func TestConstantsAreWhatTheyAreTold(t *testing.T) {
	labels := map[string]string{"cell": `quo"te {{ . }} $x`}
	raw, err := rules.RenderConstants([]rules.Constant{{Record: "fleet:cell_expected:info", Labels: labels, Value: 1}})
	require.NoError(t, err)
	got := parse(t, raw).Groups[0]
	require.Equal(t, "topology", got.Name)
	require.Equal(t, []rulefmt.Rule{{Record: "fleet:cell_expected:info", Expr: "vector(1)", Labels: labels}}, got.Rules)
}
