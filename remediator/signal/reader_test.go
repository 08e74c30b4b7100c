package signal_test

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

func kubeconfig(t testing.TB, c *rest.Config, user *clientcmdapi.AuthInfo) map[string][]byte {
	t.Helper()
	if user == nil {
		user = &clientcmdapi.AuthInfo{ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}
	}
	out, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": user},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	return map[string][]byte{kube.SecretKeyKubeconfig: out}
}

// mute accepts connections and says nothing.
func mute(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return "https://" + l.Addr().String()
}

func centrals(t testing.TB, urls ...string) []signal.Central {
	t.Helper()
	var out []signal.Central
	for i, u := range urls {
		c, err := promapi.New(promapi.Options{URL: u, Timeout: time.Second})
		require.NoError(t, err)
		out = append(out, signal.Central{Name: []string{"central-a", "central-b"}[i], Client: c})
	}
	return out
}

type hub struct {
	t *testing.T
	client.Client
	kubeconfig map[string][]byte
}

func (h hub) create(o client.Object) {
	h.t.Helper()
	if err := h.Create(h.t.Context(), o); !apierrors.IsAlreadyExists(err) {
		require.NoError(h.t, err)
	}
}

func (h hub) cell(name string, data map[string][]byte) {
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "pharos-system", Name: name}, Data: data})
	h.create(&api.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.CellSpec{
		Geography: "asia", Region: "r", KubeconfigSecret: "unused", RemediatorKubeconfigSecret: name}})
}

func (h hub) reader(timeout time.Duration) *signal.Reader {
	r, err := signal.New(signal.Options{Hub: h, Namespace: "pharos-system", Timeout: timeout,
		Centrals: centrals(h.t, "http://127.0.0.1:1", "http://127.0.0.1:2")})
	require.NoError(h.t, err)
	h.t.Cleanup(r.Close)
	return r
}

// good is the cell of that name, as soon as its watch has shown what the test did.
func (h hub) good(r *signal.Reader) policy.Cell {
	h.t.Helper()
	var good policy.Cell
	testkit.Await(h.t, func() error {
		var clusters api.ClusterList
		require.NoError(h.t, h.List(h.t.Context(), &clusters))
		var want policy.Cell
		for _, c := range clusters.Items {
			if signal.Paused(&c) {
				want.PausedClusters = append(want.PausedClusters, c.Name)
			}
			if c.Spec.NodeCheckKubeconfigSecret != "" {
				want.CheckedClusters = append(want.CheckedClusters, c.Name)
			}
		}
		cells, err := r.Cells(h.t.Context())
		require.NoError(h.t, err)
		i := slices.IndexFunc(cells, func(c policy.Cell) bool { return c.Name == "good" })
		good = policy.Cell{}
		if i >= 0 {
			good = cells[i]
		}
		if i < 0 || good.Err != "" || slices.Equal(want.PausedClusters, good.PausedClusters) && slices.Equal(want.CheckedClusters, good.CheckedClusters) {
			return nil
		}
		return fmt.Errorf("got %+v, want %+v", good, want)
	})
	return good
}

func TestReader(t *testing.T) {
	config := testkit.APIServer(t)
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	h := hub{t, c, kubeconfig(t, config, nil)}
	for _, n := range []string{"pharos-system", "fleet", corev1.NamespaceNodeLease} {
		h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	h.cell("good", kubeconfig(t, config, nil))
	h.cell("mute", kubeconfig(t, &rest.Config{Host: mute(t)}, &clientcmdapi.AuthInfo{Token: "t"}))
	h.cell("evil", kubeconfig(t, config, &clientcmdapi.AuthInfo{TokenFile: "/etc/shadow"}))
	h.create(&api.Cell{ObjectMeta: metav1.ObjectMeta{Name: "none-of-ours"}, Spec: api.CellSpec{Geography: "asia", Region: "r", KubeconfigSecret: "unused"}})
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "observer"}, Data: kubeconfig(t, config, nil)})
	h.create(&api.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "shop", Annotations: map[string]string{api.AnnotationPaused: ""}},
		Spec: api.ClusterSpec{ObserverKubeconfigSecret: "observer"}})
	h.create(&api.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"}, Spec: api.MachineSpec{
		ClusterName: "shop", NodeName: "n-1", Pool: "workers", HardwareID: "hw-1", FailureDomain: api.FailureDomain{Zone: "z", Rack: "r"}}})

	t.Run("cells", func(t *testing.T) { testCells(t, h) })
	t.Run("live", func(t *testing.T) { testLive(t, h) })
	t.Run("node checks", func(t *testing.T) { testNodeChecks(t, h) })
	t.Run("withdrawn credential", func(t *testing.T) { testWithdrawn(t, h) })
	t.Run("clusters and cells that go", func(t *testing.T) { testGone(t, h) })
}

func testCells(t *testing.T, h hub) {
	r := h.reader(2 * time.Second)
	start := time.Now()
	cells, err := r.Cells(t.Context())
	require.NoError(t, err)
	require.Less(t, time.Since(start), 4*time.Second, "bounded by the timeout of the mute cell")
	require.Len(t, cells, 3)
	byName := map[string]policy.Cell{}
	for _, c := range cells {
		byName[c.Name] = c
	}
	good := byName["good"]
	require.Empty(t, good.Err)
	require.Equal(t, []string{"shop"}, good.PausedClusters)
	require.Len(t, good.Machines, 1)
	uid := good.Machines[0].UID
	require.NotEmpty(t, uid)
	require.Empty(t, cmp.Diff(policy.Machine{Namespace: "fleet", Name: "m-1", UID: uid, Cluster: "shop", Node: "n-1",
		Pool: "workers", HardwareID: "hw-1", Zone: "z", Rack: "r", InUse: true}, good.Machines[0]))
	require.Contains(t, byName["mute"].Err, "exceeded", "whichever of the two timeouts comes first")
	require.Empty(t, byName["mute"].Machines)
	require.Contains(t, byName["evil"].Err, "names a file or a command")

	start = time.Now()
	cells, err = r.Cells(t.Context())
	require.NoError(t, err)
	require.Less(t, time.Since(start), time.Second, "a cell that did not answer is not waited for again")
	for _, c := range cells {
		require.Equal(t, c.Name != "good", c.Err != "", c.Name)
	}
}

func testLive(t *testing.T, h hub) {
	at := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}, Spec: corev1.NodeSpec{Unschedulable: true, ProviderID: "kwok://n-1"}}
	h.create(n)
	n.Status.NodeInfo.BootID = "boot-1"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: at, LastHeartbeatTime: at}}
	require.NoError(t, h.Status().Update(t.Context(), n))
	renewed := metav1.NewMicroTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	for name, time := range map[string]*metav1.MicroTime{"n-1": &renewed, "never": nil} {
		h.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
			Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: time}})
	}
	r := h.reader(3 * time.Second)
	cells, err := r.Cells(t.Context())
	require.NoError(t, err)
	live := r.Live(t.Context(), cells, []policy.NodeRef{
		{Cell: "good", Cluster: "shop", Node: "absent"}, {Cell: "good", Cluster: "shop", Node: "n-1"}, {Cell: "good", Cluster: "unknown", Node: "x"}})
	require.Len(t, live, 2)
	shop := live[0]
	require.Empty(t, shop.Err)
	require.Equal(t, []policy.LiveNode{{Name: "absent", Absent: true}}, shop.Nodes[:1])
	node := shop.Nodes[1]
	require.True(t, node.Since.Equal(at.Time))
	node.Since, node.Heartbeat = time.Time{}, time.Time{}
	require.Equal(t, policy.LiveNode{Name: "n-1", UID: string(n.UID), Ready: "Unknown", BootID: "boot-1", ProviderID: "kwok://n-1", Unschedulable: true}, node)
	require.Len(t, shop.Leases, 1, "a Lease never renewed says nothing")
	require.Equal(t, 40*time.Second, shop.Leases[0].Duration.Duration)
	require.True(t, shop.Leases[0].Renewed.Equal(renewed.Time))
	require.Contains(t, live[1].Err, "has no machines of this cluster")

	require.LessOrEqual(t, shop.ClockSkew.Abs(), 2*time.Second, "measured on the same machine")

	one := r.Again(t.Context(), api.RemediationTarget{Cell: "good", Namespace: "fleet", Cluster: "shop", Node: "n-1"}, []string{"n-1"})
	require.Empty(t, one.Err)
	require.Equal(t, shop.Nodes[1:], one.Nodes)
	require.Equal(t, shop.Leases, one.Leases)
	one = r.Again(t.Context(), api.RemediationTarget{Cell: "mute", Namespace: "fleet", Cluster: "shop", Node: "n-1"}, []string{"n-1"})
	require.NotEmpty(t, one.Err)
}

// Node checks have a credential of their own, and no other is used in its place.
func testNodeChecks(t *testing.T, h hub) {
	r := h.reader(3 * time.Second)
	target := api.RemediationTarget{Cell: "good", Namespace: "fleet", Cluster: "shop", Node: "n-1"}
	require.Empty(t, h.good(r).CheckedClusters)
	_, err := r.NodeChecks(t.Context(), target)
	require.ErrorContains(t, err, "cluster fleet/shop in cell good names no spec.nodeCheckKubeconfigSecret")

	var shop api.Cluster
	require.NoError(t, h.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "shop"}, &shop))
	shop.Spec.NodeCheckKubeconfigSecret = "checks"
	require.NoError(t, h.Update(t.Context(), &shop))
	require.Equal(t, []string{"shop"}, h.good(r).CheckedClusters)
	_, err = r.NodeChecks(t.Context(), target)
	require.ErrorContains(t, err, `reading the node checks' kubeconfig: secrets "checks" not found`)

	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "checks"}, Data: h.kubeconfig})
	first, err := r.NodeChecks(t.Context(), target)
	require.NoError(t, err)
	again, err := r.NodeChecks(t.Context(), target)
	require.NoError(t, err)
	require.Same(t, first, again, "a client is kept for as long as its Secret stays")
	require.Empty(t, r.Again(t.Context(), target, []string{"n-1"}).Err)
	_, kept := r.Kept()
	require.Equal(t, 2, kept, "one to observe and one to check")
}

// A credential that was replaced is used no more, from the next round on.
func testWithdrawn(t *testing.T, h hub) {
	r := h.reader(3 * time.Second)
	ref := []policy.NodeRef{{Cell: "good", Cluster: "shop", Node: "n-1"}}
	cells, err := r.Cells(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.Live(t.Context(), cells, ref)[0].Err)
	var secret corev1.Secret
	require.NoError(t, h.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "observer"}, &secret))
	secret.Data[kube.SecretKeyKubeconfig] = []byte("no longer")
	require.NoError(t, h.Update(t.Context(), &secret))
	require.Contains(t, r.Live(t.Context(), cells, ref)[0].Err, "secret fleet/observer, key kubeconfig: reading kubeconfig")
}

// What is on its way out is not repaired, and what is gone is not kept.
func testGone(t *testing.T, h hub) {
	r := h.reader(3 * time.Second)
	h.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "mall-observer"}, Data: h.kubeconfig})
	mall := &api.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "mall", Finalizers: []string{"pharos.dev/test"}},
		Spec: api.ClusterSpec{ObserverKubeconfigSecret: "mall-observer"}}
	h.create(mall)
	h.create(&api.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-2"}, Spec: api.MachineSpec{ClusterName: "mall", NodeName: "n-2"}})
	read := func() policy.Cell {
		good := h.good(r)
		require.Empty(t, good.Err)
		if good.Name != "" {
			require.NotNil(t, r.Live(t.Context(), []policy.Cell{good}, []policy.NodeRef{{Cell: "good", Cluster: "mall", Node: "n-2"}}))
		}
		return good
	}
	require.NotContains(t, read().PausedClusters, "mall")
	cells, clusters := r.Kept()
	require.Equal(t, 3, cells)
	require.Equal(t, 1, clusters)

	require.NoError(t, h.Delete(t.Context(), mall))
	require.Contains(t, read().PausedClusters, "mall", "a cluster that is being deleted is like a paused one")

	require.NoError(t, h.Get(t.Context(), client.ObjectKeyFromObject(mall), mall))
	mall.Finalizers = nil
	require.NoError(t, h.Update(t.Context(), mall))
	testkit.Await(t, func() error {
		h.good(r)
		if _, clusters = r.Kept(); clusters > 0 {
			return fmt.Errorf("%d clients of clusters are kept", clusters)
		}
		return nil
	})

	cell := &api.Cell{ObjectMeta: metav1.ObjectMeta{Name: "good"}}
	require.NoError(t, h.Get(t.Context(), client.ObjectKeyFromObject(cell), cell))
	cell.Finalizers = []string{"pharos.dev/test"}
	require.NoError(t, h.Update(t.Context(), cell))
	require.NoError(t, h.Delete(t.Context(), cell))
	require.True(t, read().Paused, "a cell that is being deleted is like a paused one")
	require.NoError(t, h.Get(t.Context(), client.ObjectKeyFromObject(cell), cell))
	cell.Finalizers = nil
	require.NoError(t, h.Update(t.Context(), cell))
	require.Empty(t, read().Name)
	cells, _ = r.Kept()
	require.Equal(t, 2, cells)
}

func TestNewRefuses(t *testing.T) {
	two := centrals(t, "http://127.0.0.1:1", "http://127.0.0.1:2")
	for name, tc := range map[string]struct {
		options signal.Options
		message string
	}{
		"no central":     {signal.Options{}, "0 centrals given"},
		"one central":    {signal.Options{Centrals: two[:1]}, "1 centrals given, repairs need the agreement of two"},
		"one name twice": {signal.Options{Centrals: []signal.Central{two[0], two[0]}}, "a name of its own"},
		"no hub":         {signal.Options{Centrals: two}, "the hub's client and namespace"},
	} {
		_, err := signal.New(tc.options)
		require.ErrorContains(t, err, tc.message, name)
	}
}
