package fault_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/fault"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/reboot"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// world is a fleet in which one API server plays every cluster.
type world struct {
	t        *testing.T
	c        client.Client
	config   *rest.Config
	injector *fault.Injector
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := testkit.APIServer(t)
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	configs := map[string]*rest.Config{}
	for _, cluster := range layout.Clusters() {
		configs[cluster.Name] = config
	}
	injector, err := fault.New(configs)
	require.NoError(t, err)
	w := &world{t: t, c: c, config: config, injector: injector}
	shop, err := layout.ClusterByName("shop")
	require.NoError(t, err)
	for _, n := range shop.Nodes() {
		require.NoError(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			layout.LabelKubelet: layout.KubeletRunning, v1alpha1.LabelRack: n.Rack,
		}}}))
	}
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: deploy.Namespace}}))
	return w
}

func (w *world) pod(name string, labels map[string]string) {
	w.t.Helper()
	require.NoError(w.t, w.c.Create(w.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name}}))
	require.NoError(w.t, w.c.Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{ServiceAccountName: name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}))
}

// dead are the nodes whose kubelet does not run.
func (w *world) dead() []string {
	w.t.Helper()
	var nodes corev1.NodeList
	require.NoError(w.t, w.c.List(w.t.Context(), &nodes))
	names := []string{}
	for _, n := range nodes.Items {
		if n.Labels[layout.LabelKubelet] != layout.KubeletRunning {
			names = append(names, n.Name)
		}
	}
	return names
}

func (w *world) stopped() []string {
	w.t.Helper()
	var pods corev1.PodList
	require.NoError(w.t, w.c.List(w.t.Context(), &pods))
	names := []string{}
	for _, p := range pods.Items {
		if p.Annotations[layout.AnnotationFault] == layout.FaultStopped {
			names = append(names, p.Name)
		}
	}
	return names
}

func (w *world) clear() []fault.Fault {
	w.t.Helper()
	cleared, err := w.injector.Clear(w.t.Context())
	require.NoError(w.t, err)
	require.Empty(w.t, w.dead())
	require.Empty(w.t, w.stopped())
	left, err := w.injector.List(w.t.Context())
	require.NoError(w.t, err)
	require.Empty(w.t, left)
	return cleared
}

func TestFaults(t *testing.T) {
	w := newWorld(t)
	w.pod("edge-0", map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentEdge})
	w.pod("central-a-0", map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentCentral, v1alpha1.LabelReplica: "a"})
	w.pod("central-b-0", map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentCentral, v1alpha1.LabelReplica: "b"})
	t.Run("node stops", w.testNodeStop)
	t.Run("rack stops", w.testRackStop)
	t.Run("pods stop", w.testPods)
	t.Run("node flaps", w.testFlap)
	t.Run("reboot", w.testReboot)
	t.Run("refused", w.testRefused)
	t.Run("hung", w.testHung)
}

func (w *world) testNodeStop(t *testing.T) {
	for range 2 { // twice is the same as once
		got, err := w.injector.Inject(t.Context(), fault.Fault{Kind: fault.NodeStop})
		require.NoError(t, err)
		require.Equal(t, fault.Fault{Kind: fault.NodeStop, Node: "shop-node-07"}, got)
		require.Equal(t, []string{"shop-node-07"}, w.dead())
	}
	require.Contains(t, w.clear(), fault.Fault{Kind: fault.NodeStop, Node: "shop-node-07"})
	require.Empty(t, w.clear(), "clearing nothing is no error")
}

func (w *world) testRackStop(t *testing.T) {
	_, err := w.injector.Inject(t.Context(), fault.Fault{Kind: fault.RackStop, Rack: "rack-4"})
	require.NoError(t, err)
	require.Equal(t, []string{"shop-node-15", "shop-node-16", "shop-node-17", "shop-node-18", "shop-node-19"}, w.dead())
	list, err := w.injector.List(t.Context())
	require.NoError(t, err)
	require.Contains(t, list, fault.Fault{Kind: fault.RackStop, Cluster: "shop", Rack: "rack-4"})
	w.clear()
}

func (w *world) testPods(t *testing.T) {
	_, err := w.injector.Inject(t.Context(), fault.Fault{Kind: fault.CentralDown, Replica: "b"})
	require.NoError(t, err)
	require.Equal(t, []string{"central-b-0"}, w.stopped())
	_, err = w.injector.Inject(t.Context(), fault.Fault{Kind: fault.EdgeDown})
	require.NoError(t, err)
	require.Equal(t, []string{"central-b-0", "edge-0"}, w.stopped())
	w.clear()
}

func (w *world) testFlap(t *testing.T) {
	_, err := w.injector.Inject(t.Context(), fault.Fault{Kind: fault.NodeFlap, Node: "shop-node-03"})
	require.NoError(t, err)
	require.Equal(t, []string{"shop-node-03"}, w.dead())
	player := fault.NewPlayer(w.injector, slog.New(slog.DiscardHandler))
	now := time.Now()
	play := func(after time.Duration) {
		t.Helper()
		now = now.Add(after)
		require.NoError(t, player.Play(t.Context(), now))
	}
	play(0)
	play(59 * time.Second)
	require.Equal(t, []string{"shop-node-03"}, w.dead(), "dead for a minute")
	play(time.Second)
	require.Empty(t, w.dead(), "then alive by itself")
	play(29 * time.Second)
	require.Empty(t, w.dead())
	play(time.Second)
	require.Equal(t, []string{"shop-node-03"}, w.dead(), "and dead again")

	require.NoError(t, reboot.Reset(t.Context(), w.config, "shop-node-03"))
	require.Empty(t, w.dead())
	list, err := w.injector.List(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, list, "a reset does not mend a flapping node")
	w.clear()
	play(10 * time.Minute)
	require.Empty(t, w.dead(), "a mended node is left alone")
}

func (w *world) testReboot(t *testing.T) {
	bootID := func() string {
		var n corev1.Node
		require.NoError(t, w.c.Get(t.Context(), client.ObjectKey{Name: "shop-node-07"}, &n))
		return n.Status.NodeInfo.BootID
	}
	_, err := w.injector.Inject(t.Context(), fault.Fault{Kind: fault.NodeStop})
	require.NoError(t, err)
	before := bootID()
	require.NoError(t, reboot.Reset(t.Context(), w.config, "shop-node-07"))
	require.NotEqual(t, before, bootID())
	require.Empty(t, w.dead())
	list, err := w.injector.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, list, "a reset mends a dead kubelet")
	require.ErrorContains(t, reboot.Reset(t.Context(), w.config, "shop-node-20"), `"shop-node-20" not found`)
}

func (w *world) testRefused(t *testing.T) {
	for want, f := range map[string]fault.Fault{
		`no fault "flood"`: {Kind: "flood"},
		`no node "x"`:      {Kind: fault.NodeStop, Node: "x"},
		`no rack "r": there are [rack-1 rack-2 rack-3 rack-4]`:                      {Kind: fault.RackStop, Rack: "r"},
		`no business cluster "x": there are [shop bank]`:                            {Kind: fault.RackStop, Cluster: "x"},
		"node-stop: it takes no --cell; it takes, for example, --node shop-node-07": {Kind: fault.NodeStop, Cell: "asia-1"},
		"central-down: it takes no --rack":                                          {Kind: fault.CentralDown, Rack: "rack-1"},
		`no cell "x": there are [asia-1 europe-1]`:                                  {Kind: fault.EdgeDown, Cell: "x"},
		`no cell "shop"`:                    {Kind: fault.EdgeDown, Cell: "shop"},
		`no central "c": there are a and b`: {Kind: fault.CentralDown, Replica: "c"},
		`no business cluster "hub"`:         {Kind: fault.RackStop, Cluster: "hub"},
		"stopping the kubelet of node ba":   {Kind: fault.NodeStop, Node: "bank-node-00"},
	} {
		_, err := w.injector.Inject(t.Context(), f)
		require.ErrorContains(t, err, want)
	}
	w.clear()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.injector.List(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// What is broken is listed and mended in the clusters that answer, whoever hangs.
func (w *world) testHung(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = mute.Close() })
	configs := map[string]*rest.Config{}
	for _, c := range layout.Clusters() {
		configs[c.Name] = w.config
	}
	configs["bank"] = &rest.Config{Host: "https://" + mute.Addr().String()}
	configs["europe-1"] = configs["bank"]
	half, err := fault.New(configs)
	require.NoError(t, err)
	broken, err := half.Inject(t.Context(), fault.Fault{Kind: fault.NodeStop})
	require.NoError(t, err)

	begun := time.Now()
	list, err := half.List(t.Context())
	require.ErrorContains(t, err, "what is broken in cluster bank is not known")
	require.ErrorContains(t, err, "what is broken in cluster europe-1 is not known")
	require.NotContains(t, err.Error(), "cluster shop")
	require.Equal(t, []fault.Fault{broken}, list)
	cleared, err := half.Clear(t.Context())
	require.Error(t, err)
	require.Equal(t, []fault.Fault{broken}, cleared)
	require.Empty(t, w.dead())
	require.Less(t, time.Since(begun), 20*time.Second)
}

func TestKindsAreNamed(t *testing.T) {
	for _, k := range fault.Kinds() {
		require.NotEmpty(t, k.Text, k.Kind)
	}
	require.Equal(t, "rack-stop shop/rack-2", fault.Fault{Kind: fault.RackStop, Cluster: "shop", Rack: "rack-2"}.String())
}
