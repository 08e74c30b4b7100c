package machine

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func TestReconciler(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]func(*testing.T, *world){
		"repairs once":            repairsOnce,
		"reports failure":         reportsFailure,
		"replaces by a spare":     replacesBySpare,
		"refuses late":            refusesLate,
		"refuses when paused":     refusesWhenPaused,
		"refuses a lower epoch":   refusesLowerEpoch,
		"lapses while it reads":   lapsesWhileItReads,
		"withdrawn, unreported":   reportsWithdrawn,
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

// Case C23: one request is one repair, however often it is read.
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
	w.refused(t, w.reconciler(t, "repair-job"), key, "startBefore")
}

func refusesWhenPaused(t *testing.T, w *world) {
	ours := clusterNamed("fleet", "quiet")
	ours.Annotations = map[string]string{v1alpha1.AnnotationPaused: "until Monday"}
	require.NoError(t, w.admin.Create(t.Context(), ours))
	m := machineAsking("fleet", "paused", "paused-1", time.Hour)
	m.Spec.ClusterName = "quiet"
	require.NoError(t, w.admin.Create(t.Context(), m))
	w.refused(t, w.reconciler(t, "repair-job"), client.ObjectKeyFromObject(m), "Cluster fleet/quiet is annotated pharos.dev/paused")
}

// Case C24: a leader that was succeeded is refused.
// What a remediator asks for that was succeeded since is refused, whatever became
// of the request of the next one.
func refusesLowerEpoch(t *testing.T, w *world) {
	r := w.reconciler(t, "repair-job")
	m := machineAsking("fleet", "fenced", "fenced-1", time.Hour)
	require.NoError(t, w.admin.Create(t.Context(), m))
	key := client.ObjectKeyFromObject(m)
	ask := func(id string, epoch *int32) {
		m := w.get(t, key)
		m.Spec.Remediation.ID, m.Spec.Remediation.Epoch = id, epoch
		require.NoError(t, w.admin.Update(t.Context(), m))
	}
	runs := func(id string) {
		reconcile(t, r, key)
		require.Equal(t, v1alpha1.RepairRunning, w.get(t, key).Status.Remediation.Phase)
		w.finish(t, w.job(t, "repair-"+id), batchv1.JobComplete)
		reconcile(t, r, key)
	}
	runs("fenced-1")
	require.Nil(t, w.get(t, key).Status.RemediationEpoch, "nobody has named one")
	ask("fenced-2", ptr.To[int32](4))
	runs("fenced-2")
	require.EqualValues(t, 4, *w.get(t, key).Status.RemediationEpoch)
	reasons(r)

	ask("fenced-3", ptr.To[int32](3))
	w.refused(t, r, key, "its epoch is 3, and one of epoch 4 was answered: the remediator that wrote it leads no more")
	ask("fenced-4", nil)
	w.refused(t, r, key, "it bears no epoch")
	require.EqualValues(t, 4, *w.get(t, key).Status.RemediationEpoch, "a refusal does not lower it")
	ask("fenced-5", ptr.To[int32](4))
	runs("fenced-5")
}

// The request lapses between the decision and the creation of the Job.
func lapsesWhileItReads(t *testing.T, w *world) {
	r, key := w.reconciler(t, "repair-job"), w.machine(t, "slow", "slow-1", time.Hour)
	s, err := r.look(t.Context(), key)
	require.NoError(t, err)
	require.True(t, decide(s).start)
	r.clock = clocktesting.NewFakePassiveClock(s.machine.Spec.Remediation.StartBefore.Time)
	answer, err := r.start(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.RepairRefused, answer.Phase)
	w.noJob(t, "repair-slow-1")
}

// The Job was created, its answer was lost, and the request is withdrawn.
func reportsWithdrawn(t *testing.T, w *world) {
	r, key := w.reconciler(t, "repair-job"), w.machine(t, "withdrawn", "withdrawn-1", time.Hour)
	s, err := r.look(t.Context(), key)
	require.NoError(t, err)
	_, err = r.start(t.Context(), s)
	require.NoError(t, err)
	m := w.get(t, key)
	m.Spec.Remediation = nil
	require.NoError(t, w.admin.Update(t.Context(), m))

	reconcile(t, r, key)
	require.Equal(t, "withdrawn-1", w.get(t, key).Status.Remediation.ID)
	require.Equal(t, v1alpha1.RepairRunning, w.get(t, key).Status.Remediation.Phase)
	w.finish(t, w.job(t, "repair-withdrawn-1"), batchv1.JobComplete)
	reconcile(t, r, key)
	require.Equal(t, v1alpha1.RepairSucceeded, w.get(t, key).Status.Remediation.Phase)
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

// Case C23: a Job whose answer was lost is found again.
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
// with the request: it stays open, and is refused when it has lapsed.
func holdsWithoutRights(t *testing.T, w *world) {
	require.NoError(t, w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}))
	require.NoError(t, w.admin.Create(t.Context(), clusterNamed("bare", "shop")))
	m := machineAsking("bare", "held", "held-1", time.Hour)
	require.NoError(t, w.admin.Create(t.Context(), m))
	key := client.ObjectKeyFromObject(m)
	r := w.reconciler(t, "repair-job")
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.ErrorContains(t, err, "creating Job repair-held-1")
	require.Nil(t, w.get(t, key).Status.Remediation)

	m = w.get(t, key)
	m.Spec.Remediation.StartBefore = metav1.NewTime(time.Now().Add(-time.Second))
	require.NoError(t, w.admin.Update(t.Context(), m))
	reconcile(t, r, key)
	require.Equal(t, v1alpha1.RepairRefused, w.get(t, key).Status.Remediation.Phase)
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "are required")
}
