package operator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/version"
)

const (
	patience = 30 * time.Second
	site     = `
apiVersion: batch/v1
kind: Job
spec: {template: {spec: {restartPolicy: Never, containers: [{name: repair, image: example.org/repair:1}]}}}
`
)

// Both programs run as in production: real caches, a Lease, and the rights of
// their accounts alone.
func TestPrograms(t *testing.T) {
	config := testkit.APIServer(t)
	admin, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	hub, err := deploy.Hub(version.Image)
	require.NoError(t, err)
	cell, err := deploy.Cell()
	require.NoError(t, err)
	clusters, err := deploy.ClusterNamespace("fleet")
	require.NoError(t, err)
	create(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}})
	var objects []*unstructured.Unstructured
	objects = append(append(append(objects, hub...), cell[1:]...), clusters...)
	for _, o := range objects {
		create(t, admin, o)
	}
	t.Run("node operator", func(t *testing.T) { nodeOperatorRepairs(t, config, admin) })
	t.Run("node operator, clusters that hang", func(t *testing.T) { hangingClustersDelayNobody(t, config, admin) })
	t.Run("hub operator", func(t *testing.T) {
		hangingCellsSlowNobody(t, config, admin)
		ownRulesReachEveryTier(t, admin)
	})
}

func nodeOperatorRepairs(t *testing.T, config *rest.Config, admin client.Client) {
	create(t, admin, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "repair-job"}, Data: map[string]string{"job.yaml": site},
	})
	o, err := NewMachine(Options{
		Config: testkit.As(config, "machine-operator"), Listen: "127.0.0.1:0", Namespace: deploy.Namespace,
		JobConfigMap: "repair-job", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	run(t, o)
	create(t, admin, clusterOf("shop", "shop-observer"))
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"},
		Spec: v1alpha1.MachineSpec{ClusterName: "shop", Remediation: &v1alpha1.RemediationRequest{
			ID: "r-1", Action: v1alpha1.ActionReboot,
			StartBefore: metav1.NewTime(time.Now().Add(time.Minute)), Deadline: metav1.NewTime(time.Now().Add(time.Hour)),
		}},
	}
	create(t, admin, m)
	require.Eventually(t, func() bool {
		return admin.Get(t.Context(), client.ObjectKeyFromObject(m), m) == nil &&
			m.Status.Remediation != nil && m.Status.Remediation.Phase == v1alpha1.RepairRunning
	}, patience, 50*time.Millisecond)

	job := &batchv1.Job{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "repair-r-1"}, job))
	at := metav1.Now()
	job.Status = batchv1.JobStatus{StartTime: &at, CompletionTime: &at, Succeeded: 1}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
	require.NoError(t, admin.Status().Update(t.Context(), job))
	require.Eventually(t, func() bool {
		return admin.Get(t.Context(), client.ObjectKeyFromObject(m), m) == nil && m.Status.Remediation.Phase == v1alpha1.RepairSucceeded
	}, patience, 50*time.Millisecond, "the end of a Job wakes the node operator")

	require.Eventually(t, func() bool {
		var events eventsv1.EventList
		require.NoError(t, admin.List(t.Context(), &events, client.InNamespace("fleet")))
		reasons := map[string]bool{}
		for _, e := range events.Items {
			reasons[e.Reason] = true
		}
		return reasons["RepairRunning"] && reasons["RepairSucceeded"]
	}, patience, 50*time.Millisecond, "the events must reach the API server")

	page := get(t, o, "/metrics")
	require.Contains(t, page, `pharos_machine_operator_repairs_total{phase="Succeeded"} 1`)
	require.Contains(t, page, "controller_runtime_reconcile_total")
	require.NotContains(t, page, "m-1", "a metric must not name machines")
	require.Equal(t, "ok\n", get(t, o, "/readyz"))
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: deploy.Namespace, Name: "machine-operator"}, &coordinationv1.Lease{}))
}

// Forty clusters whose API servers take connections and never answer, and one
// that answers: the one is looked at all the same. A Secret that comes to be is
// found without an event.
func hangingClustersDelayNobody(t *testing.T, config *rest.Config, admin client.Client) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	owner := clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	answering, hanging := kubeconfig(t, "answering", config.Host, config.CAData, owner), kubeconfig(t, "hanging", "https://"+l.Addr().String(), config.CAData, owner)
	late := kubeconfig(t, "shop-observer", config.Host, config.CAData, owner)
	answering.Namespace, hanging.Namespace, late.Namespace = "fleet", "fleet", "fleet"
	create(t, admin, answering)
	create(t, admin, hanging)
	for i := range 40 {
		create(t, admin, clusterOf(fmt.Sprintf("hanging-%02d", i), "hanging"))
	}
	o, err := NewMachine(Options{
		Config: testkit.As(config, "machine-operator"), Listen: "127.0.0.1:0", Namespace: deploy.Namespace,
		JobConfigMap: "repair-job", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	run(t, o)
	require.Eventually(t, func() bool { return look(t, admin, "hanging-00").Reason == v1alpha1.ReasonUnreachable }, patience, 100*time.Millisecond)

	create(t, admin, clusterOf("answering", "answering"))
	require.Eventually(t, func() bool { return look(t, admin, "answering").Status == metav1.ConditionTrue },
		15*time.Second, 100*time.Millisecond, "a cluster that answers waited for those that do not")

	require.Equal(t, v1alpha1.ReasonKubeconfigMissing, look(t, admin, "shop").Reason)
	create(t, admin, late)
	require.Eventually(t, func() bool { return look(t, admin, "shop").Status == metav1.ConditionTrue }, patience, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		var events eventsv1.EventList
		require.NoError(t, admin.List(t.Context(), &events, client.InNamespace("fleet")))
		return slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Kind == "Cluster" && e.Regarding.Name == "shop" && e.Reason == v1alpha1.ReasonAPIServerReady
		})
	}, patience, 100*time.Millisecond, "the events must reach the API server")

	page := get(t, o, "/metrics")
	require.Contains(t, page, `pharos_cluster_looks_total{reason="Unreachable"}`)
	require.NotContains(t, page, "hanging-00", "a metric must not name clusters")
}

// look is the condition Ready of a Cluster in fleet, empty where there is none.
func look(t *testing.T, admin client.Client, name string) metav1.Condition {
	t.Helper()
	c := &v1alpha1.Cluster{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: name}, c))
	if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return *ready
	}
	return metav1.Condition{}
}

// Forty cells that take connections and never answer, and one that does: the
// one is looked after all the same.
func hangingCellsSlowNobody(t *testing.T, config *rest.Config, admin client.Client) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	create(t, admin, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	})
	create(t, admin, kubeconfig(t, "hanging", "https://"+l.Addr().String(), config.CAData, clientcmdapi.AuthInfo{Token: "x"}))
	create(t, admin, kubeconfig(t, "answering", config.Host, config.CAData, clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}))
	for i := range 40 {
		create(t, admin, cellOf(fmt.Sprintf("hanging-%02d", i), "hanging"))
	}
	o, err := NewHub(Options{
		Config: testkit.As(config, "operator"), Listen: "127.0.0.1:0", Namespace: deploy.Namespace, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	run(t, o)
	require.Eventually(t, func() bool { return reason(t, admin, "hanging-00") == v1alpha1.ReasonUnreachable }, patience, 100*time.Millisecond)

	create(t, admin, cellOf("answering", "answering"))
	require.Eventually(t, func() bool { return reason(t, admin, "answering") == v1alpha1.ReasonProgressing },
		15*time.Second, 100*time.Millisecond, "a cell that answers waited for those that do not")

	f := &v1alpha1.Federation{}
	require.Eventually(t, func() bool {
		require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "fleet"}, f))
		return f.Status.Cells == 41
	}, patience, 100*time.Millisecond)
	require.Contains(t, get(t, o, "/metrics"), `pharos_cell_reports_total{reason="Unreachable"}`)
}

func TestProgramsRefuse(t *testing.T) {
	_, err := NewHub(Options{})
	require.ErrorContains(t, err, "no API server given")
	_, err = NewMachine(Options{})
	require.ErrorContains(t, err, "no ConfigMap of the repair Job given")
}

// A port that is taken is told at once.
func TestListenRefusesATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	_, err = NewHub(Options{
		Config: &rest.Config{Host: "https://127.0.0.1:1"}, Listen: l.Addr().String(), Namespace: "x", Log: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, l.Addr().String())
}

// run starts the program and waits at the end that it has ended well.
func run(t *testing.T, o *Operator) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(patience):
			require.Fail(t, "the program did not end")
		}
	})
	require.Eventually(t, func() bool { return o.ready() == nil }, patience, 50*time.Millisecond)
}

func get(t *testing.T, o *Operator, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+o.server.Addr().String()+path, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return string(body)
}

func create(t *testing.T, admin client.Client, o client.Object) {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), o), "%T %s", o, o.GetName())
}

func clusterOf(name, secret string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}, Spec: v1alpha1.ClusterSpec{ObserverKubeconfigSecret: secret},
	}
}

func cellOf(name, secret string) *v1alpha1.Cell {
	return &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.CellSpec{Geography: "asia", Region: "east", KubeconfigSecret: secret},
	}
}

func kubeconfig(t *testing.T, name, server string, ca []byte, user clientcmdapi.AuthInfo) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name},
		Data:       map[string][]byte{kube.SecretKeyKubeconfig: []byte(testkit.Kubeconfig(t, server, ca, user))},
	}
}

func reason(t *testing.T, admin client.Client, name string) string {
	t.Helper()
	c := &v1alpha1.Cell{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: name}, c))
	if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}
