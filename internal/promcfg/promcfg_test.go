package promcfg_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

func valid(t testing.TB) promcfg.Files {
	t.Helper()
	global, err := promcfg.NewGlobal(5*time.Second, map[string]string{"cell": "c"})
	require.NoError(t, err)
	raw, err := promcfg.Config{
		Global: global, RuleFiles: []string{"a.rules.yaml"},
		ScrapeConfigs: []promcfg.ScrapeConfig{
			{JobName: "pods", Kubernetes: []promcfg.KubernetesSD{promcfg.APIServer{}.Pods(map[string]string{"a": "b"})}, Relabel: promcfg.PodAddress(9090)},
			{JobName: "http", HTTP: []promcfg.HTTPSD{{URL: "http://agent:9096/sd"}}},
			promcfg.Federation{Job: "federate", Match: []string{"up"}, Samples: 10}.Scrape(),
		},
	}.Marshal()
	require.NoError(t, err)
	return promcfg.Files{
		promcfg.ConfigFile: raw,
		"a.rules.yaml":     []byte("groups: [{name: g, rules: [{record: a, expr: up}]}]"),
	}
}

func TestValidateNamesFileAndPlace(t *testing.T) {
	require.NoError(t, promcfg.Validate(valid(t)))
	for name, tc := range map[string]struct {
		file, old, new string
		want           []string
	}{
		"unknown field":   {promcfg.ConfigFile, "scrape_interval: 5s", "scrape_intervals: 5s", []string{"prometheus.yml", "scrape_intervals"}},
		"timeout":         {promcfg.ConfigFile, "scrape_timeout: 4s", "scrape_timeout: 6s", []string{"prometheus.yml", "timeout"}},
		"job twice":       {promcfg.ConfigFile, "job_name: http", "job_name: pods", []string{"prometheus.yml", `"pods"`}},
		"unknown role":    {promcfg.ConfigFile, "- role: pod\n        api", "- role: cod\n        api", []string{"prometheus.yml", "cod"}},
		"bad expression":  {"a.rules.yaml", "expr: up", `expr: "sum("`, []string{"a.rules.yaml", "could not parse expression"}},
		"no expression":   {"a.rules.yaml", "expr: up", `exp: up`, []string{"a.rules.yaml", "exp"}},
		"rules not there": {promcfg.ConfigFile, "- a.rules.yaml", "- b.rules.yaml", []string{"prometheus.yml", `"b.rules.yaml", which is missing`}},
	} {
		t.Run(name, func(t *testing.T) {
			files := valid(t)
			require.Contains(t, string(files[tc.file]), tc.old)
			files[tc.file] = []byte(strings.Replace(string(files[tc.file]), tc.old, tc.new, 1))
			err := promcfg.Validate(files)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	require.ErrorContains(t, promcfg.Validate(nil), "prometheus.yml: is missing")
}

func TestAnyAcceptedLabelValueComesThroughWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		global, err := promcfg.NewGlobal(time.Second, map[string]string{"cell": value})
		if err != nil {
			require.ErrorContains(t, err, "label cell: ")
			return
		}
		raw, err := promcfg.Config{Global: global}.Marshal()
		require.NoError(t, err)
		cfg, err := config.Load(string(raw), promslog.NewNopLogger())
		require.NoError(t, err)
		require.Equal(t, value, cfg.GlobalConfig.ExternalLabels.Get("cell"))
	})
}

func TestEveryAcceptedIntervalLoads(t *testing.T) {
	for s := range 60 {
		interval := time.Duration(s) * time.Second
		global, err := promcfg.NewGlobal(interval, nil)
		if s < 1 || s > 40 {
			require.ErrorContains(t, err, interval.String())
			continue
		}
		require.NoError(t, err)
		raw, err := promcfg.Config{Global: global}.Marshal()
		require.NoError(t, err)
		require.NoError(t, promcfg.Validate(promcfg.Files{promcfg.ConfigFile: raw}))
		require.Less(t, time.Duration(global.ScrapeTimeout), interval)
	}
}

// PodAddress is tried with Prometheus' own relabelling.
func TestPodAddressMakesOneTargetOfAPod(t *testing.T) {
	raw, err := promcfg.Config{ScrapeConfigs: []promcfg.ScrapeConfig{{JobName: "j", Relabel: promcfg.PodAddress(9096)}}, Global: mustGlobal(t)}.Marshal()
	require.NoError(t, err)
	cfg, err := config.Load(string(raw), promslog.NewNopLogger())
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		meta map[string]string
		want string
		keep bool
	}{
		"declared port":    {map[string]string{"__address__": "10.0.0.1:1234", "__meta_kubernetes_pod_ip": "10.0.0.1"}, "10.0.0.1:9096", true},
		"no port":          {map[string]string{"__address__": "10.0.0.1", "__meta_kubernetes_pod_ip": "10.0.0.1"}, "10.0.0.1:9096", true},
		"second interface": {map[string]string{"__address__": "[fd00::1]:1234", "__meta_kubernetes_pod_ip": "fd00::1"}, "[fd00::1]:9096", true},
		"running":          {map[string]string{"__meta_kubernetes_pod_ip": "10.0.0.1", "__meta_kubernetes_pod_phase": "Running"}, "10.0.0.1:9096", true},
		"ended":            {map[string]string{"__meta_kubernetes_pod_ip": "10.0.0.1", "__meta_kubernetes_pod_phase": "Failed"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			target := labels.NewBuilder(labels.FromMap(tc.meta))
			keep := relabel.ProcessBuilder(target, cfg.ScrapeConfigs[0].RelabelConfigs...)
			require.Equal(t, tc.keep, keep)
			require.Equal(t, tc.want, target.Get("__address__"))
		})
	}
}

func mustGlobal(t testing.TB) promcfg.Global {
	t.Helper()
	g, err := promcfg.NewGlobal(time.Second, nil)
	require.NoError(t, err)
	return g
}

func TestByteLimit(t *testing.T) {
	require.Equal(t, "16MB", promcfg.ByteLimit(1))
	require.Equal(t, "16MB", promcfg.ByteLimit(32768))
	require.Equal(t, "32MB", promcfg.ByteLimit(32769))
	require.Equal(t, "512MB", promcfg.ByteLimit(1<<20))
}

func TestCheckAddress(t *testing.T) {
	for _, good := range []string{"a:1", "10.0.0.1:9090", "[fd00::1]:65535", "edge.example:80"} {
		require.NoError(t, promcfg.CheckAddress("endpoint", good), good)
	}
	for _, bad := range []string{"", "a", ":1", "a:", "a:0", "a:65536", "a:http", "http://a:1", "a b:1", "a\n:1", "fd00::1:1", "{a}:1", "$1:1", "a$:1", "é.example:1", "a;b:1"} {
		require.ErrorContains(t, promcfg.CheckAddress("endpoint", bad), "endpoint: ", bad)
	}
}

func TestCheckURL(t *testing.T) {
	require.NoError(t, promcfg.CheckURL("agent", "http://a:1/x", "http"))
	require.NoError(t, promcfg.CheckURL("agent", "http://[fd00::1]/x?y=z", "http"))
	for _, bad := range []string{
		"", "a:1", "https://a", "http://", "http://%zz", "/x", "http://a:0", "http://a:99999/x", "http://a/{shard}", "http://a/x#y", "http://a/x#", "http://$1/x",
	} {
		require.ErrorContains(t, promcfg.CheckURL("agent", bad, "http"), "agent: ", bad)
	}
}

// A rule file that was good once is good for every server that has it, and one
// that is not stays refused, however often it is asked for.
func TestValidateRemembersWhatItAccepted(t *testing.T) {
	files := valid(t)
	bad := valid(t)
	bad["a.rules.yaml"] = []byte("groups: [{name: g, rules: [{record: a, expr: up(}]}]")
	for range 3 {
		require.NoError(t, promcfg.Validate(files))
		require.ErrorContains(t, promcfg.Validate(bad), "a.rules.yaml")
	}
}
