package edge

import (
	"strings"
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// chosen puts series through the choice of a component, by Prometheus' own code.
func chosen(t *testing.T, contract *rules.Contract, component string, series ...string) []string {
	t.Helper()
	global, err := promcfg.NewGlobal(options().Interval, nil)
	require.NoError(t, err)
	raw, err := promcfg.Config{Global: global, ScrapeConfigs: []promcfg.ScrapeConfig{
		{JobName: "j", MetricRelabel: Options{}.keep(*contract, component)},
	}}.Marshal()
	require.NoError(t, err)
	cfg, err := config.Load(string(raw), promslog.NewNopLogger())
	require.NoError(t, err)
	var out []string
	for _, s := range series {
		name, rest, _ := strings.Cut(strings.TrimSuffix(s, "}"), "{")
		b := labels.NewBuilder(labels.FromStrings("__name__", name))
		for pair := range strings.SplitSeq(rest, ",") {
			if label, value, ok := strings.Cut(pair, "="); ok {
				b.Set(label, value)
			}
		}
		if relabel.ProcessBuilder(b, cfg.ScrapeConfigs[0].MetricRelabelConfigs...) {
			out = append(out, s)
		}
	}
	return out
}

func declaring(source string, names ...string) *rules.Contract {
	c := &rules.Contract{}
	for _, name := range names {
		c.Raw = append(c.Raw, rules.Raw{Name: name, Source: source})
	}
	return c
}

func TestKeepDropsWhatNobodyReads(t *testing.T) {
	contract := declaring("kube-apiserver", "apiserver_request_total",
		"apiserver_request_duration_seconds_bucket", "apiserver_request_duration_seconds_sum", "apiserver_request_duration_seconds_count")
	kept := []string{
		"apiserver_request_total{verb=GET}",
		"apiserver_request_duration_seconds_bucket{le=0.1}", "apiserver_request_duration_seconds_bucket{le=1.0}",
		"apiserver_request_duration_seconds_bucket{le=1}", "apiserver_request_duration_seconds_bucket{le=30.0}",
		"apiserver_request_duration_seconds_bucket{le=+Inf}",
		"apiserver_request_duration_seconds_sum{verb=GET}", "apiserver_request_duration_seconds_count{verb=GET}",
	}
	dropped := []string{
		"apiserver_request_total_more", "more_apiserver_request_total", "go_goroutines", "etcd_request_duration_seconds_bucket{le=0.1}",
		"apiserver_request_duration_seconds_bucket{le=1.25}", "apiserver_request_duration_seconds_bucket{le=10.0}",
		"apiserver_request_duration_seconds_bucket{le=0x1}", "apiserver_request_duration_seconds_bucket{le=130.0}",
	}
	require.Equal(t, kept, chosen(t, contract, "kube-apiserver", append(kept, dropped...)...))
}

func TestKeepOfCadvisorIsPodsNotContainers(t *testing.T) {
	contract := declaring("cadvisor", "container_cpu_usage_seconds_total", "container_memory_working_set_bytes",
		"container_oom_events_total", "machine_cpu_cores")
	kept := []string{
		"container_cpu_usage_seconds_total{pod=p,namespace=n,id=/kubepods/pod1}", "container_memory_working_set_bytes{pod=p}",
		"container_oom_events_total{pod=p,container=c,image=i}", "machine_cpu_cores{boot_id=b}",
	}
	dropped := []string{
		"container_cpu_usage_seconds_total{pod=p,container=c,image=i}", "container_cpu_usage_seconds_total{pod=p,image=pause}",
		"container_cpu_usage_seconds_total{id=/}", "container_oom_events_total{pod=p}", "container_fs_reads_total{pod=p}",
	}
	require.Equal(t, kept, chosen(t, contract, "cadvisor", append(kept, dropped...)...))
}

func TestKeepOfHostsIsRealDevicesAndTheFileSystemsOfANode(t *testing.T) {
	contract := declaring("node-exporter", "node_filesystem_avail_bytes", "node_network_receive_bytes_total", "node_load1")
	kept := []string{
		"node_filesystem_avail_bytes{mountpoint=/,device=/dev/vda1}", "node_filesystem_avail_bytes{mountpoint=/var/lib/etcd}",
		"node_network_receive_bytes_total{device=eth0}", "node_network_receive_bytes_total{device=bond0}", "node_load1",
	}
	dropped := []string{
		"node_filesystem_avail_bytes{mountpoint=/run}", "node_filesystem_avail_bytes{mountpoint=/var/lib/kubelet/pods/1}",
		"node_network_receive_bytes_total{device=lo}", "node_network_receive_bytes_total{device=veth12}",
		"node_network_receive_bytes_total{device=cali0}", "node_load5",
	}
	require.Equal(t, kept, chosen(t, contract, "node-exporter", append(kept, dropped...)...))
}

func TestKeepOfAComponentThatNothingIsDeclaredOf(t *testing.T) {
	require.Empty(t, chosen(t, &rules.Contract{}, "etcd", "etcd_server_has_leader", "up"))
}

// A series of which nobody is the source would never be there.
func TestEverySourceOfTheContractIsAComponent(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	components := map[string]bool{componentEdge: true}
	for _, s := range sources(options()) {
		components[s.component] = true
	}
	for _, r := range contract.Raw {
		if r.Tier == rules.Edge {
			require.True(t, components[r.Source], "%s: source %q", r.Name, r.Source)
		}
	}
}
