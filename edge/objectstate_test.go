package edge

import (
	"testing"

	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Where kube-state-metrics tells of objects, it is found in the cell and for each
// cluster, and the agent is asked for the rest.
func TestKubeStateMetricsIsFound(t *testing.T) {
	o := options()
	o.ObjectState = v1alpha1.ObjectStateKubeStateMetrics
	o.Targets = []v1alpha1.StaticTarget{{Component: v1alpha1.ComponentKubeStateMetrics, Cluster: "far", Addresses: []string{"ksm.far:443"}, Scheme: v1alpha1.SchemeHTTPS}}
	s := load(t, o)

	selects := func(s server, job string, namespaces ...string) string {
		for _, sd := range s.jobs[job].ServiceDiscoveryConfigs {
			if k, is := sd.(*kubernetes.SDConfig); is {
				require.ElementsMatch(t, namespaces, k.NamespaceDiscovery.Names)
				return k.Selectors[0].Label
			}
		}
		return ""
	}
	require.Equal(t, "app.kubernetes.io/name=kube-state-metrics,!pharos.dev/cluster", selects(s, "kube-state-metrics-meta", "kube-system"))
	o.ObjectsFrom = "monitoring"
	require.NotEmpty(t, selects(load(t, o), "kube-state-metrics-meta", "monitoring"))
	own := s.target(t, "kube-state-metrics-meta", map[string]string{"__address__": "10.0.0.1:8081", "__meta_kubernetes_pod_ip": "10.0.0.1", "__meta_kubernetes_pod_phase": "Running"})
	require.Equal(t, "10.0.0.1:8080", own.address)
	require.Equal(t, MetaCluster, own.labels["cluster"])
	require.Equal(t, "state", own.labels["job"])

	require.Equal(t, "pharos.dev/cluster,pharos.dev/component=kube-state-metrics", selects(s, "kube-state-metrics"))
	hosted := s.target(t, "kube-state-metrics", map[string]string{
		"__address__": "10.0.0.2:1", "__meta_kubernetes_pod_ip": "10.0.0.2", "__meta_kubernetes_pod_phase": "Running",
		"__meta_kubernetes_pod_label_pharos_dev_cluster": "shop", "__meta_kubernetes_pod_annotation_pharos_dev_metrics_port": "9000",
	})
	require.Equal(t, "10.0.0.2:9000", hosted.address)
	require.Equal(t, "shop", hosted.labels["cluster"])
	require.Equal(t, "state", hosted.labels["job"])
	far := s.target(t, "kube-state-metrics", map[string]string{"__address__": "ksm.far:443", "cluster": "far", "__scheme__": "https"})
	require.Equal(t, "https", far.scheme)
	require.Equal(t, "far", far.labels["cluster"])
	for _, job := range []string{"kube-state-metrics", "kube-state-metrics-meta"} {
		require.Nil(t, s.jobs[job].HTTPClientConfig.Authorization, "no secret is shown to it")
		require.False(t, s.jobs[job].HonorLabels, "an owner speaks of no other cluster")
	}
	agent := s.target(t, "state", map[string]string{"__address__": "agent:9096", "cluster": "shop"})
	require.Equal(t, "edge-agent-state", agent.labels["job"])
	require.Equal(t, []string{"none"}, s.jobs["state"].Params["objects"])

	keeps := func(job, name string) bool {
		return relabel.ProcessBuilder(labels.NewBuilder(labels.FromStrings("__name__", name)), s.jobs[job].MetricRelabelConfigs...)
	}
	for _, tc := range []struct {
		name           string
		agent, another bool
	}{{"pharos_cluster_up", true, false}, {"kube_node_info", false, true}, {"kube_deployment_created", false, false}} {
		require.Equal(t, tc.agent, keeps("state", tc.name), tc.name)
		require.Equal(t, tc.another, keeps("kube-state-metrics", tc.name), tc.name)
		require.Equal(t, tc.another, keeps("kube-state-metrics-meta", tc.name), tc.name)
	}
	var limited bool
	for _, c := range o.Topology() {
		limited = limited || c.Record == "edge:sample_limit:count" && c.Labels["job"] == "edge-agent-state"
	}
	require.True(t, limited)
}

func TestTheAgentTellsOfObjectsUnlessToldOtherwise(t *testing.T) {
	s := load(t, options())
	require.NotContains(t, s.jobs, "kube-state-metrics")
	require.NotContains(t, s.jobs, "kube-state-metrics-meta")
	require.Equal(t, "state", s.target(t, "state", map[string]string{"__address__": "agent:9096", "cluster": "shop"}).labels["job"])
	require.Empty(t, s.jobs["state"].Params)

	o := options()
	o.Targets = []v1alpha1.StaticTarget{{Component: v1alpha1.ComponentKubeStateMetrics, Addresses: []string{"ksm:8080"}}}
	o.Skip = []v1alpha1.TargetComponent{v1alpha1.ComponentKubeStateMetrics}
	_, err := Render(o)
	require.ErrorContains(t, err, "target 0: kube-state-metrics at [ksm:8080] would not be read, because the agent tells of objects; set objectState to KubeStateMetrics")
	require.ErrorContains(t, err, `component to skip "kube-state-metrics": must be one of`)
	o = options()
	o.ObjectState = "Nobody"
	_, err = Render(o)
	require.ErrorContains(t, err, `object state "Nobody": must be Agent or KubeStateMetrics`)
}

// While an edge is divided anew, the one series that is counted by shard is left to one.
func TestWhatTheAgentAloneTellsIsCountedOnce(t *testing.T) {
	o := options()
	o.ObjectState, o.Shards, o.ShardsBeside, o.Shard = v1alpha1.ObjectStateKubeStateMetrics, 1, 2, 1
	require.NotEmpty(t, countedOnce(o))
	job := load(t, o).jobs["state"]
	// Of one part the only server is 0.
	require.False(t, relabel.ProcessBuilder(labels.NewBuilder(labels.FromStrings("__name__", clusterInfo, "cluster", "shop")), job.MetricRelabelConfigs...))
}
