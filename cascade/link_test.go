package cascade_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/rules"
)

func pushing() cascade.Options {
	o := options()
	o.Link = promcfg.Link{Kind: promcfg.Push}
	o.Receivers = []promcfg.Receiver{{Name: "central-b", URL: "http://b:9090/api/v1/write"}, {Name: "central-a", URL: "http://a:9090/api/v1/write"}}
	return o
}

// mixed has an existing pair of servers in asia-2, and one that writes in asia-3.
func mixed() cascade.Options {
	o := pushing()
	o.Cells[0].External = true
	o.Cells[2].External, o.Cells[2].Link = true, promcfg.Push
	return o
}

func loaded(t *testing.T, o cascade.Options) *config.Config {
	t.Helper()
	files, err := cascade.Render(o)
	require.NoError(t, err)
	require.NoError(t, promcfg.Validate(files))
	cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
	require.NoError(t, err)
	return cfg
}

// readBy are the edges that a cascade reads, as Prometheus takes them from the files that
// its configuration names and relabels them.
func readBy(t *testing.T, o cascade.Options) []*targetgroup.Group {
	t.Helper()
	files, err := cascade.Render(o)
	require.NoError(t, err)
	job := loaded(t, o).ScrapeConfigs[1]
	var out []*targetgroup.Group
	for _, named := range job.ServiceDiscoveryConfigs[0].(*file.SDConfig).Files {
		var groups []*targetgroup.Group
		require.NoError(t, yaml.Unmarshal(files[named], &groups))
		for _, g := range groups {
			b := labels.NewBuilder(labels.EmptyLabels())
			for name, value := range g.Labels {
				b.Set(string(name), string(value))
			}
			if relabel.ProcessBuilder(b, job.RelabelConfigs...) {
				maps.DeleteFunc(g.Labels, func(name model.LabelName, _ model.LabelValue) bool { return strings.HasPrefix(string(name), "__") })
				out = append(out, g)
			}
		}
	}
	return out
}

// A cascade that waits for the flags of another link has the addresses of its edges
// meanwhile: its configuration, which waits, says whether they are read.
func TestTheFilesOfTargetsDoNotFollowTheLink(t *testing.T) {
	pulled, err := cascade.Render(options())
	require.NoError(t, err)
	pushed, err := cascade.Render(pushing())
	require.NoError(t, err)
	const name = "targets-0-of-1.yaml"
	require.Contains(t, string(pulled[name]), "10.2.0.6:9090")
	require.Equal(t, string(pulled[name]), string(pushed[name]))
}

func TestRenderLinksAsPrometheusAcceptsThem(t *testing.T) {
	for name, o := range map[string]cascade.Options{"push": pushing(), "external": mixed()} {
		t.Run(name, func(t *testing.T) {
			files, err := cascade.Render(o)
			require.NoError(t, err)
			promcfgtest.Golden(t, name, files, rules.FileNames(rules.Cascade)[1:]...)
			promcfgtest.Check(t, files)
		})
	}
}

func TestWhoIsReadAndWhoWrites(t *testing.T) {
	cells := func(o cascade.Options) []string {
		var out []string
		for _, group := range readBy(t, o) {
			out = append(out, string(group.Labels["cell"])+" "+string(group.Targets[0][model.AddressLabel]))
		}
		return out
	}
	pulling := options()
	require.Empty(t, pulling.Flags())
	require.Equal(t, []string{"asia-1 127.64.2.9:9090", "asia-2 10.2.0.6:9090"}, cells(pulling))
	require.Empty(t, loaded(t, pulling).RemoteWriteConfigs)
	require.Zero(t, loaded(t, pulling).StorageConfig.TSDBConfig.OutOfOrderTimeWindowFlag)

	require.Equal(t, []string{promcfg.ReceiveFlag, promcfg.FlushFlag}, pushing().Flags())
	require.Empty(t, cells(pushing()))
	require.Len(t, loaded(t, pushing()).RemoteWriteConfigs, 2)
	require.Equal(t, model.Duration(4*time.Hour), loaded(t, pushing()).StorageConfig.TSDBConfig.OutOfOrderTimeWindowFlag)

	require.Equal(t, []string{"asia-2 10.2.0.6:9090", "asia-2 10.2.0.7:9090"}, cells(mixed()), "an existing pair is read, each by itself")

	one := options()
	one.Cells[2].Link = promcfg.Push
	require.Equal(t, []string{promcfg.ReceiveFlag}, one.Flags(), "one cell writes to a cascade that reads the others")
	require.Empty(t, loaded(t, one).RemoteWriteConfigs)
}

// What an existing Prometheus lacks is filled in, and its own labels go.
func TestAnExistingPrometheusIsMadeOneOfOurs(t *testing.T) {
	o := mixed()
	job, groups := loaded(t, o).ScrapeConfigs[1], readBy(t, o)
	require.Len(t, groups, 2)
	heard := func(target model.LabelSet, series ...string) labels.Labels {
		got, kept := heard(job, target, labels.FromStrings(series...))
		require.True(t, kept)
		return got
	}
	want := func(replica string) labels.Labels {
		return labels.FromStrings("__name__", "cluster:up:min", "cluster", "shop", "geography", "asia", "region", "asia-west", "cell", "asia-2", "edge_shard", "0", "edge_replica", replica)
	}
	series := []string{"__name__", "cluster:up:min", "cluster", "shop", "prometheus", "monitoring/k8s", "environment", "prod"}
	require.Equal(t, want("10.2.0.6:9090"), heard(groups[0].Labels, series...), "nothing tells the pair apart but the address")
	require.Equal(t, want("k8s-1"), heard(groups[1].Labels, append(series, "prometheus_replica", "k8s-1")...))
}

func TestRenderRefusesLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cascade.Options)
		want   string
	}{
		"unknown kind":       {func(o *cascade.Options) { o.Link.Kind = "Mail" }, `geography "asia": link: kind "Mail" is neither`},
		"unknown kind, cell": {func(o *cascade.Options) { o.Cells[1].Link = "Mail" }, `geography "asia": cell "asia-1": link: kind "Mail" is neither`},
		"timeout":            {func(o *cascade.Options) { o.Link.Timeout = 6 * time.Second }, "link: scrape timeout 6s is above the interval of 5s"},
		"receiver twice":     {func(o *cascade.Options) { *o = pushing(); o.Receivers[1].Name = "central-b" }, `central to write to "central-b": its name or its URL`},
		"slow server":        {func(o *cascade.Options) { o.Cells[0].External, o.Cells[0].Interval = true, 15*time.Second }, `cell "asia-2": a sample may be 33s old when it has come up, and counts as stale after 30s`},
		"slower server":      {func(o *cascade.Options) { o.Cells[0].Interval = 5 * time.Minute }, `cell "asia-2": a sample may be 5m18s old when it has come up, which is beyond the look-back of 5m0s`},
		"interval below":     {func(o *cascade.Options) { o.Cells[0].Interval = -1 }, `cell "asia-2": interval -1ns: must not be below zero`},
		"token over http":    {func(o *cascade.Options) { o.Link.Credentials.BearerFile = "token" }, `would send the token in "token" over plain http`},
		"replica label":      {func(o *cascade.Options) { o.ReplicaLabels = []string{"a b"} }, `replica label "a b": is no label name`},
		"replica twice":      {func(o *cascade.Options) { o.ReplicaLabels = []string{"a", "a"} }, `replica label "a": is no label name, or is there twice`},
		"replica declared":   {func(o *cascade.Options) { o.ReplicaLabels = []string{"node"} }, `replica label "node": is a label of declared series`},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			tc.change(&o)
			_, err := cascade.Render(o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// A link into the cascade passes what the contract lets cross, and nothing else.
func TestNothingUndeclaredPasses(t *testing.T) {
	o := options()
	o.Self = []string{"127.91.0.3:9090"}
	job := loaded(t, o).ScrapeConfigs[1]
	contract, err := rules.Load()
	require.NoError(t, err)
	pass := func(name string) bool {
		_, kept := heard(job, model.LabelSet{"cell": "asia-2"}, labels.FromStrings("__name__", name, "cell", "asia-2"))
		return kept
	}
	for _, s := range contract.Series {
		for _, name := range s.Kind.Names(s.Name) {
			require.Equal(t, s.From == rules.Edge && s.To != rules.Edge, pass(name), name)
		}
	}
	for _, name := range []string{"up", "ALERTS", "node_cpu_seconds_total", "cluster:nodes:count_total"} {
		require.False(t, pass(name), name)
	}
}
