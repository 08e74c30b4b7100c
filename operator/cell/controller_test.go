package cell

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/version"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// The life of one Cell; each step finds the world as the last left it.
func TestReconciler(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *world)
	}{
		{"unknown geography", unknownGeography},
		{"missing kubeconfig", missingKubeconfig},
		{"broken kubeconfig", brokenKubeconfig},
		{"objects of others are in the way", refusesTheirs},
		{"applies every part", appliesEveryPart},
		{"changes nothing twice", changesNothingTwice},
		{"reports the edge", reportsTheEdge},
		{"a second Cell for the cluster", refusesTheSecond},
		{"a Cell of the same name in another hub", refusesTheNamesake},
		{"keeps a dead edge's address", keepsDeadEdge},
		{"another geography restarts nothing", goesElsewhere},
		{"invalid changes nothing", invalidChangesNothing},
		{"no node operator without a Job", noNodeOperator},
		{"an external edge", externalEdge},
		{"an endpoint of another cell", endpointOfAnother},
		{"the kubeconfig was revoked", revoked},
		{"unreachable", unreachable},
		{"a hanging cell is given up on", hanging},
		{"an unreachable cell is not let go", notLetGo},
		{"leaves nothing behind", leavesNothing},
		{"an abandoned cell is let go", abandoned},
		{"two Cells at once", twoAtOnce},
		{"rights in the cell are narrow", rightsAreNarrow},
	} {
		require.True(t, t.Run(step.name, func(t *testing.T) { step.run(t, w) }), "the steps after it would not mean anything")
	}
}

func unknownGeography(t *testing.T, w *world) {
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "waiting for a Federation")
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "europe"}}},
	})
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, `spec.geography: "asia" is none of Federation fleet, which has europe`)
	f := &v1alpha1.Federation{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: "fleet"}, f))
	f.Spec.Geographies = append(f.Spec.Geographies, v1alpha1.Geography{Name: "asia"})
	require.NoError(t, w.Admin.Update(t.Context(), f))
}

func missingKubeconfig(t *testing.T, w *world) {
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "spec.kubeconfigSecret: there is no Secret pharos-system/asia-1")
}

func brokenKubeconfig(t *testing.T, w *world) {
	w.secret(t, "asia-1", "")
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "key kubeconfig: is empty")
	w.secret(t, "asia-1", w.kubeconfig(t, "https://127.0.0.1:1", "x")+"\nusers: [{name: u, user: {tokenFile: /etc/passwd}}]")
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "spec.kubeconfigSecret")
}

func appliesEveryPart(t *testing.T, w *world) {
	w.secret(t, "asia-1", w.access)
	w.reconcile(t, "asia-1")
	c := w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "edge")
	require.Contains(t, c.Finalizers, Finalizer)
	require.Empty(t, c.Status.EdgeEndpoints)
	require.Len(t, c.Status.Parts, 3)

	edge := w.StatefulSet(t, "edge")
	require.Equal(t, workload.DefaultPrometheusImage, edge.Spec.Template.Spec.Containers[0].Image)
	require.Equal(t, "edge", edge.Spec.Template.Spec.ServiceAccountName)
	for label, value := range map[string]string{
		v1alpha1.LabelComponent: "edge", v1alpha1.LabelManagedBy: "pharos", "app.kubernetes.io/name": "prometheus",
		v1alpha1.LabelCell: "asia-1", v1alpha1.LabelReplica: "a",
	} {
		require.Equal(t, value, edge.Spec.Template.Labels[label], label)
	}
	config := w.ConfigMap(t, "edge").Data["prometheus.yml"]
	agent := &corev1.Service{}
	require.NoError(t, w.Admin.Get(t.Context(), testkit.Key("edge-agent"), agent))
	require.Contains(t, config, "http://"+agent.Spec.ClusterIP+":9096/sd/kube-apiserver")
	require.Contains(t, config, "cell: asia-1")

	require.Equal(t, []string{"edge-agent", "--listen=$(POD_IP):9096"}, w.Deployment(t, "edge-agent").Spec.Template.Spec.Containers[0].Args)
	require.Equal(t, version.Image, w.Deployment(t, "edge-agent").Spec.Template.Spec.Containers[0].Image)
	require.Equal(t,
		[]string{"machine-operator", "--listen=$(POD_IP):8082", "--namespace=$(POD_NAMESPACE)", "--job-config-map=repair-job"},
		w.Deployment(t, "machine-operator").Spec.Template.Spec.Containers[0].Args)
}

func changesNothingTwice(t *testing.T, w *world) {
	before := w.versions(t)
	w.reconcile(t, "asia-1")
	require.Equal(t, before, w.versions(t))
}

func reportsTheEdge(t *testing.T, w *world) {
	w.RunPod(t, w.StatefulSet(t, "edge").Spec.Template, "edge-0", "127.94.0.1")
	w.settle(t)
	w.reconcile(t, "asia-1")
	require.Equal(t, []string{"127.94.0.1:9090"}, w.Cell(t, "asia-1").Status.EdgeEndpoints, "the address is known before the pod is ready")
	w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "edge")

	w.SetReady(t, "edge-0")
	w.RunPod(t, w.Deployment(t, "edge-agent").Spec.Template, "edge-agent-x", "127.94.0.2")
	w.SetReady(t, "edge-agent-x")
	w.RunPod(t, w.Deployment(t, "machine-operator").Spec.Template, "machine-operator-x", "127.94.0.3")
	w.SetReady(t, "machine-operator-x")
	w.reconcile(t, "asia-1")
	c := w.requireReason(t, "asia-1", v1alpha1.ReasonAvailable, "")
	require.True(t, meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady))
}

func keepsDeadEdge(t *testing.T, w *world) {
	require.NoError(t, w.Admin.Delete(t.Context(), w.Pod(t, "edge-0"), client.GracePeriodSeconds(0)))
	w.reconcile(t, "asia-1")
	c := w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "waiting for edge")
	require.Equal(t, []string{"127.94.0.1:9090"}, c.Status.EdgeEndpoints)

	w.RunPod(t, w.StatefulSet(t, "edge").Spec.Template, "edge-0", "127.94.0.7")
	w.SetReady(t, "edge-0")
	w.reconcile(t, "asia-1")
	require.Equal(t, []string{"127.94.0.7:9090"}, w.Cell(t, "asia-1").Status.EdgeEndpoints)
}

// A geography is renamed: all of its cells name another one at once. Their objects are of
// that, and so is what edges write; their pods go on.
func goesElsewhere(t *testing.T, w *world) {
	edge, agent := w.StatefulSet(t, "edge"), w.Deployment(t, "edge-agent")
	require.Equal(t, "asia", edge.Labels[v1alpha1.LabelGeography])
	c := w.Cell(t, "asia-1")
	c.Spec.Geography = "europe"
	require.NoError(t, w.Admin.Update(t.Context(), c))
	w.reconcile(t, "asia-1")
	require.Equal(t, "europe", w.StatefulSet(t, "edge").Labels[v1alpha1.LabelGeography])
	require.Equal(t, "europe", w.Deployment(t, "edge-agent").Labels[v1alpha1.LabelGeography])
	require.Contains(t, w.ConfigMap(t, "edge").Data["prometheus.yml"], "geography: europe")
	require.Equal(t, edge.Spec, w.StatefulSet(t, "edge").Spec, "the edge is restarted")
	require.Equal(t, agent.Spec, w.Deployment(t, "edge-agent").Spec, "the agent is restarted")

	c = w.Cell(t, "asia-1")
	c.Spec.Geography = "asia"
	require.NoError(t, w.Admin.Update(t.Context(), c))
	w.reconcile(t, "asia-1")
	w.settle(t)
	w.reconcile(t, "asia-1")
}

func invalidChangesNothing(t *testing.T, w *world) {
	before := w.versions(t)
	c := w.Cell(t, "asia-1")
	c.Spec.Network.APIServerURL = "https://[broken"
	c.Spec.Region = "elsewhere"
	require.NoError(t, w.Admin.Update(t.Context(), c))
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "API server URL")
	delete(before, "Cell asia-1")
	after := w.versions(t)
	delete(after, "Cell asia-1")
	require.Equal(t, before, after, "an invalid spec touched what runs")

	c = w.Cell(t, "asia-1")
	c.Spec.Network.APIServerURL, c.Spec.Region = "", "east"
	require.NoError(t, w.Admin.Update(t.Context(), c))
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonAvailable, "")
}

func noNodeOperator(t *testing.T, w *world) {
	c := w.Cell(t, "asia-1")
	c.Spec.RepairJobConfigMap = ""
	require.NoError(t, w.Admin.Update(t.Context(), c))
	w.reconcile(t, "asia-1")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("machine-operator"), &appsv1.Deployment{})))
	require.Len(t, w.Cell(t, "asia-1").Status.Parts, 2)
}

func externalEdge(t *testing.T, w *world) {
	c := w.Cell(t, "asia-1")
	c.Spec.Edge = v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, Endpoints: []string{"10.0.0.2:9090", "10.0.0.1:9090"}}
	require.NoError(t, w.Admin.Update(t.Context(), c))
	w.reconcile(t, "asia-1")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("edge"), &appsv1.StatefulSet{})))
	require.Contains(t, w.ConfigMap(t, "edge").Data, "agent.scrape.yaml")
	require.NotContains(t, w.ConfigMap(t, "edge").Data, "prometheus.yml", "its configuration is somebody else's")
	w.Deployment(t, "edge-agent")
	require.ElementsMatch(t, c.Spec.Edge.Endpoints, w.Cell(t, "asia-1").Status.EdgeEndpoints)
}

// What the Federation leaves out says so itself.
func endpointOfAnother(t *testing.T, w *world) {
	older := w.Cell(t, "alpha")
	older.Status.EdgeEndpoints = []string{"10.0.0.2:9090"}
	require.NoError(t, w.Admin.Status().Update(t.Context(), older))
	w.reconcile(t, "asia-1")
	c := w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, `endpoint 10.0.0.2:9090 of the edge belongs to Cell "alpha"`)
	require.Len(t, c.Status.EdgeEndpoints, 2)
	w.Deployment(t, "edge-agent")
	require.NoError(t, w.Admin.Delete(t.Context(), older))
	w.reconcile(t, "asia-1")
	require.NotContains(t, meta.FindStatusCondition(w.Cell(t, "asia-1").Status.Conditions, v1alpha1.ConditionReady).Message, "belongs")
}

// A cell that answers no is not one that does not answer.
func revoked(t *testing.T, w *world) {
	w.secret(t, "asia-1", w.kubeconfig(t, w.Config.Host, "no-such-token"))
	_, err := w.tryReconcile(t, "asia-1")
	require.Error(t, err)
	w.requireReason(t, "asia-1", v1alpha1.ReasonApplyFailed, "asking which cluster this is (namespace kube-system): Unauthorized")
	w.secret(t, "asia-1", w.access)
	w.reconcile(t, "asia-1")
}

func unreachable(t *testing.T, w *world) {
	parts := w.Cell(t, "asia-1").Status.Parts
	w.secret(t, "asia-1", w.kubeconfig(t, "https://127.0.0.1:1", "x"))
	_, err := w.tryReconcile(t, "asia-1")
	require.Error(t, err, "an error is what makes the next try come later")
	c := w.requireReason(t, "asia-1", v1alpha1.ReasonUnreachable, "did not answer")
	require.Equal(t, parts, c.Status.Parts, "what is not seen is not known to have changed")
	require.Contains(t, testkit.Told(w.recorder), v1alpha1.ReasonUnreachable)
}

// A server that takes connections and never answers is the worst of them.
func hanging(t *testing.T, w *world) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	w.secret(t, "asia-1", w.kubeconfig(t, "https://"+l.Addr().String(), "x"))
	patient := w.r.cells.clients
	w.r.cells.clients = newClients(300 * time.Millisecond)
	defer func() { w.r.cells.clients = patient }()
	start := time.Now()
	_, err = w.tryReconcile(t, "asia-1")
	require.Error(t, err)
	require.Less(t, time.Since(start), 3*time.Second, "more than one call was waited for")
	w.requireReason(t, "asia-1", v1alpha1.ReasonUnreachable, "did not answer")
}

func notLetGo(t *testing.T, w *world) {
	w.secret(t, "asia-1", w.kubeconfig(t, "https://127.0.0.1:1", "x"))
	require.NoError(t, w.Admin.Delete(t.Context(), w.Cell(t, "asia-1")))
	_, err := w.tryReconcile(t, "asia-1")
	require.Error(t, err)
	w.requireReason(t, "asia-1", v1alpha1.ReasonUnreachable, "annotate the Cell with pharos.dev/abandon=true")
}

func leavesNothing(t *testing.T, w *world) {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "repair-job"}}
	w.Create(t, theirs)
	w.secret(t, "asia-1", w.access)
	w.reconcile(t, "asia-1")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), client.ObjectKey{Name: "asia-1"}, &v1alpha1.Cell{})))
	for _, list := range kinds() {
		require.NoError(t, w.Admin.List(t.Context(), list, client.HasLabels{v1alpha1.LabelCell}))
		require.Zero(t, meta.LenList(list), "%T", list)
	}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs), "the site's own was taken away")
	require.Zero(t, w.r.cells.clients.Len(), "a connection to a cell that is gone is kept")
	w.reconcile(t, "asia-1")
}

func abandoned(t *testing.T, w *world) {
	w.newCell(t, "lost")
	w.secret(t, "lost", w.kubeconfig(t, "https://127.0.0.1:1", "x"))
	_, err := w.tryReconcile(t, "lost")
	require.Error(t, err)
	c := w.Cell(t, "lost")
	c.Annotations = map[string]string{AnnotationAbandon: "true"}
	require.NoError(t, w.Admin.Update(t.Context(), c))
	require.NoError(t, w.Admin.Delete(t.Context(), c))
	w.reconcile(t, "lost")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), client.ObjectKey{Name: "lost"}, &v1alpha1.Cell{})))
}

func rightsAreNarrow(t *testing.T, w *world) {
	w.newCell(t, "narrow")
	w.secret(t, "narrow", w.access)
	remote, err := w.r.cells.to(t.Context(), w.Cell(t, "narrow"))
	require.NoError(t, err)
	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	require.True(t, apierrors.IsForbidden(remote.Create(t.Context(), elsewhere)))
	full, err := client.New(w.remoteConfig(t), client.Options{Scheme: w.Admin.Scheme()})
	require.NoError(t, err)
	require.True(t, apierrors.IsForbidden(full.List(t.Context(), &corev1.SecretList{}, client.InNamespace(deploy.Namespace))))
	require.True(t, apierrors.IsForbidden(full.List(t.Context(), &v1alpha1.MachineList{})))
}

func TestNewRefuses(t *testing.T) {
	_, err := New(workload.Options{})
	require.ErrorContains(t, err, "required")
}

func (w *world) tryReconcile(t *testing.T, name string) (ctrl.Result, error) {
	t.Helper()
	return w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
}

func (w *world) reconcile(t *testing.T, name string) {
	t.Helper()
	_, err := w.tryReconcile(t, name)
	require.NoError(t, err)
}

func (w *world) requireReason(t *testing.T, name, reason, text string) *v1alpha1.Cell {
	t.Helper()
	c := w.Cell(t, name)
	testkit.RequireReady(t, c.Status.Conditions, reason, text)
	require.Equal(t, c.Generation, meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady).ObservedGeneration)
	return c
}
