package fleettest_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/test/fleettest"
)

// What the edge agent tells of a cluster in any case, and what it adds of objects.
const (
	agentAlone = `pharos_cluster_info{cluster="shop",size="Small",version="v1.37.2",profile="standard"} 1
pharos_cluster_up{cluster="shop"} 1
pharos_cluster_nodes{cluster="shop"} 2
pharos_cluster_nodes_ready{cluster="shop"} 1
pharos_cluster_pods{cluster="shop"} 4
pharos_machine_info{cluster="shop",machine="m1",node="n1",pool="p",zone="z",rack="r"} 1
`
	agentObjects = `kube_node_info{cluster="shop",node="n1",kubelet_version="v1.37.2"} 1
kube_node_info{cluster="shop",node="n2",kubelet_version="v1.37.2"} 1
kube_node_spec_unschedulable{cluster="shop",node="n1"} 0
kube_node_spec_unschedulable{cluster="shop",node="n2"} 1
kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="true"} 1
kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="false"} 0
kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="unknown"} 0
kube_node_status_condition{cluster="shop",node="n2",condition="Ready",status="true"} 0
kube_node_status_condition{cluster="shop",node="n2",condition="Ready",status="false"} 1
kube_node_status_condition{cluster="shop",node="n2",condition="Ready",status="unknown"} 0
kube_node_labels{cluster="shop",node="n2",label_topology_kubernetes_io_zone="z",label_topology_pharos_dev_rack="r",label_pharos_dev_pool="p"} 1
kube_node_status_allocatable{cluster="shop",node="n1",resource="cpu",unit="core"} 4
kube_node_status_allocatable{cluster="shop",node="n2",resource="cpu",unit="core"} 4
kube_pod_info{cluster="shop",namespace="web",pod="runs",node="n1"} 1
kube_pod_info{cluster="shop",namespace="web",pod="waits",node=""} 1
kube_pod_info{cluster="shop",namespace="web",pod="ended",node="n1"} 1
kube_pod_info{cluster="shop",namespace="web",pod="crashes",node="n1"} 1
kube_pod_status_phase{cluster="shop",namespace="web",pod="runs",phase="Running"} 1
kube_pod_status_phase{cluster="shop",namespace="web",pod="waits",phase="Pending"} 1
kube_pod_status_phase{cluster="shop",namespace="web",pod="ended",phase="Succeeded"} 1
kube_pod_status_phase{cluster="shop",namespace="web",pod="crashes",phase="Running"} 1
kube_pod_container_status_waiting_reason{cluster="shop",namespace="web",pod="crashes",container="c",reason="CrashLoopBackOff"} 1
kube_pod_container_status_last_terminated_reason{cluster="shop",namespace="web",pod="crashes",container="c",reason="OOMKilled"} 1
kube_pod_container_status_restarts_total{cluster="shop",namespace="web",pod="crashes",container="c"} ROUND
kube_pod_container_resource_requests{cluster="shop",namespace="web",pod="runs",container="c",node="n1",resource="cpu",unit="core"} 1
kube_pod_container_resource_requests{cluster="shop",namespace="web",pod="ended",container="c",node="n1",resource="cpu",unit="core"} 2
`
)

// kubeStateMetrics tells of the same objects as kube-state-metrics 2 does: with the
// uid of each pod, a series for each phase, more labels and more series than are
// read, and no label that says which cluster it is. What a cluster's owner makes it
// say of other clusters, and of what is the agent's to tell, is not believed.
func kubeStateMetrics(round int) string {
	var out strings.Builder
	for i, ready := range []bool{true, false} {
		n := fmt.Sprintf("n%d", i+1)
		fmt.Fprintf(&out, "kube_node_info{node=%q,kernel_version=\"6.12\",os_image=\"Linux\",container_runtime_version=\"containerd://2.1\",kubelet_version=\"v1.37.2\",kubeproxy_version=\"deprecated\",provider_id=\"x://%s\",pod_cidr=\"10.0.0.0/24\",system_uuid=\"u\",internal_ip=\"10.1.0.1\"} 1\n", n, n)
		fmt.Fprintf(&out, "kube_node_spec_unschedulable{node=%q} %d\n", n, i)
		for _, status := range []string{"true", "false", "unknown"} {
			value := map[bool]int{true: 1}[status == fmt.Sprint(ready)]
			fmt.Fprintf(&out, "kube_node_status_condition{node=%q,condition=\"Ready\",status=%q} %d\n", n, status, value)
		}
		fmt.Fprintf(&out, "kube_node_status_allocatable{node=%q,resource=\"cpu\",unit=\"core\"} 4\n", n)
		fmt.Fprintf(&out, "kube_node_status_allocatable{node=%q,resource=\"hugepages_2Mi\",unit=\"byte\"} 0\n", n)
		fmt.Fprintf(&out, "kube_node_role{node=%q,role=\"worker\"} 1\n", n)
	}
	out.WriteString("kube_node_labels{node=\"n2\",label_topology_kubernetes_io_zone=\"z\",label_topology_pharos_dev_rack=\"r\",label_pharos_dev_pool=\"p\"} 1\n")
	for pod, phase := range map[string]string{"runs": "Running", "waits": "Pending", "ended": "Succeeded", "crashes": "Running"} {
		of := fmt.Sprintf("namespace=\"web\",pod=%q,uid=\"uid-of-%s\"", pod, pod)
		node := map[bool]string{false: "n1"}[pod == "waits"]
		fmt.Fprintf(&out, "kube_pod_info{%s,host_ip=\"10.1.0.1\",pod_ip=\"10.2.0.1\",node=%q,created_by_kind=\"ReplicaSet\",created_by_name=\"web\",priority_class=\"\",host_network=\"false\"} 1\n", of, node)
		for _, each := range []string{"Pending", "Succeeded", "Failed", "Unknown", "Running"} {
			fmt.Fprintf(&out, "kube_pod_status_phase{%s,phase=%q} %d\n", of, each, map[bool]int{true: 1}[each == phase])
		}
		fmt.Fprintf(&out, "kube_pod_status_ready{%s,condition=\"true\"} 1\n", of)
	}
	crashes := `namespace="web",pod="crashes",uid="uid-of-crashes",container="c"`
	fmt.Fprintf(&out, "kube_pod_container_status_waiting_reason{%s,reason=\"CrashLoopBackOff\"} 1\n", crashes)
	fmt.Fprintf(&out, "kube_pod_container_status_last_terminated_reason{%s,reason=\"OOMKilled\"} 1\n", crashes)
	fmt.Fprintf(&out, "kube_pod_container_status_restarts_total{%s} %d\n", crashes, round)
	for pod, cores := range map[string]int{"runs": 1, "ended": 2} {
		fmt.Fprintf(&out, "kube_pod_container_resource_requests{namespace=\"web\",pod=%q,uid=\"uid-of-%s\",container=\"c\",node=\"n1\",resource=\"cpu\",unit=\"core\"} %d\n", pod, pod, cores)
	}
	out.WriteString("kube_node_info{cluster=\"bank\",node=\"n1\",kubelet_version=\"v1.37.2\"} 1\npharos_cluster_up{cluster=\"bank\"} 1\n")
	return out.String()
}

const asia = "asia"

// tower is one cell with all that is above it.
type tower struct {
	edge, cascade, central *fleettest.Server
	// answers are what targets of the edge tell, by job, address and path.
	answers func(round int) map[string]string
}

func newTower(t *testing.T, source v1alpha1.ObjectStateSource, targets ...v1alpha1.StaticTarget) *tower {
	t.Helper()
	started := func(files map[string][]byte, err error) *fleettest.Server {
		require.NoError(t, err)
		return fleettest.New(t, files)
	}
	const interval = 30 * time.Second
	return &tower{
		edge: started(edge.Render(edge.Options{
			Geography: asia, Region: "east", Cell: "asia-1", Replica: "a", Interval: interval, ObjectState: source, Targets: targets,
			Static: &edge.Static{Edges: []string{"edge:9090"}, Agents: []string{"agent:9096"}, Business: map[string]string{"shop": "shop:6443"}},
		})),
		cascade: started(cascade.Render(cascade.Options{
			Geography: asia, Replica: "a", Interval: interval, Self: []string{"cascade:9090"},
			Cells: []cascade.Cell{{Name: "asia-1", Region: "east", Endpoints: []string{"edge:9090"}}},
		})),
		central: started(central.Render(central.Options{
			Replica: "a", Replicas: []string{"a"}, Interval: interval, Geographies: []string{asia},
			Cells: []central.Cell{{Geography: asia, Region: "east", Name: "asia-1"}},
			Static: &central.Static{
				Centrals: map[string]string{"a": "central:9090"}, Cascades: map[string][]string{asia: {"cascade:9090"}}, Alertmanagers: []string{"alertmanager:9093"},
			},
		})),
	}
}

// round lets every server of the tower scrape and evaluate once.
func (w *tower) round(t *testing.T, round int) time.Time {
	t.Helper()
	at := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(round) * 30 * time.Second)
	answers := w.answers(round)
	for _, cfg := range w.edge.Config.ScrapeConfigs {
		for _, target := range targetsOf(cfg) {
			path := target.Get(model.AddressLabel) + target.Get(model.MetricsPathLabel)
			if of := cfg.Params["objects"]; len(of) > 0 {
				path += "?objects=" + of[0]
			}
			body, answered := answers[path]
			w.edge.Scrape(t, cfg.JobName+path, at, told(t, cfg, target, body, answered, at))
		}
	}
	w.edge.Round(t, at)
	w.cascade.Read(t, "federate-edge", "edge:9090", w.edge, at)
	w.cascade.Round(t, at)
	w.central.Read(t, "federate-cascade", "cascade:9090", w.cascade, at)
	w.central.Round(t, at)
	return at
}

// targetsOf are the targets of a job, relabelled.
func targetsOf(cfg *config.ScrapeConfig) []labels.Labels {
	var out []labels.Labels
	for _, sd := range cfg.ServiceDiscoveryConfigs {
		groups, _ := sd.(discovery.StaticConfig)
		for _, group := range groups {
			for _, target := range group.Targets {
				b := labels.NewBuilder(labels.FromStrings("job", cfg.JobName, model.MetricsPathLabel, cfg.MetricsPath))
				for _, set := range []model.LabelSet{group.Labels, target} {
					for name, value := range set {
						b.Set(string(name), string(value))
					}
				}
				b.Set("instance", b.Get(model.AddressLabel))
				if relabel.ProcessBuilder(b, cfg.RelabelConfigs...) {
					out = append(out, b.Labels())
				}
			}
		}
	}
	return out
}

// told is what a target tells, as Prometheus takes it.
func told(t *testing.T, cfg *config.ScrapeConfig, target labels.Labels, body string, answered bool, at time.Time) []fleettest.Sample {
	t.Helper()
	own := labels.NewBuilder(target)
	target.Range(func(l labels.Label) {
		if strings.HasPrefix(l.Name, model.ReservedLabelPrefix) {
			own.Del(l.Name)
		}
	})
	up := fleettest.Sample{Labels: labels.NewBuilder(own.Labels()).Set(model.MetricNameLabel, "up").Labels(), At: at}
	if !answered {
		return []fleettest.Sample{up}
	}
	up.Value = 1
	out := []fleettest.Sample{up}
	parser, err := textparse.New([]byte(body), "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	require.NoError(t, err)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		sample := fleettest.Sample{At: at}
		_, _, sample.Value = parser.Series()
		parser.Labels(&sample.Labels)
		b := labels.NewBuilder(sample.Labels)
		own.Range(func(l labels.Label) {
			switch has := sample.Labels.Get(l.Name); {
			case has == "" || !cfg.HonorLabels:
				if has != "" {
					b.Set(model.ExportedLabelPrefix+l.Name, has)
				}
				b.Set(l.Name, l.Value)
			}
		})
		if relabel.ProcessBuilder(b, cfg.MetricRelabelConfigs...) {
			sample.Labels = b.Labels()
			out = append(out, sample)
		}
	}
}

const (
	self       = "edge:9090/metrics"
	fromAgent  = "agent:9096/state/static/shop/metrics"
	fromOthers = "ksm.shop:8080/metrics"
)

var namedKubeStateMetrics = v1alpha1.StaticTarget{Component: v1alpha1.ComponentKubeStateMetrics, Cluster: "shop", Addresses: []string{"ksm.shop:8080"}}

func byAgent(round int) map[string]string {
	return map[string]string{
		self:      "prometheus_tsdb_head_series 1000\n",
		fromAgent: agentAlone + strings.ReplaceAll(agentObjects, "ROUND", fmt.Sprint(round)),
	}
}

func byKubeStateMetrics(round int) map[string]string {
	return map[string]string{
		self:                        "prometheus_tsdb_head_series 1000\n",
		fromAgent + "?objects=none": agentAlone,
		fromOthers:                  kubeStateMetrics(round),
	}
}

// numbers are what a central knows of the cluster, the geography and the fleet.
func numbers(t *testing.T, w *tower, at time.Time) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, s := range w.central.Query(t, `{__name__=~"(cluster|node|namespace|cell|geography|fleet):.+", __name__!~".*(timestamp|series|targets|samples|scrape|rule).*"}`, at) {
		out[s.Metric.String()] = s.F
	}
	return out
}

// The sums of a fleet do not depend on who tells of the objects.
func TestSumsAreTheSameByKubeStateMetrics(t *testing.T) {
	t.Parallel()
	agent, others := newTower(t, v1alpha1.ObjectStateAgent), newTower(t, v1alpha1.ObjectStateKubeStateMetrics, namedKubeStateMetrics)
	agent.answers, others.answers = byAgent, byKubeStateMetrics
	var at time.Time
	for round := range 25 {
		at = agent.round(t, round)
		others.round(t, round)
	}
	want := numbers(t, agent, at)
	require.Equal(t, want, numbers(t, others, at))
	for query, is := range map[string]float64{
		"fleet:nodes:count": 2, "fleet:nodes_ready:count": 1, "fleet:nodes_cordoned:count": 1, "fleet:cells_contributing:count": 1,
		"fleet:cpu_allocatable:cores": 8, "fleet:cpu_requested:cores": 1, "fleet:clusters_known:count": 1,
		"fleet:pods_pending:count": 1, "fleet:pods_crash_looping:count": 1, "fleet:pods_oom_killed:count": 1,
		`node:unhealthy:info{node="n2", rack="r"}`: 1,
	} {
		got := others.central.Query(t, query, at)
		require.Len(t, got, 1, query)
		require.Equal(t, is, got[0].F, query)
	}
	require.Empty(t, others.central.Query(t, `{cluster="bank"}`, at), "an owner speaks of no other cluster")
}

// A cluster whose kube-state-metrics is away is unknown, whatever the agent says: its
// nodes are in no sum as nought, and the cell does not contribute while it was there
// just now.
func TestAClusterWithoutKubeStateMetricsIsUnknown(t *testing.T) {
	t.Parallel()
	w := newTower(t, v1alpha1.ObjectStateKubeStateMetrics, namedKubeStateMetrics)
	w.answers = byKubeStateMetrics
	for round := range 8 {
		w.round(t, round)
	}
	w.answers = func(round int) map[string]string {
		all := byKubeStateMetrics(round)
		delete(all, fromOthers)
		return all
	}
	var at time.Time
	for round := 8; round < 12; round++ {
		at = w.round(t, round)
		require.Empty(t, w.central.Query(t, `cluster:nodes:count{cluster="shop"} == 0`, at))
	}
	require.Equal(t, 0.0, w.central.Query(t, "fleet:cells_contributing:count", at)[0].F)

	never := newTower(t, v1alpha1.ObjectStateKubeStateMetrics)
	never.answers = w.answers
	for round := range 8 {
		at = never.round(t, round)
	}
	require.Empty(t, never.central.Query(t, `cluster:nodes:count`, at))
	require.Len(t, never.central.Query(t, `cluster:unknown:info{cluster="shop"}`, at), 1, "nobody tells of its objects")
}

// One that answers and tells of less than the agent sees is not taken for a smaller
// cluster: its cell contributes nothing, and says why.
func TestAClusterThatIsToldOfInPartIsUnknown(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(line string) bool{
		"it may not list nodes":     func(line string) bool { return strings.HasPrefix(line, "kube_node") },
		"of two shards one is away": func(line string) bool { return strings.Contains(line, `node="n2"`) },
		"it tells of nodes alone":   func(line string) bool { return strings.HasPrefix(line, "kube_pod") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTower(t, v1alpha1.ObjectStateKubeStateMetrics, namedKubeStateMetrics)
			w.answers = byKubeStateMetrics
			for round := range 20 {
				w.round(t, round)
			}
			w.answers = func(round int) map[string]string {
				all := byKubeStateMetrics(round)
				var left strings.Builder
				for line := range strings.Lines(all[fromOthers]) {
					if !cut(line) {
						left.WriteString(line)
					}
				}
				all[fromOthers] = left.String()
				return all
			}
			var at time.Time
			for round := 20; round < 26; round++ {
				at = w.round(t, round)
				require.Empty(t, w.central.Query(t, `fleet:nodes:count == 0 and on () fleet:cells_contributing:count == 1`, at))
			}
			require.Equal(t, 0.0, w.central.Query(t, "fleet:cells_contributing:count", at)[0].F)
			require.Empty(t, w.central.Query(t, `cluster:nodes:count`, at))
			require.Len(t, w.central.Query(t, `cluster:unknown:info{cluster="shop", reason=~"Untold|Contradicted"}`, at), 1)
		})
	}
}
