package machine

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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

func TestReconciler(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]func(*testing.T, *world){
		"repairs once":            repairsOnce,
		"reports failure":         reportsFailure,
		"refuses late":            refusesLate,
		"refuses broken site":     refusesBrokenSite,
		"refuses missing site":    refusesMissingSite,
		"refuses rejected Job":    refusesRejectedJob,
		"refuses foreign Job":     refusesForeignJob,
		"resumes after a crash":   resumesAfterCrash,
		"one Job at a time":       oneJobAtATime,
		"Job deleted midway":      jobDeletedMidway,
		"rights are narrow":       rightsAreNarrow,
		"holds without an answer": holdsWithoutRights,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

func repairsOnce(t *testing.T, w *world) {
	r, key := w.reconciler(t, "repair-job"), w.machine(t, "happy", "happy-1", time.Hour)
	reconcile(t, r, key)
	m := w.get(t, key)
	require.Equal(t, v1alpha1.RepairRunning, m.Status.Remediation.Phase)
	require.NotNil(t, m.Status.Remediation.StartedAt)
	job := w.job(t, "repair-happy-1")
	require.True(t, metav1.IsControlledBy(job, m))

	version := m.ResourceVersion
	reconcile(t, r, key)
	require.Equal(t, version, w.get(t, key).ResourceVersion, "a second look changed the answer")
	require.Equal(t, job.ResourceVersion, w.job(t, "repair-happy-1").ResourceVersion)

	w.finish(t, job, batchv1.JobComplete)
	reconcile(t, r, key)
	m = w.get(t, key)
	require.Equal(t, v1alpha1.RepairSucceeded, m.Status.Remediation.Phase)
	require.NotNil(t, m.Status.Remediation.FinishedAt)

	// The same request is not acted on again, though its Job is gone.
	require.NoError(t, w.admin.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	reconcile(t, r, key)
	w.noJob(t, "repair-happy-1")
	require.Equal(t, "happy-1", w.get(t, key).Spec.Remediation.ID, "the spec is not the node operator's")
	require.InEpsilon(t, 1, testutil.ToFloat64(r.metrics.repairs.WithLabelValues("Succeeded")), 0)
	require.Equal(t, []string{"RepairRunning", "RepairSucceeded"}, reasons(r))
}

func reportsFailure(t *testing.T, w *world) {
	r, key := w.reconciler(t, "repair-job"), w.machine(t, "failing", "failing-1", time.Hour)
	reconcile(t, r, key)
	w.finish(t, w.job(t, "repair-failing-1"), batchv1.JobFailed)
	reconcile(t, r, key)
	answer := w.get(t, key).Status.Remediation
	require.Equal(t, v1alpha1.RepairFailed, answer.Phase)
	require.Contains(t, answer.Message, "BackoffLimitExceeded: the BMC did not answer")
}

func refusesLate(t *testing.T, w *world) {
	key := w.machine(t, "late", "late-1", -time.Second)
	w.refused(t, w.reconciler(t, "repair-job"), key, "deadline")
}

func refusesBrokenSite(t *testing.T, w *world) {
	w.site(t, "broken", site+"          imagePolicy: x\n")
	key := w.machine(t, "broken", "broken-1", time.Hour)
	w.refused(t, w.reconciler(t, "broken"), key, `unknown field "spec.template.spec.containers[0].imagePolicy"`)
}

func refusesMissingSite(t *testing.T, w *world) {
	key := w.machine(t, "nosite", "nosite-1", time.Hour)
	w.refused(t, w.reconciler(t, "absent"), key, "ConfigMap pharos-system/absent with the site's repair Job does not exist")
}

// A template can parse and still be no Job to the API server.
func refusesRejectedJob(t *testing.T, w *world) {
	w.site(t, "rejected", "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: [{name: UPPER, image: i}]}}}\n")
	key := w.machine(t, "rejected", "rejected-1", time.Hour)
	w.refused(t, w.reconciler(t, "rejected"), key, "spec.template.spec.containers[0].name")
}

func refusesForeignJob(t *testing.T, w *world) {
	theirs := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "repair-foreign-1"}}
	theirs.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	require.NoError(t, w.admin.Create(t.Context(), theirs))
	key := w.machine(t, "foreign", "foreign-1", time.Hour)
	r := w.reconciler(t, "repair-job")
	reconcile(t, r, key)
	answer := w.get(t, key).Status.Remediation
	require.Equal(t, v1alpha1.RepairRefused, answer.Phase)
	require.Contains(t, answer.Message, "not this machine's")
	require.Equal(t, theirs.ResourceVersion, w.job(t, theirs.Name).ResourceVersion)
}

func resumesAfterCrash(t *testing.T, w *world) {
	key := w.machine(t, "crash", "crash-1", time.Hour)
	r := w.reconciler(t, "repair-job")
	s, err := r.look(t.Context(), key)
	require.NoError(t, err)
	_, err = r.start(t.Context(), s)
	require.NoError(t, err)
	// The process ends here: a Job, no answer.
	job := w.job(t, "repair-crash-1")
	require.Nil(t, w.get(t, key).Status.Remediation)

	again := w.reconciler(t, "repair-job")
	reconcile(t, again, key)
	require.Equal(t, v1alpha1.RepairRunning, w.get(t, key).Status.Remediation.Phase)
	require.Equal(t, job.UID, w.job(t, "repair-crash-1").UID)
	w.finish(t, job, batchv1.JobComplete)
	reconcile(t, again, key)
	require.Equal(t, v1alpha1.RepairSucceeded, w.get(t, key).Status.Remediation.Phase)
}

func oneJobAtATime(t *testing.T, w *world) {
	key := w.machine(t, "busy", "busy-1", time.Hour)
	r := w.reconciler(t, "repair-job")
	reconcile(t, r, key)
	m := w.get(t, key)
	m.Spec.Remediation.ID = "busy-2"
	require.NoError(t, w.admin.Update(t.Context(), m))
	reconcile(t, r, key)
	w.noJob(t, "repair-busy-2")
	require.Equal(t, "busy-1", w.get(t, key).Status.Remediation.ID)

	w.finish(t, w.job(t, "repair-busy-1"), batchv1.JobComplete)
	reconcile(t, r, key)
	require.Equal(t, v1alpha1.RepairSucceeded, w.get(t, key).Status.Remediation.Phase)
	reconcile(t, r, key)
	require.Equal(t, "busy-2", w.get(t, key).Status.Remediation.ID)
	w.job(t, "repair-busy-2")
}

func jobDeletedMidway(t *testing.T, w *world) {
	key := w.machine(t, "lost", "lost-1", time.Hour)
	r := w.reconciler(t, "repair-job")
	reconcile(t, r, key)
	require.NoError(t, w.admin.Delete(t.Context(), w.job(t, "repair-lost-1"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	reconcile(t, r, key)
	reconcile(t, r, key)
	answer := w.get(t, key).Status.Remediation
	require.Equal(t, v1alpha1.RepairFailed, answer.Phase)
	require.Contains(t, answer.Message, "disappeared")
	w.noJob(t, "repair-lost-1")
}

func rightsAreNarrow(t *testing.T, w *world) {
	key := w.machine(t, "narrow", "narrow-1", time.Hour)
	m := w.get(t, key)
	before := m.DeepCopy()
	m.Spec.State = v1alpha1.MachineStandby
	require.True(t, apierrors.IsForbidden(w.operator.Patch(t.Context(), m, client.MergeFrom(before))), "the spec could be patched")
	require.True(t, apierrors.IsForbidden(w.operator.Delete(t.Context(), before)), "a machine could be deleted")
	var secrets corev1.SecretList
	require.True(t, apierrors.IsForbidden(w.operator.List(t.Context(), &secrets, client.InNamespace("fleet"))), "Secrets could be read")
	elsewhere := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}}
	require.True(t, apierrors.IsForbidden(w.operator.Create(t.Context(), elsewhere)), "a Job could be created outside the clusters' namespaces")
}

// In a namespace where the rights were not given, nothing is known to be wrong
// with the request: it stays open, and is refused when its deadline has passed.
func holdsWithoutRights(t *testing.T, w *world) {
	require.NoError(t, w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}))
	m := machineAsking("bare", "held", "held-1", time.Hour)
	require.NoError(t, w.admin.Create(t.Context(), m))
	key := client.ObjectKeyFromObject(m)
	r := w.reconciler(t, "repair-job")
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.ErrorContains(t, err, "creating Job repair-held-1")
	require.Nil(t, w.get(t, key).Status.Remediation)

	m = w.get(t, key)
	m.Spec.Remediation.Deadline = metav1.NewTime(time.Now().Add(-time.Second))
	require.NoError(t, w.admin.Update(t.Context(), m))
	reconcile(t, r, key)
	require.Equal(t, v1alpha1.RepairRefused, w.get(t, key).Status.Remediation.Phase)
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "are required")
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

func machineAsking(namespace, name, id string, left time.Duration) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.MachineSpec{
			ClusterName: "shop", NodeName: name,
			Remediation: &v1alpha1.RemediationRequest{ID: id, Action: v1alpha1.ActionReboot, Deadline: metav1.NewTime(time.Now().Add(left))},
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
