package edge_test

import (
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/rules"
)

func options() edge.Options {
	return edge.Options{
		Geography: "asia", Region: "asia-east", Cell: "asia-1", Replica: "a",
		Interval: 5 * time.Second,
	}
}

// small is a contract of one series for each way of choosing, so that the golden
// files do not change with every series that the contract gets.
func small() *rules.Contract {
	c := &rules.Contract{Series: []rules.Series{{
		Name: "cluster:up:min", Kind: rules.Gauge, Labels: []string{"geography", "region", "cell", "cluster"},
		From: rules.Edge, To: rules.Central, Max: rules.Max{Per: "cluster", Series: 1},
	}}}
	for source, names := range map[string][]string{
		"edge": {"prometheus_tsdb_head_series"}, "edge-agent-self": {"pharos_edge_agent_clusters"}, "state": {"kube_node_info"},
		"kube-apiserver": {"apiserver_request_total", "apiserver_request_duration_seconds_bucket"}, "etcd": {"etcd_server_has_leader"},
		"kubelet": {"kubelet_running_pods"}, "cadvisor": {"container_cpu_usage_seconds_total", "container_oom_events_total", "machine_cpu_cores"},
		"node-exporter": {"node_load1", "node_filesystem_size_bytes"},
	} {
		for _, name := range names {
			c.Raw = append(c.Raw, rules.Raw{Name: name, Source: source, Tier: rules.Edge})
		}
	}
	return c
}

func TestRenderIsWhatPrometheusAccepts(t *testing.T) {
	local := options()
	local.APIServer.URL = "https://127.0.0.1:16011"
	local.AgentURL = "http://127.64.144.7:9096/"
	static := options()
	static.Interval = time.Second
	static.Static = &edge.Static{
		Edges: []string{"127.91.0.1:9090"}, Agents: []string{"127.91.0.2:9096"},
		Business: map[string]string{"shop": "127.91.0.2:9097", "bank": "127.91.0.2:9098"},
	}
	for name, o := range map[string]edge.Options{"cluster": options(), "local": local, "static": static} {
		t.Run(name, func(t *testing.T) {
			o.Contract = small()
			files, err := edge.Render(o)
			require.NoError(t, err)
			promcfgtest.Golden(t, name, files, rules.FileNames(rules.Edge)[1:]...)
			promcfgtest.Check(t, files)
			again, err := edge.Render(o)
			require.NoError(t, err)
			require.Equal(t, files, again)
		})
	}
}

func TestRenderKeepsStrangeNamesWhole(t *testing.T) {
	for _, name := range []string{
		`quo"te`, "it's", "a,b", "中国-华东", `{{ .Value }}`, "$HOME", "${1}", "$$", `back\slash`, "a: b", "# no comment",
		"yes", "1e3", "- dash", "{braces}", "emoji 🗼",
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Geography, o.Region, o.Cell, o.Replica = name, name, name, name
			files, err := edge.Render(o)
			require.NoError(t, err)
			promcfgtest.Check(t, files)
			cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
			require.NoError(t, err)
			for _, label := range []string{"geography", "region", "cell", "edge_replica"} {
				require.Equal(t, name, cfg.GlobalConfig.ExternalLabels.Get(label), label)
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*edge.Options)
		want   string
	}{
		"no cell":         {func(o *edge.Options) { o.Cell = "" }, "label cell: is empty"},
		"no geography":    {func(o *edge.Options) { o.Geography = "" }, "label geography: is empty"},
		"no region":       {func(o *edge.Options) { o.Region = "" }, "label region: is empty"},
		"no replica":      {func(o *edge.Options) { o.Replica = "" }, "label edge_replica: is empty"},
		"newline":         {func(o *edge.Options) { o.Region = "a\nb" }, "label region: \"a\\nb\" has control characters"},
		"not utf-8":       {func(o *edge.Options) { o.Cell = "\xff" }, "label cell: \"\\xff\" is not UTF-8"},
		"no interval":     {func(o *edge.Options) { o.Interval = 0 }, "interval 0s: must be whole seconds"},
		"part of second":  {func(o *edge.Options) { o.Interval = 1500 * time.Millisecond }, "must be whole seconds"},
		"above look-back": {func(o *edge.Options) { o.Interval = time.Minute }, "interval 1m0s: must be at most 40s"},
		"agent URL":       {func(o *edge.Options) { o.AgentURL = "edge-agent:9096" }, "agent URL: \"edge-agent:9096\" is not an absolute URL"},
		"plain API":       {func(o *edge.Options) { o.APIServer.URL = "http://127.0.0.1:1" }, "API server URL: \"http://127.0.0.1:1\" is not an absolute URL with scheme https"},
		"static target":   {func(o *edge.Options) { o.Static = &edge.Static{Edges: []string{"127.0.0.1"}} }, `static target: "127.0.0.1" is not host:port`},
		"static cluster": {
			func(o *edge.Options) { o.Static = &edge.Static{Business: map[string]string{"": "a:1"}} }, "name of a business cluster: is empty",
		},
		"static cluster's address": {
			func(o *edge.Options) { o.Static = &edge.Static{Business: map[string]string{"shop": "a:0"}} }, `business cluster "shop": "a:0" has no valid port`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			tc.change(&o)
			_, err := edge.Render(o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
