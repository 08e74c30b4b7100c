package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func TestDrawNodeKeepsWhatIsExportedAndNoMore(t *testing.T) {
	n := nodeNamed("n1")
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10260
	want := drawnNode(t, n)
	require.Equal(t, "10.1.0.1", want.internalIP)
	require.EqualValues(t, 10260, want.kubeletPort)
	require.EqualValues(t, kubeletPort, drawnNode(t, nodeNamed("n2")).kubeletPort)

	fat := n.DeepCopy()
	fat.Labels["other"] = "x"
	fat.Annotations = map[string]string{"a": strings.Repeat("x", 10_000)}
	fat.Status.Images = make([]corev1.ContainerImage, 50)
	fat.Status.Addresses = append([]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "h"}}, fat.Status.Addresses...)
	fat.Status.Conditions = append(fat.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse})
	require.Equal(t, want, drawnNode(t, fat), "of two conditions of a type, the first is kept")

	for i := range 100 {
		fat.Status.Conditions = append(fat.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprint("C", i))})
		fat.Status.Capacity[corev1.ResourceName(fmt.Sprint("example.org/device-", i))] = fat.Status.Capacity["pods"]
	}
	greedy := drawnNode(t, fat)
	require.Len(t, greedy.conditions, maxConditions)
	require.Len(t, greedy.capacity, maxResources)
	require.Contains(t, written(t, state{clusters: []clusterState{business("c", view{nodes: []*nodeOutline{greedy}})}}), `resource="cpu"`)

	_, err := drawNode(&corev1.Pod{})
	require.ErrorContains(t, err, "*v1.Pod is no object of this resource")
}

func TestResourcesHaveTheUnitsOfKubeStateMetrics(t *testing.T) {
	type sample struct {
		resource, unit string
		value          float64
	}
	var got []sample
	for _, q := range drawResources(resources(
		"cpu", "100m", "memory", "1Gi", "ephemeral-storage", "2Gi", "pods", "110", "hugepages-2Mi", "4Mi",
		"nvidia.com/gpu", "8", "nvidia_com/gpu", "9", "attachable-volumes-csi-x", "25",
	)) {
		got = append(got, sample{q.resource.Value(), q.unit, q.value})
	}
	require.Empty(t, cmp.Diff([]sample{
		{"attachable_volumes_csi_x", "byte", 25},
		{"cpu", "core", 0.1},
		{"ephemeral_storage", "byte", 2 << 30},
		{"hugepages_2Mi", "byte", 4 << 20},
		{"memory", "byte", 1 << 30},
		{"nvidia_com_gpu", "integer", 8},
		{"pods", "integer", 110},
	}, got, cmp.AllowUnexported(sample{})), "two names that are one word to Prometheus are one series")
}

func TestWritePods(t *testing.T) {
	crashing := podNamed("shop", "web-1", "n1")
	crashing.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "1")}}}
	crashing.Spec.Containers = append(crashing.Spec.Containers, corev1.Container{Name: "sidecar", Resources: corev1.ResourceRequirements{Requests: resources("memory", "64Mi", "nvidia.com/gpu", "1")}})
	crashing.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "10.1.0.1", PodIP: "10.2.0.1",
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", RestartCount: 7,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}},
		}},
	}
	pending := podNamed("shop", "web-2", "")
	pending.Spec.HostNetwork = true
	pending.Spec.Containers[0].Resources.Requests = resources("cpu", "0")
	pending.Status.Phase = corev1.PodPending
	odd := podNamed("shop", "web-3", "n1")
	odd.Spec.Containers, odd.Status.Phase = nil, "Confused"
	var pods []*podOutline
	for _, p := range []*corev1.Pod{crashing, pending, odd} {
		pods = append(pods, drawnPod(t, p))
	}
	var got []string
	for _, line := range samplesOf(written(t, state{clusters: []clusterState{business("c", view{pods: pods})}})) {
		if strings.HasPrefix(line, "kube_pod") {
			got = append(got, line)
		}
	}
	require.Empty(t, cmp.Diff([]string{
		`kube_pod_info{cluster="c",namespace="shop",pod="web-1",host_ip="10.1.0.1",pod_ip="10.2.0.1",node="n1",host_network="false"} 1`,
		`kube_pod_info{cluster="c",namespace="shop",pod="web-2",host_ip="",pod_ip="",node="",host_network="true"} 1`,
		`kube_pod_info{cluster="c",namespace="shop",pod="web-3",host_ip="",pod_ip="",node="n1",host_network="false"} 1`,
		`kube_pod_status_phase{cluster="c",namespace="shop",pod="web-1",phase="Running"} 1`,
		`kube_pod_status_phase{cluster="c",namespace="shop",pod="web-2",phase="Pending"} 1`,
		`kube_pod_container_status_waiting_reason{cluster="c",namespace="shop",pod="web-1",container="web",reason="CrashLoopBackOff"} 1`,
		`kube_pod_container_status_last_terminated_reason{cluster="c",namespace="shop",pod="web-1",container="web",reason="OOMKilled"} 1`,
		`kube_pod_container_status_restarts_total{cluster="c",namespace="shop",pod="web-1",container="web"} 7`,
		`kube_pod_container_resource_requests{cluster="c",namespace="shop",pod="web-1",container="web",node="n1",resource="cpu",unit="core"} 0.25`,
		`kube_pod_container_resource_requests{cluster="c",namespace="shop",pod="web-1",container="sidecar",node="n1",resource="memory",unit="byte"} 6.7108864e+07`,
		`kube_pod_container_resource_requests{cluster="c",namespace="shop",pod="web-2",container="web",node="",resource="cpu",unit="core"} 0`,
	}, got))
}

func TestAddressesThatPodsHold(t *testing.T) {
	pods := make([]*podOutline, 0, 5)
	for i, status := range []corev1.PodStatus{
		{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
		{Phase: corev1.PodPending},
		{Phase: corev1.PodSucceeded, PodIP: "10.0.0.2"},
		{Phase: corev1.PodFailed, PodIP: "10.0.0.3"},
		{Phase: corev1.PodRunning, PodIP: "10.1.0.1"},
	} {
		p := podNamed("fleet", fmt.Sprint("p-", i), "n1")
		p.Status, p.Spec.HostNetwork = status, i == 4
		pods = append(pods, drawnPod(t, p))
	}
	of := func(c clusterState) string { return written(t, state{clusters: []clusterState{c}}) }
	require.Contains(t, of(clusterState{name: metaCluster, view: view{pods: pods}}), "\npharos_cell_addresses_used 1\n")
	require.Contains(t, of(clusterState{name: metaCluster, view: view{pods: []*podOutline{}}}), "\npharos_cell_addresses_used 0\n")
	require.NotContains(t, of(clusterState{name: metaCluster}), "\npharos_cell_addresses_used ", "pods are not known")
	require.NotContains(t, of(business("shop", view{pods: pods})), "\npharos_cell_addresses_used ", "its network is its own")
}

// An API server that cannot stream a list is read page by page, and no page is
// kept whole.
func TestListingInPages(t *testing.T) {
	const pages = 5
	var asked []metav1.ListOptions
	pods := source{
		list: func(_ context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			asked = append(asked, o)
			page := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
			if len(asked) < pages {
				page.Continue = fmt.Sprint("page-", len(asked))
			}
			for i := range pageSize {
				page.Items = append(page.Items, *podNamed("default", fmt.Sprintf("p-%d-%d", len(asked), i), "n1"))
			}
			return page, nil
		},
		watch: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, fmt.Errorf("sendInitialEvents is unknown to this server")
			}
			return watch.NewFake(), nil
		},
	}
	w := newWatched("pods", &corev1.Pod{}, pods, drawPod, func(error) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	require.True(t, waitFor(10*time.Second, func() bool { return w.position() != "" }))
	cancel()
	<-done
	require.Len(t, w.all(), pages*pageSize)
	require.Len(t, asked, pages)
	require.Equal(t, "7", w.position())
	for i, o := range asked {
		require.EqualValues(t, pageSize, o.Limit)
		require.Empty(t, o.ResourceVersion, "only what is in the store is paged")
		require.Equal(t, i > 0, o.Continue != "")
	}
}

// largePods are pods as they come from a busy cluster.
func largePods(n int) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, n)
	for i := range n {
		p := podNamed(fmt.Sprintf("team-%02d", i%50), fmt.Sprintf("deployment-%04d-6c8b9d7f5-%05d", i/10, i), fmt.Sprintf("node-%04d", i%1000))
		p.Spec.Containers[0].Resources.Requests = resources("cpu", "250m", "memory", "512Mi")
		p.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: fmt.Sprintf("10.1.%d.%d", i%1000/250, i%250), PodIP: fmt.Sprintf("10.2.%d.%d", i/250%250, i%250),
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", RestartCount: int32(i % 3)}},
		}
		if i%100 == 0 {
			p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		}
		out = append(out, p)
	}
	return out
}

// BenchmarkPodOutlines50k tells how much memory a pod takes, by its outline alone,
// in a cluster of 50,000.
func BenchmarkPodOutlines50k(b *testing.B) {
	const n = 50_000
	data, err := largePods(1)[0].Marshal()
	require.NoError(b, err)
	for b.Loop() {
		pods := newOutlines(drawPod)
		before := liveBytes()
		for i := range n {
			// Decoded one by one, as from the wire, so that no string is shared by chance.
			p := &corev1.Pod{}
			require.NoError(b, p.Unmarshal(data))
			p.Name = fmt.Sprintf("deployment-%04d-6c8b9d7f5-%05d", i/10, i)
			p.Status.PodIP = fmt.Sprintf("10.2.%d.%d", i/250%250, i%250)
			require.NoError(b, pods.Add(p))
		}
		b.ReportMetric(float64(liveBytes()-before)/n, "B/pod")
		require.Len(b, pods.all(), n)
	}
}

func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// largeState is a cell of so many clusters with so many nodes and pods each. The
// clusters share their pods, so that the tests do not need a cell's memory.
func largeState(clusters, nodes, pods int) state {
	var s state
	var machines []*v1alpha1.Machine
	watched := map[clusterKey]bool{}
	outlines := make([]*podOutline, 0, pods)
	for _, p := range largePods(pods) {
		o, err := drawPod(p)
		if err != nil {
			panic(err)
		}
		outlines = append(outlines, o)
	}
	for c := range clusters {
		cluster := business(fmt.Sprintf("cluster-%02d", c), view{up: true, pods: outlines})
		watched[clusterKey{namespace: "fleet", name: cluster.name}] = true
		for i := range nodes {
			n := nodeNamed(fmt.Sprintf("%s-node-%04d", cluster.name, i))
			for _, t := range []corev1.NodeConditionType{"DiskPressure", "PIDPressure", "NetworkUnavailable"} {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse})
			}
			o, err := drawNode(n)
			if err != nil {
				panic(err)
			}
			cluster.nodes = append(cluster.nodes, o)
			machines = append(machines, machineNamed(cluster.name, n.Name, n.Name))
		}
		s.clusters = append(s.clusters, cluster)
	}
	s.machines = settle(machines, watched)
	return s
}

func benchmarkWriteState(b *testing.B, s state) {
	var size countingWriter
	b.ReportAllocs()
	for b.Loop() {
		size = 0
		if err := writeState(&size, s, true); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/1e6, "MB/scrape")
}

func BenchmarkWriteState20x1000(b *testing.B) { benchmarkWriteState(b, largeState(20, 1000, 0)) }

// One cluster of 1,000 nodes and 30,000 pods: one target of the edge.
func BenchmarkWriteState1x1000x30000(b *testing.B) {
	benchmarkWriteState(b, largeState(1, 1000, 30_000))
}

// A cell of 100 clusters with 1,000 nodes and 30,000 pods together, each cluster
// written by itself, as an edge asks for it.
func BenchmarkWriteStateByCluster100x10x300(b *testing.B) {
	whole := largeState(100, 10, 300)
	b.ReportAllocs()
	for b.Loop() {
		for i := range whole.clusters {
			var size countingWriter
			if err := writeState(&size, state{clusters: whole.clusters[i : i+1], machines: whole.machines[10*i : 10*i+10]}, true); err != nil {
				b.Fatal(err)
			}
		}
	}
}

type countingWriter int

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}

// That pods are forbidden is told at once, that they do not come only after a
// while, and each trouble once.
func TestWhatIsToldOfPods(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))
	slow := fmt.Errorf("pods are %w", errNotListed)
	begin := time.Now()
	var p podWatch
	for _, step := range []struct {
		after time.Duration
		err   error
		tell  bool
		known bool
	}{
		{0, slow, false, false},
		{29 * time.Second, slow, false, false},
		{31 * time.Second, slow, true, false},
		{32 * time.Second, slow, false, false},
		{40 * time.Second, nil, true, true},
		{70 * time.Second, nil, false, true},
		{100 * time.Second, slow, false, true},
		{144 * time.Second, slow, true, true},
		{146 * time.Second, slow, false, false},
		{150 * time.Second, nil, true, true},
		{180 * time.Second, forbidden, true, true},
		{181 * time.Second, forbidden, false, true},
	} {
		now := begin.Add(step.after)
		require.Equal(t, step.tell, p.verdict(now, step.err), "%s", step.after)
		require.Equal(t, step.known, p.known(now), "%s", step.after)
	}
	p.forget()
	require.False(t, p.known(begin.Add(181*time.Second)), "another connection begins with nothing")
}
