package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// fleet is one cell with one business cluster of four racks of five. Hub, cell
// and business cluster are one real API server, told apart by their objects.
type fleet struct {
	t        *testing.T
	config   *rest.Config
	client   client.WithWatch
	centrals map[string]*central
	// born are the versions of the machines and nodes that no test has touched yet.
	born map[string]string
}

const (
	hubNamespace  = "pharos-system"
	cellNamespace = "fleet"
	cellName      = "asia-1"
	clusterName   = "shop"
	sick          = "shop-node-07"
)

func newFleet(t *testing.T, config *rest.Config) *fleet {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	f := &fleet{t: t, config: config, client: c, centrals: map[string]*central{"central-a": newCentral(t, "a"), "central-b": newCentral(t, "b")}}
	t.Cleanup(f.clear)
	f.namespace(hubNamespace)
	f.namespace(cellNamespace)
	f.namespace(corev1.NamespaceNodeLease)
	kubeconfig := map[string][]byte{kube.SecretKeyKubeconfig: kubeconfigOf(t, config)}
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: "asia-1-remediator"}, Data: kubeconfig})
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cellNamespace, Name: "shop-observer"}, Data: kubeconfig})
	f.create(&api.Cell{ObjectMeta: metav1.ObjectMeta{Name: cellName}, Spec: api.CellSpec{
		Geography: "asia", Region: "asia-east", KubeconfigSecret: "unused", RemediatorKubeconfigSecret: "asia-1-remediator"}})
	f.create(&api.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cellNamespace, Name: clusterName}, Spec: api.ClusterSpec{ObserverKubeconfigSecret: "shop-observer"}})
	f.create(policyOf("nodes"))
	f.addMachines()
	return f
}

func policyOf(name string) *api.RemediationPolicy {
	return &api.RemediationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.RemediationPolicySpec{
		Mode: api.ModeAct, MatchAll: api.MatchAllMachines, UnhealthySeconds: ptr.To(int32(60))}}
}

func (f *fleet) namespace(name string) {
	err := f.client.Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(f.t, err)
	}
}

func (f *fleet) create(o client.Object) { require.NoError(f.t, f.client.Create(f.t.Context(), o)) }

// addMachines makes what is missing of the twenty machines and their nodes: most
// tests break one, and making all of them anew took most of the time of every test.
func (f *fleet) addMachines() {
	there := f.versions(f.t.Context())
	for i := range 20 {
		name := fmt.Sprintf("shop-node-%02d", i)
		if _, ok := there["Machine "+name]; !ok {
			f.create(&api.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cellNamespace, Name: name}, Spec: api.MachineSpec{
				ClusterName: clusterName, NodeName: name, Pool: "workers", HardwareID: "hw-" + name, ProviderID: "kwok://" + name,
				FailureDomain: api.FailureDomain{Zone: "zone-a", Rack: fmt.Sprintf("rack-%d", i/5+1)}}})
		}
		if _, ok := there["Node "+name]; !ok {
			f.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "kwok://" + name}})
			f.setNode(name, corev1.ConditionTrue, time.Hour, "boot-1")
		}
		f.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
			Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: ptr.To(metav1.NowMicro())}})
	}
	f.born = f.versions(f.t.Context())
}

// versions are the resource versions of all machines and nodes, by kind and name.
func (f *fleet) versions(ctx context.Context) map[string]string {
	var machines api.MachineList
	var nodes corev1.NodeList
	require.NoError(f.t, f.client.List(ctx, &machines))
	require.NoError(f.t, f.client.List(ctx, &nodes))
	out := map[string]string{}
	for _, m := range machines.Items {
		out["Machine "+m.Name] = m.ResourceVersion
	}
	for _, n := range nodes.Items {
		out["Node "+n.Name] = n.ResourceVersion
	}
	return out
}

func (f *fleet) setNode(name string, ready corev1.ConditionStatus, since time.Duration, boot string) {
	var n corev1.Node
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Name: name}, &n))
	at := metav1.NewTime(time.Now().Add(-since))
	n.Status.NodeInfo.BootID = boot
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: at, LastHeartbeatTime: at}}
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), &n))
}

func (f *fleet) renew(name string, ago time.Duration) {
	var l coordinationv1.Lease
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, &l))
	l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-ago)))
	require.NoError(f.t, f.client.Update(f.t.Context(), &l))
}

// fail lets a kubelet be dead for ten minutes, and both centrals say so.
func (f *fleet) fail(name string) {
	f.setNode(name, corev1.ConditionUnknown, 10*time.Minute, "boot-1")
	f.renew(name, 11*time.Minute)
	for _, c := range f.centrals {
		c.list(name, 2*time.Second)
	}
}

// reboot plays the site: the node is Ready again, with another boot id.
func (f *fleet) reboot(name string) {
	f.setNode(name, corev1.ConditionTrue, time.Second, "boot-2")
	f.renew(name, time.Second)
}

// answer plays the node operator.
func (f *fleet) answer(name string, phase api.RepairPhase) {
	m := f.machine(name)
	require.NotNil(f.t, m.Spec.Remediation)
	m.Status.Remediation = &api.RemediationResponse{ID: m.Spec.Remediation.ID, Phase: phase}
	m.Status.RemediationEpoch = m.Spec.Remediation.Epoch
	if phase != api.RepairRunning {
		m.Status.Remediation.FinishedAt = ptr.To(metav1.Now())
	}
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), m))
}

func (f *fleet) machine(name string) *api.Machine {
	var m api.Machine
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: cellNamespace, Name: name}, &m))
	return &m
}

func (f *fleet) policy() *api.RemediationPolicy {
	var p api.RemediationPolicy
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Name: "nodes"}, &p))
	return &p
}

func (f *fleet) remediations() []api.Remediation {
	var list api.RemediationList
	require.NoError(f.t, f.client.List(f.t.Context(), &list))
	return list.Items
}

// one is the only record there is.
func (f *fleet) one() api.Remediation {
	all := f.remediations()
	require.Len(f.t, all, 1)
	return all[0]
}

// untouched means that no machine bears a request.
func (f *fleet) untouched() {
	var list api.MachineList
	require.NoError(f.t, f.client.List(f.t.Context(), &list))
	for _, m := range list.Items {
		require.Nil(f.t, m.Spec.Remediation, m.Name)
	}
}

// hold is the one hold in the policy's status.
func (f *fleet) hold() string {
	holds := f.policy().Status.Holds
	require.Len(f.t, holds, 1)
	require.NotEmpty(f.t, holds[0].Message)
	return holds[0].Machine + " " + holds[0].Reason
}

func (f *fleet) annotate(o client.Object, key, value string) {
	before := o.DeepCopyObject().(client.Object)
	o.SetAnnotations(map[string]string{key: value})
	require.NoError(f.t, f.client.Patch(f.t.Context(), o, client.MergeFrom(before)))
}

// clear leaves the server without a trace of this test, for the next one.
func (f *fleet) clear() {
	ctx := context.Background()
	f.clearTouched(ctx)
	for _, o := range []client.Object{&api.Remediation{}, &api.RemediationPolicy{}, &api.FleetDisruptionBudget{}, &api.Incident{}, &api.Cell{}} {
		require.NoError(f.t, f.client.DeleteAllOf(ctx, o))
	}
	for _, o := range []client.Object{&api.Cluster{}, &corev1.Secret{}} {
		require.NoError(f.t, f.client.DeleteAllOf(ctx, o, client.InNamespace(cellNamespace)))
	}
	require.NoError(f.t, f.client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(hubNamespace)))
	require.NoError(f.t, f.client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(hubNamespace)))
	require.NoError(f.t, f.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(api.NodeCheckNamespace), client.GracePeriodSeconds(0)))
	require.NoError(f.t, f.client.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(corev1.NamespaceNodeLease)))
	require.NoError(f.t, f.client.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(hubNamespace)))
}

// clearTouched removes every machine and node that is not as it was made.
func (f *fleet) clearTouched(ctx context.Context) {
	for name, version := range f.versions(ctx) {
		if version == f.born[name] {
			continue
		}
		kind, name, _ := strings.Cut(name, " ")
		var o client.Object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if kind == "Machine" {
			o = &api.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cellNamespace, Name: name}}
		}
		require.NoError(f.t, f.client.Delete(ctx, o))
	}
}

func (f *fleet) options() Options {
	urls := map[string]string{}
	for name, c := range f.centrals {
		urls[name] = c.server.URL
	}
	return Options{Hub: f.config, Centrals: urls, Listen: "127.0.0.1:0", Interval: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(f.t.Output(), nil))}
}

// start is a remediator that leads and whose rounds the test runs by hand.
func (f *fleet) start() *Controller {
	c, err := New(f.options())
	require.NoError(f.t, err)
	f.lead(c)
	f.serve(c)
	return c
}

// lead gives the Lease to a remediator, for an hour and whoever had it.
func (f *fleet) lead(c *Controller) {
	lock, now := c.lock(), metav1.Now()
	record := resourcelock.LeaderElectionRecord{HolderIdentity: c.options.Identity, LeaseDurationSeconds: 3600, AcquireTime: now, RenewTime: now}
	held, _, err := lock.Get(f.t.Context())
	if apierrors.IsNotFound(err) {
		require.NoError(f.t, lock.Create(f.t.Context(), record))
		return
	}
	require.NoError(f.t, err)
	record.LeaderTransitions = held.LeaderTransitions + 1
	require.NoError(f.t, lock.Update(f.t.Context(), record))
}

// serve answers for metrics and health; the listener is closed by a server that runs.
func (f *fleet) serve(c *Controller) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.server.Run(ctx) }()
	c.startEvents()
	f.t.Cleanup(func() {
		c.reader.Close()
		c.events.Shutdown()
		cancel()
		require.NoError(f.t, <-done)
	})
}

func (f *fleet) round(c *Controller) {
	f.caughtUp(c)
	_, err := c.round(f.t.Context())
	require.NoError(f.t, err)
}

func kubeconfigOf(t *testing.T, c *rest.Config) []byte {
	t.Helper()
	out, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	return out
}

// central answers as a Prometheus whose samples have the ages that the test wants.
type central struct {
	server  *httptest.Server
	mu      sync.Mutex
	replica string
	clock   time.Duration // ahead of ours
	down    bool
	beat    time.Duration
	up      string
	listed  map[string]time.Duration
}

func newCentral(t *testing.T, replica string) *central {
	c := &central{replica: replica, beat: 2 * time.Second, up: "1", listed: map[string]time.Duration{}}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c
}

func (c *central) set(change func(c *central)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *central) list(node string, age time.Duration) {
	c.set(func(c *central) { c.listed[node] = age })
}

func (c *central) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		http.Error(w, "starting up", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Date", time.Now().Add(c.clock).UTC().Format(http.TimeFormat))
	if strings.HasSuffix(r.URL.Path, "/status/config") {
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"yaml":"global: {external_labels: {central_replica: %s}}"}}`, c.replica)
		return
	}
	selector, stamps := strings.CutPrefix(r.FormValue("query"), "timestamp(")
	selector = strings.TrimSuffix(selector, ")")
	var series []string
	add := func(labels, value string, age time.Duration) {
		at := fmt.Sprintf("%.3f", float64(time.Now().Add(-age).UnixMilli())/1000)
		switch {
		case stamps || value == "at":
			value = at
		default:
			labels = `"__name__":"` + selector + `",` + labels
		}
		series = append(series, fmt.Sprintf(`{"metric":{%s},"value":[%d,"%s"]}`, labels, time.Now().Unix(), value))
	}
	switch selector {
	case "cell:heartbeat:timestamp_seconds":
		add(`"cell":"asia-1"`, "at", c.beat)
	case "cluster:up:min":
		add(`"cell":"asia-1","cluster":"shop"`, c.up, c.beat)
	case "node:unhealthy:info":
		for node, age := range c.listed {
			add(`"cell":"asia-1","cluster":"shop","node":"`+node+`","reason":"Unknown"`, "1", age)
		}
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(series, ","))
}
