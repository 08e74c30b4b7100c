package agent

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

var born = metav1.NewTime(time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC))

func clusterNamed(namespace, name string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: born},
		Spec: v1alpha1.ClusterSpec{
			Size: v1alpha1.ClusterSmall, Version: "v1.37.2", Profile: "standard",
			ObserverKubeconfigSecret: name + "-observer",
		},
	}
}

func machineNamed(cluster, name, node string) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name},
		Spec: v1alpha1.MachineSpec{
			ClusterName: cluster, NodeName: node, Pool: "workers",
			FailureDomain: v1alpha1.FailureDomain{Zone: "zone-a", Rack: "rack-1"},
		},
	}
}

func nodeNamed(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: born, Labels: map[string]string{
			corev1.LabelTopologyZone: "zone-a", v1alpha1.LabelRack: "rack-1", v1alpha1.LabelPool: "workers",
		}},
		Spec: corev1.NodeSpec{ProviderID: "kwok://" + name, PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{
			Capacity:    resources("cpu", "32", "memory", "128Gi", "pods", "110"),
			Allocatable: resources("cpu", "31500m", "memory", "120Gi", "pods", "110"),
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.0.1"}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionUnknown},
			},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OSImage: "Linux", KernelVersion: "6.1", ContainerRuntimeVersion: "containerd://2", SystemUUID: "u-1"},
		},
	}
}

// resources are names and amounts in turn.
func resources(in ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(in); i += 2 {
		out[corev1.ResourceName(in[i])] = resource.MustParse(in[i+1])
	}
	return out
}

func drawnNode(t testing.TB, n *corev1.Node) *nodeOutline {
	t.Helper()
	out, err := drawNode(n)
	require.NoError(t, err)
	return out
}

func drawnPod(t testing.TB, p *corev1.Pod) *podOutline {
	t.Helper()
	out, err := drawPod(p)
	require.NoError(t, err)
	return out
}

// business is the state of a business cluster.
func business(name string, v view) clusterState {
	return clusterState{view: v, name: name, spec: clusterNamed("fleet", name)}
}

func written(t testing.TB, s state) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, writeState(&out, s, true))
	return out.String()
}

// Where kube-state-metrics tells of nodes and pods, the agent tells what that does
// not know.
func TestWriteStateWithoutObjects(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, writeState(&out, largeState(1, 2, 2), false))
	require.Contains(t, out.String(), "pharos_cluster_up{")
	require.Contains(t, out.String(), "pharos_machine_info{")
	require.NotContains(t, out.String(), "kube_")
	require.Subset(t, samplesOf(out.String()), []string{
		`pharos_cluster_nodes{cluster="cluster-00"} 2`, `pharos_cluster_nodes_ready{cluster="cluster-00"} 2`, `pharos_cluster_pods{cluster="cluster-00"} 2`,
	}, "how many there are an edge compares")
}

func samplesOf(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestWriteState(t *testing.T) {
	cordoned := nodeNamed("n1")
	cordoned.Spec.Unschedulable = true
	s := state{
		clusters: []clusterState{
			business("bank", view{}),
			business("shop", view{up: true, nodes: []*nodeOutline{drawnNode(t, cordoned)}}),
		},
		machines: settle([]*v1alpha1.Machine{machineNamed("shop", "m1", "n1")},
			map[clusterKey]bool{{namespace: "fleet", name: "shop"}: true}),
	}
	want := []string{
		`pharos_cluster_info{cluster="bank",size="Small",version="v1.37.2",profile="standard"} 1`,
		`pharos_cluster_info{cluster="shop",size="Small",version="v1.37.2",profile="standard"} 1`,
		`pharos_cluster_up{cluster="bank"} 0`,
		`pharos_cluster_up{cluster="shop"} 1`,
		`pharos_cluster_nodes{cluster="shop"} 1`,
		`pharos_cluster_nodes_ready{cluster="shop"} 1`,
		`pharos_machine_info{cluster="shop",machine="m1",node="n1",pool="workers",zone="zone-a",rack="rack-1"} 1`,
		`pharos_machine_state{cluster="shop",machine="m1",state="InUse"} 1`,
		`pharos_machine_state{cluster="shop",machine="m1",state="Standby"} 0`,
		`kube_node_info{cluster="shop",node="n1",kernel_version="6.1",os_image="Linux",container_runtime_version="containerd://2",kubelet_version="v1.37.2",provider_id="kwok://n1",pod_cidr="10.0.0.0/24",system_uuid="u-1",internal_ip="10.1.0.1"} 1`,
		`kube_node_created{cluster="shop",node="n1"} 1.7960076e+09`,
		`kube_node_spec_unschedulable{cluster="shop",node="n1"} 1`,
		`kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="true"} 1`,
		`kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="false"} 0`,
		`kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="unknown"} 0`,
		`kube_node_status_condition{cluster="shop",node="n1",condition="MemoryPressure",status="true"} 0`,
		`kube_node_status_condition{cluster="shop",node="n1",condition="MemoryPressure",status="false"} 0`,
		`kube_node_status_condition{cluster="shop",node="n1",condition="MemoryPressure",status="unknown"} 1`,
		`kube_node_status_capacity{cluster="shop",node="n1",resource="cpu",unit="core"} 32`,
		`kube_node_status_capacity{cluster="shop",node="n1",resource="memory",unit="byte"} 1.37438953472e+11`,
		`kube_node_status_capacity{cluster="shop",node="n1",resource="pods",unit="integer"} 110`,
		`kube_node_status_allocatable{cluster="shop",node="n1",resource="cpu",unit="core"} 31.5`,
		`kube_node_status_allocatable{cluster="shop",node="n1",resource="memory",unit="byte"} 1.2884901888e+11`,
		`kube_node_status_allocatable{cluster="shop",node="n1",resource="pods",unit="integer"} 110`,
		`kube_node_labels{cluster="shop",node="n1",label_topology_kubernetes_io_zone="zone-a",label_topology_pharos_dev_rack="rack-1",label_pharos_dev_pool="workers"} 1`,
	}
	require.Empty(t, cmp.Diff(want, samplesOf(written(t, s))))
}

// What is known to be none is told, and what is not known is not.
func TestWhatIsCountedOfAClusterAndWhatIsNot(t *testing.T) {
	sick := nodeNamed("n2")
	sick.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}, {Type: "Fresh", Status: corev1.ConditionTrue}}
	empty := business("empty", view{up: true, nodes: []*nodeOutline{}, pods: []*podOutline{}})
	silent := business("silent", view{})
	silent.answersKnown = true
	answers := business("answers", view{up: true, nodes: []*nodeOutline{drawnNode(t, nodeNamed("n1")), drawnNode(t, sick)}})
	answers.answers, answers.answersKnown = true, true
	var told []string
	for _, line := range samplesOf(written(t, state{clusters: []clusterState{empty, silent, answers, business("unknown", view{})}})) {
		if strings.HasPrefix(line, "pharos_cluster_") && !strings.HasPrefix(line, "pharos_cluster_info") && !strings.HasPrefix(line, "pharos_cluster_up") {
			told = append(told, strings.TrimPrefix(line, "pharos_cluster_"))
		}
	}
	require.Equal(t, []string{
		`answers{cluster="silent"} 0`, `answers{cluster="answers"} 1`,
		`nodes{cluster="empty"} 0`, `nodes{cluster="answers"} 2`,
		`nodes_ready{cluster="empty"} 0`, `nodes_ready{cluster="answers"} 1`,
		`pods{cluster="empty"} 0`,
	}, told)
}

// The reader's own parser must get back every label value that we write.
func TestWrittenLabelsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{strings.Repeat("北", 1000), `"`, "\n", `\`, `\n`, "a\\\n\"b", "北京", "\xff\xfe"})).Draw(t, "value")
		var out bytes.Buffer
		w := newTextWriter(&out)
		w.gauge("m", "Help.")
		w.sample(1, "a", value, "b", "x")
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(&out)
		if err != nil {
			t.Fatalf("reading %q: %v", value, err)
		}
		got := families["m"].GetMetric()[0].GetLabel()[0].GetValue()
		if len(value) <= maxLabelValue && got != strings.ToValidUTF8(value, "\uFFFD") {
			t.Fatalf("%q is read back as %q", value, got)
		}
	})
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteStateReportsABrokenReader(t *testing.T) {
	require.ErrorContains(t, writeState(brokenWriter{}, largeState(2, 1000, 0), true), "broken pipe")
}

func TestDistinctNeverMergesClustersOfOneName(t *testing.T) {
	older, newer := clusterNamed("b", "shop"), clusterNamed("a", "shop")
	newer.CreationTimestamp = metav1.NewTime(born.Add(time.Second))
	other := clusterNamed("a", "bank")
	chosen, refused := distinct([]*v1alpha1.Cluster{newer, other, older})
	require.Equal(t, []*v1alpha1.Cluster{other, older}, chosen)
	require.Equal(t, []*v1alpha1.Cluster{newer}, refused)

	sameAge := clusterNamed("a", "shop")
	chosen, _ = distinct([]*v1alpha1.Cluster{older, sameAge})
	require.Equal(t, []*v1alpha1.Cluster{sameAge}, chosen, "of two of one age, the namespace decides, so that every run agrees")
}

func TestSettle(t *testing.T) {
	elsewhere := machineNamed("shop", "m9", "n1")
	elsewhere.Namespace = "other"
	machines := []*v1alpha1.Machine{
		machineNamed("shop", "m1", "n1"), machineNamed("shop", "m2", "n2"), machineNamed("shop", "m3", "n2"),
		machineNamed("shop", "m4", ""), machineNamed("shop", "m5", ""),
		machineNamed("bank", "m6", "n1"), machineNamed("unheard-of", "m7", "n7"), elsewhere,
	}
	got := map[string]string{}
	settled := settle(machines, map[clusterKey]bool{
		{namespace: "fleet", name: "shop"}: true, {namespace: "fleet", name: "bank"}: true,
	})
	for _, m := range settled {
		got[m.Spec.ClusterName+"/"+m.Name] = m.node
	}
	want := map[string]string{"bank/m6": "n1", "shop/m1": "n1", "shop/m2": "", "shop/m3": "", "shop/m4": "", "shop/m5": ""}
	require.Empty(t, cmp.Diff(want, got))
	require.Equal(t, 2, ambiguous(settled))
}

func TestTrimsKeepTombstones(t *testing.T) {
	for _, trim := range []func(any) (any, error){trimMachine, trimCluster} {
		o, err := trim("a tombstone")
		require.NoError(t, err)
		require.Equal(t, "a tombstone", o)
	}
}

func TestSecretDue(t *testing.T) {
	for name, c := range map[string]struct {
		age     time.Duration
		failing bool
		want    bool
	}{
		"all is well":        {29 * time.Second, false, false},
		"all is well, later": {30 * time.Second, false, true},
		"just failed":        {4 * time.Second, true, false},
		"failing":            {5 * time.Second, true, true},
	} {
		require.Equal(t, c.want, secretDue(c.age, 30*time.Second, c.failing), name)
	}
}

func TestProxyDeadline(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": proxyTimeout, "2.5": 2500 * time.Millisecond, "60": proxyTimeout, "-1": proxyTimeout, "NaN": proxyTimeout, "x": proxyTimeout,
	} {
		require.Equal(t, want, proxyDeadline(http.Header{scrapeTimeoutHeader: {header}}), header)
	}
}

func TestCopyBounded(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, copyBounded(&out, strings.NewReader("12345"), 5))
	require.Equal(t, "12345", out.String())
	require.ErrorContains(t, copyBounded(io.Discard, strings.NewReader("123456"), 5), "larger than 5 bytes")
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Options{Listen: "127.92.0.1:0"})
	require.ErrorContains(t, err, "API server of the cell")
	for _, listen := range []string{":9096", "0.0.0.0:9096", "[::]:9096"} {
		o := Options{Cell: restConfig("http://127.92.0.1:1"), Listen: listen}
		require.ErrorContains(t, o.complete(), "no host to advertise", listen)
	}
	o := Options{Cell: restConfig("http://127.92.0.1:1"), Listen: "nonsense"}
	require.ErrorContains(t, o.complete(), "address to advertise")
	_, err = New(Options{Cell: restConfig("http://127.92.0.1:1"), Listen: "203.0.113.1:1"})
	require.ErrorContains(t, err, "listening on 203.0.113.1:1")
}
