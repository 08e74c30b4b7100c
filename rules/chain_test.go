package rules_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
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
	edge:interval:seconds 15xN
	edge:state_since:timestamp_seconds 0xN
	prometheus_target_scrapes_exceeded_sample_limit_total{job="edge", instance="i"} 0xN
	prometheus_target_scrapes_exceeded_body_size_limit_total{job="edge", instance="i"} 0xN
	prometheus_rule_evaluation_failures_total{job="edge", instance="i", rule_group="g"} 0xN
	prometheus_tsdb_head_series{job="edge", instance="i"} 900xN
	prometheus_config_last_reload_successful{job="edge", instance="i"} 1xN
	edge:sample_limit:count{job="state"} 1000xN
	scrape_duration_seconds{job="state", instance="i", cluster="shop"} 1xN
	scrape_samples_post_metric_relabeling{job="state", instance="i", cluster="shop"} 100xN
	pharos_edge_agent_pods_known{job="edge-agent-self", instance="i", cluster="_meta", exported_cluster="shop"} 0xN
	pharos_edge_agent_scrape_failures_total{job="edge-agent-self", instance="i", cluster="_meta", exported_cluster="shop", component="kubelet", reason="timeout"} 0+1xN
	up{job="kubelet", instance="n1", cluster="shop"} 0xN
	pharos_edge_agent_request_duration_seconds{job="edge-agent-self", instance="i", cluster="_meta", handler="state", code="200"} {{schema:0 sum:4 count:4 buckets:[1 2 1]}}+{{schema:0 sum:4 count:4 buckets:[1 2 1]}}xN
	up{job="kube-apiserver", instance="i", cluster="shop"} 1xN
	up{job="state", instance="i", cluster="shop"} 1xN
	up{job="state", instance="j", cluster="gone"} 0xN
	pharos_cluster_up{job="state", instance="i", cluster="shop"} 1xN
	pharos_cluster_up{job="edge-agent-state", instance="i", cluster="mill"} 1xN
	pharos_cluster_nodes{job="edge-agent-state", instance="i", cluster="mill"} 2xN
	kube_node_info{job="state", instance="i", cluster="mill", node="n1", kubelet_version="v1.37.2"} 1xN
	kube_node_info{job="state", instance="i", cluster="shop", node="n1", kubelet_version="v1.36.0"} 1xN
	kube_node_info{job="state", instance="i", cluster="shop", node="n2", kubelet_version="v1.37.2"} 1xN
	kube_node_status_condition{job="state", instance="i", cluster="shop", node="n1", condition="Ready", status="unknown"} 1xN
	kube_node_status_condition{job="state", instance="i", cluster="shop", node="n2", condition="Ready", status="true"} 1xN
	kube_node_labels{job="state", instance="i", cluster="shop", node="n1", label_topology_kubernetes_io_zone="z", label_topology_pharos_dev_rack="r", label_pharos_dev_pool="p"} 1xN
	kube_node_labels{job="state", instance="i", cluster="shop", node="n2", label_topology_kubernetes_io_zone="z", label_topology_pharos_dev_rack="r", label_pharos_dev_pool="p"} 1xN
`

// TestEveryRuleRecordsExactlyWhatIsDeclared evaluates the rules of the three
// tiers on top of each other with Prometheus' own engine, carrying up what the
// contract lets pass, and compares the labels of everything recorded.
func TestEveryRuleRecordsExactlyWhatIsDeclared(t *testing.T) {
	c := contract(t)
	place := map[string]string{"geography": "asia", "region": "east", "cell": "c1"}
	edge := record(t, load(t, world+worldOfNodes+worldOfControlPlanes+worldOfCapacity), nil, rules.Edge)
	checkLabels(t, c, rules.Edge, edge, place)

	up := carry(c, rules.Cascade, edge, merged(place, map[string]string{"edge_replica": "a", "edge_shard": "0"}))
	cascade := record(t, load(t, topology(rules.Cascade)), up, rules.Cascade)
	checkLabels(t, c, rules.Cascade, cascade, map[string]string{"geography": "asia", "cascade_shard": "0"})

	up = carry(c, rules.Central, append(up, cascade...), map[string]string{"geography": "asia", "cascade_replica": "a", "cascade_shard": "0"})
	central := record(t, load(t, topology(rules.Central)), up, rules.Central)
	checkLabels(t, c, rules.Central, central, nil)
	require.Equal(t, 2.0, value(t, central, "fleet:nodes:count"))
	require.Equal(t, 1.0, value(t, central, "fleet:nodes_ready:count"))
	require.Equal(t, 1.0, value(t, central, "fleet:cells_contributing:count"))
}

// now is late enough for rules that look back by hours.
var now = time.Unix(12*3600, 0)

// load fills a storage from the beginning of time until now.
func load(t *testing.T, series string) *teststorage.TestStorage {
	t.Helper()
	until := "x" + strconv.FormatInt(now.Unix()/15, 10)
	return promqltest.LoadedStorage(t, strings.ReplaceAll(series, "xN", until))
}

// inOrder are the rules of a tier, those that others read first.
func inOrder(groups *rulefmt.RuleGroups) []rulefmt.Rule {
	var out []rulefmt.Rule
	for _, g := range groups.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

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
	for _, r := range inOrder(groups) {
		if r.Record == "" {
			continue
		}
		query, err := engine.NewInstantQuery(context.Background(), storage, nil, r.Expr, now)
		require.NoError(t, err)
		result, err := query.Exec(context.Background()).Vector()
		require.NoError(t, err, r.Record)
		require.NotEmpty(t, result, "%s records nothing: give the failing cluster in rules/worlds_test.go, worldcontrolplane_test.go, "+
			"worldcapacity_test.go or chain_test.go what the rule reads, so that its labels can be compared with those that the contract declares", r.Record)
		var got []promql.Sample
		for _, s := range result {
			b := labels.NewBuilder(s.Metric).Set(model.MetricNameLabel, r.Record)
			for name, v := range r.Labels {
				b.Set(name, v)
			}
			s.Metric = b.Labels()
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
		var err error
		if s.H != nil {
			_, err = app.AppendHistogram(0, s.Metric, now.UnixMilli(), nil, s.H)
		} else {
			_, err = app.Append(0, s.Metric, now.UnixMilli(), s.F)
		}
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

// topology is what a tier package renders for one cell, and what the tier's
// server scrapes of itself.
func topology(tier rules.Tier) string {
	if tier == rules.Cascade {
		return `load 15s
	geography:edge_expected:info{geography="asia", region="east", cell="c1", edge_shard="0"} 1xN
	prometheus_target_scrapes_exceeded_sample_limit_total{job="cascade", instance="i"} 0xN
	prometheus_target_scrapes_exceeded_body_size_limit_total{job="cascade", instance="i"} 0xN
	prometheus_rule_evaluation_failures_total{job="cascade", instance="i", rule_group="g"} 0xN
	prometheus_tsdb_head_series{job="cascade", instance="i"} 900xN
	prometheus_config_last_reload_successful{job="cascade", instance="i"} 1xN
	scrape_duration_seconds{job="federate-edge", instance="i", geography="asia", region="east", cell="c1", edge_shard="0"} 1xN
	scrape_samples_post_metric_relabeling{job="federate-edge", instance="i", geography="asia", region="east", cell="c1", edge_shard="0"} 10xN
	scrape_sample_limit{job="federate-edge", instance="i", geography="asia", region="east", cell="c1", edge_shard="0"} 100xN
	up{job="federate-edge", instance="i", geography="asia", region="east", cell="c1", edge_shard="0"} 1xN
`
	}
	return `load 15s
	fleet:interval:seconds 15xN
	fleet:cells_expected:count 1xN
	geography:cells_expected:count{geography="asia"} 1xN
	fleet:edge_expected:info{geography="asia", region="east", cell="c1", edge_shard="0"} 1xN
	cell:edges_expected:count{geography="asia", region="east", cell="c1", edge_shard="0"} 2xN
	fleet:cascade_expected:info{geography="asia", cascade_shard="0"} 1xN
	fleet:cell_expected:info{geography="asia", region="east", cell="c1"} 1xN
	fleet:central_expected:info{central="a"} 1xN
	central:robot_expected:info{robot="oncall"} 1xN
	up{job="alertmanager-old", alertmanager="old", instance="i"} 1xN
	cell:capacity_limit:value{geography="asia", region="east", cell="c1", pool="clusters", edge_replica="a", edge_shard="0"} 9xN
	cell:capacity:ratio{geography="asia", region="east", cell="c1", pool="cpu"} 0.25xN
	fleet:cell_expected:info{geography="asia", region="east", cell="dark"} 1xN
	cell:state_known:bool{geography="asia", region="east", cell="dark"} 0xN
	cluster:up:min{geography="asia", region="east", cell="dark", cluster="shop"} 0xN
	node:unhealthy:info{geography="asia", region="east", cell="dark", cluster="shop", node="flaps", reason="NotReady"} 1xN
	cluster:unknown:info{geography="asia", region="east", cell="dark", cluster="shop", reason="Untold"} 1xN
	ALERTS{alertname="PharosClusterDown", alertstate="firing", severity="warning", geography="asia", region="east", cell="dark", cluster="shop", node="n", zone="z", rack="r", pool="p", domain="d", condition="c", mountpoint="/", resource="cpu", slo="latency", trouble="t", component="kubelet"} 1xN
	ALERTS{alertname="PharosNodeNotReady", alertstate="firing", severity="warning", geography="asia", region="east", cell="dark", cluster="shop", node="n", zone="z", rack="r", pool="p", domain="d", condition="c", mountpoint="/", resource="cpu", slo="latency", trouble="t", component="kubelet"} 1xN
`
}

func checkLabels(t *testing.T, c rules.Contract, tier rules.Tier, samples []promql.Sample, external map[string]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range samples {
		name := s.Metric.Get(model.MetricNameLabel)
		i := slices.IndexFunc(c.Series, func(d rules.Series) bool { return slices.Contains(d.Kind.Names(d.Name), name) })
		require.GreaterOrEqual(t, i, 0, "%s is recorded and not declared: declare it in rules/contract.yaml", name)
		require.Equal(t, tier, c.Series[i].From, "%s is recorded at another tier than declared", name)
		require.ElementsMatch(t, c.Series[i].Labels, labelsAbove(c.Series[i], s.Metric, external),
			"the labels of %s: on the left what rules/contract.yaml declares, on the right what the rule records", name)
		seen[name] = true
	}
	for _, d := range c.Series {
		for _, name := range d.Kind.Names(d.Name) {
			if d.From == tier {
				require.Equal(t, !d.Rendered, seen[name], "%s is declared and no rule at its tier records it (write one in rules/%s), or is recorded and said to be rendered", name, tier)
			}
		}
	}
}

// labelsAbove are the labels that a sample has above the tier that recorded it,
// which adds its external ones, but for those that say who told it.
func labelsAbove(declared rules.Series, metric labels.Labels, external map[string]string) []string {
	var got []string
	metric.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel && (l.Name != model.BucketLabel || declared.Kind != rules.Histogram) {
			got = append(got, l.Name)
		}
	})
	for label := range external {
		told := slices.Contains(rules.Tellers(), label) && !slices.Contains(declared.Labels, label)
		if !told && !slices.Contains(got, label) {
			got = append(got, label)
		}
	}
	return got
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
	files, err := rules.Files(rules.Edge, rules.WrittenFor, []rules.Constant{{Record: "fleet:cell_expected:info", Labels: labels, Value: 1}})
	require.NoError(t, err)
	got := parse(t, files[rules.TopologyFileName]).Groups[0]
	require.Equal(t, "topology", got.Name)
	require.Equal(t, []rulefmt.Rule{{Record: "fleet:cell_expected:info", Expr: "vector(1)", Labels: labels}}, got.Rules)
}

// TestWhatIsUndeclaredIsCounted evaluates what the rule files of a cascade and a
// central count, among what such a server holds.
func TestWhatIsUndeclaredIsCounted(t *testing.T) {
	const holds = `
load 15s
	cell:heartbeat:timestamp_seconds{geography="asia", region="east", cell="c1", edge_replica="a"} 0+15xN
	cascade:heartbeat:timestamp_seconds{geography="asia", cascade_shard="0"} 0+15xN
	up{job="federate-edge", geography="asia", cell="c1"} 1xN
	scrape_samples_scraped{job="federate-edge", geography="asia", cell="c1"} 9xN
	ALERTS{alertname="PharosCellStale", alertstate="firing", geography="asia", cell="c1"} 1xN
	go_goroutines{job="cascade"} 7xN
`
	const strangers = holds + `	node_load1{geography="asia", region="east", cell="c1", instance="1"} 1xN
	node_load1{geography="asia", region="east", cell="c1", instance="2"} 1xN
	cell:heartbeat:timestamp_second{geography="asia", region="east", cell="c1"} 1xN
`
	for _, tier := range []rules.Tier{rules.Cascade, rules.Central} {
		files, err := rules.Files(tier, rules.WrittenFor, nil)
		require.NoError(t, err)
		rule := parse(t, files[rules.TopologyFileName]).Groups[0].Rules[0]
		require.Equal(t, string(tier)+":series_undeclared:count", rule.Record)
		for world, want := range map[string]float64{holds: 0, strangers: 3} {
			storage := load(t, world+worldOfNodes)
			query, err := promqltest.NewTestEngine(t, false, 5*time.Minute, 1e6).NewInstantQuery(context.Background(), storage, nil, rule.Expr, now)
			require.NoError(t, err)
			result, err := query.Exec(context.Background()).Vector()
			require.NoError(t, err)
			require.Len(t, result, 1)
			require.InDelta(t, want, result[0].F, 0, tier)
			query.Close()
			require.NoError(t, storage.Close())
		}
	}
}
