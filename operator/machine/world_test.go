package machine

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// world is a cell with Pharos' real rights in it. Each subtest has a machine
// of its own.
type world struct {
	admin client.Client
	// operator acts with the rights of the account machine-operator, and no more.
	operator client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := testkit.APIServer(t)
	w := &world{admin: newClient(t, config)}
	w.install(t)
	impersonated := rest.CopyConfig(config)
	impersonated.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":machine-operator",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	w.operator = newClient(t, impersonated)
	w.site(t, "repair-job", site)
	return w
}

func (w *world) install(t *testing.T) {
	t.Helper()
	cell, err := deploy.Cell()
	require.NoError(t, err)
	clusters, err := deploy.ClusterNamespace("fleet")
	require.NoError(t, err)
	require.NoError(t, w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}))
	require.NoError(t, w.admin.Create(t.Context(), clusterNamed("fleet", "shop")))
	for _, o := range append(cell, clusters...) {
		require.NoError(t, w.admin.Create(t.Context(), o), "%s %s", o.GetKind(), o.GetName())
	}
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	return c
}

func (w *world) site(t *testing.T, name, data string) {
	t.Helper()
	require.NoError(t, w.admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name},
		Data:       map[string]string{TemplateKey: data},
	}))
}

func clusterNamed(namespace, name string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.ClusterSpec{ObserverKubeconfigSecret: "shop-observer"},
	}
}

func machineAsking(namespace, name, id string, left time.Duration) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.MachineSpec{
			ClusterName: "shop", NodeName: name,
			Remediation: &v1alpha1.RemediationRequest{
				ID: id, Action: v1alpha1.ActionReboot,
				StartBefore: metav1.NewTime(time.Now().Add(left)), Deadline: metav1.NewTime(time.Now().Add(left + time.Hour)),
			},
		},
	}
}

func (w *world) machine(t *testing.T, name, id string, left time.Duration) client.ObjectKey {
	t.Helper()
	m := machineAsking("fleet", name, id, left)
	require.NoError(t, w.admin.Create(t.Context(), m))
	return client.ObjectKeyFromObject(m)
}

func (w *world) reconciler(t *testing.T, template string) *Reconciler {
	t.Helper()
	r, err := New(Options{
		Client: w.operator, Live: w.operator, Recorder: events.NewFakeRecorder(16),
		Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		Template: client.ObjectKey{Namespace: deploy.Namespace, Name: template},
	})
	require.NoError(t, err)
	return r
}

func reconcile(t *testing.T, r *Reconciler, key client.ObjectKey) {
	t.Helper()
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
}

func (w *world) get(t *testing.T, key client.ObjectKey) *v1alpha1.Machine {
	t.Helper()
	m := &v1alpha1.Machine{}
	require.NoError(t, w.admin.Get(t.Context(), key, m))
	return m
}

func (w *world) job(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: name}, j))
	return j
}

func (w *world) noJob(t *testing.T, name string) {
	t.Helper()
	err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: name}, &batchv1.Job{})
	require.True(t, apierrors.IsNotFound(err), "Job %s: %v", name, err)
}

// refused reconciles and wants a refusal that says the text, and no Job.
func (w *world) refused(t *testing.T, r *Reconciler, key client.ObjectKey, text string) {
	t.Helper()
	reconcile(t, r, key)
	m := w.get(t, key)
	require.NotNil(t, m.Status.Remediation)
	require.Equal(t, v1alpha1.RepairRefused, m.Status.Remediation.Phase)
	require.Equal(t, m.Spec.Remediation.ID, m.Status.Remediation.ID)
	require.Contains(t, m.Status.Remediation.Message, text)
	w.noJob(t, "repair-"+m.Spec.Remediation.ID)
	require.Equal(t, []string{"RepairRefused"}, reasons(r))
	reconcile(t, r, key)
	require.Equal(t, m.ResourceVersion, w.get(t, key).ResourceVersion, "a refusal was given twice")
}

// finish plays the Job controller.
func (w *world) finish(t *testing.T, job *batchv1.Job, end batchv1.JobConditionType) {
	t.Helper()
	at := metav1.Now()
	job.Status.StartTime = ptr.To(at)
	before, reason, message := batchv1.JobSuccessCriteriaMet, "CompletionsReached", "done"
	if end == batchv1.JobFailed {
		before, reason, message = batchv1.JobFailureTarget, "BackoffLimitExceeded", "the BMC did not answer"
	} else {
		job.Status.CompletionTime = ptr.To(at)
		job.Status.Succeeded = 1
	}
	for _, kind := range []batchv1.JobConditionType{before, end} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: at,
		})
	}
	require.NoError(t, w.admin.Status().Update(context.WithoutCancel(t.Context()), job))
}

func reasons(r *Reconciler) []string {
	var out []string
	recorder := r.recorder.(*events.FakeRecorder)
	for {
		select {
		case e := <-recorder.Events:
			out = append(out, reasonOf(e))
		default:
			return out
		}
	}
}

// reasonOf takes the reason out of "Normal Reason note".
func reasonOf(event string) string {
	return strings.Fields(event)[1]
}
