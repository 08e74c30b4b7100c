package controller

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// draining is a fleet whose policy drains a node before it reboots it. One pod runs there,
// of which a PodDisruptionBudget says whether it may go.
func drains(t *testing.T, config *rest.Config, allowed int32) *fleet {
	f := newFleet(t, config)
	p := f.policy()
	p.Spec.Escalation = []api.EscalationStep{{Action: api.ActionReboot, Drain: &api.DrainStep{TimeoutSeconds: ptr.To(int32(600))}}}
	require.NoError(t, f.client.Update(t.Context(), p))
	cluster := &api.Cluster{}
	require.NoError(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: cellNamespace, Name: clusterName}, cluster))
	cluster.Spec.DrainKubeconfigSecret = "shop-observer"
	require.NoError(t, f.client.Update(t.Context(), cluster))
	f.namespace("web")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "db-0", Labels: map[string]string{"app": "db"}}, Spec: corev1.PodSpec{
		NodeName: sick, AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	f.create(pod)
	pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(t, f.client.Status().Update(t.Context(), pod))
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "db"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
	f.create(pdb)
	t.Cleanup(func() {
		_ = f.client.Delete(context.Background(), pdb)
		_ = f.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0))
	})
	f.allows(allowed)
	f.fail(sick)
	return f
}

// allows plays the disruption controller.
func (f *fleet) allows(n int32) {
	var pdb policyv1.PodDisruptionBudget
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: "web", Name: "db"}, &pdb))
	pdb.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: pdb.Generation, DisruptionsAllowed: n, CurrentHealthy: 1 + n, DesiredHealthy: 1, ExpectedPods: 1}
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), &pdb))
}

func (f *fleet) node(name string) *corev1.Node {
	var n corev1.Node
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Name: name}, &n))
	return &n
}

// cordoned says by whom the sick node is; empty for one that is in use.
func (f *fleet) cordoned() string {
	n := f.node(sick)
	require.Equal(f.t, n.Annotations[api.AnnotationCordonedBy] != "", n.Spec.Unschedulable)
	return n.Annotations[api.AnnotationCordonedBy]
}

func (f *fleet) goes() bool {
	var p corev1.Pod
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: "web", Name: "db-0"}, &p))
	return p.DeletionTimestamp != nil
}

// Case C20: the node is emptied first, as budgets allow, and used again after the repair.
func testDrain(t *testing.T, config *rest.Config) {
	f := drains(t, config, 1)
	c := f.start()
	f.round(c)
	rem := f.one()
	require.Equal(t, api.RemediationDraining, rem.Status.Phase, "%s", rem.Status.Message)
	require.NotNil(t, rem.Status.Drain.EndedAt, "%s", rem.Status.Message)
	require.Equal(t, rem.Name, f.cordoned())
	require.True(t, f.goes())
	require.Nil(t, f.machine(sick).Spec.Remediation, "not before the drain is written down to have ended")
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase, "%s", f.one().Status.Message)
	require.Equal(t, rem.Name, f.machine(sick).Spec.Remediation.ID)

	f.answer(sick, api.RepairSucceeded)
	f.reboot(sick)
	f.unlist()
	f.round(c)
	require.Equal(t, string(policy.ReasonUncordoning), f.one().Status.Reason, "%s", f.one().Status.Message)
	require.Empty(t, f.cordoned())
	f.round(c)
	require.Equal(t, api.RemediationSucceeded, f.one().Status.Phase, "%s", f.one().Status.Message)
}

// Case C20: a budget that does not allow it is named, to people. Nothing is forced.
// Case C21: also when somebody believes that the machine is off.
func testDrainThatIsBlocked(t *testing.T, config *rest.Config) {
	f := drains(t, config, 0)
	c := f.start()
	f.round(c)
	rem := f.one()
	require.Equal(t, api.RemediationDraining, rem.Status.Phase)
	require.Equal(t, []api.BlockedPod{{Namespace: "web", Pod: "db-0", Reason: "The disruption budget db needs 1 healthy pods and has 1 currently"}}, rem.Status.Drain.Blocked)
	f.power(api.PowerOff, time.Now().Add(-time.Hour)) // long before the drain began
	f.drainedLong(&rem)
	f.round(c)
	require.False(t, f.goes())
	require.Equal(t, api.RemediationFailed, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonDrainBlocked), f.one().Status.Reason)
	f.round(c)
	f.untouched()
	handed := f.byAction()[api.ActionEscalate]
	require.Equal(t, api.RemediationEscalated, handed.Status.Phase)
	require.Contains(t, handed.Spec.Reason, "web/db-0: The disruption budget db needs 1 healthy pods and has 1 currently")
	require.Equal(t, rem.Name, f.cordoned(), "what is left to people stays cordoned")
	require.False(t, f.goes())
}

// Case C21: that the machine is off is proven, and only then its pods are let go of.
func testDrainOfWhatIsOff(t *testing.T, config *rest.Config) {
	f := drains(t, config, 0)
	c := f.start()
	f.round(c)
	rem := f.one()
	f.power(api.PowerOff, time.Now())
	f.drainedLong(&rem)
	f.round(c)
	require.Contains(t, f.node(sick).Spec.Taints, corev1.Taint{Key: api.TaintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	require.NotNil(t, f.one().Status.Drain.EndedAt)
	f.round(c)
	require.Equal(t, rem.Name, f.machine(sick).Spec.Remediation.ID, "%s", f.one().Status.Message)
}

func (f *fleet) power(state api.PowerState, at time.Time) {
	m := f.machine(sick)
	m.Status.Power = &api.PowerStatus{State: state, ObservedAt: metav1.NewTime(at), HardwareID: m.Spec.HardwareID}
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), m))
}

// drainedLong lets the time of a drain be over.
func (f *fleet) drainedLong(rem *api.Remediation) {
	rem.Status.Drain.StartedAt = metav1.NewTime(time.Now().Add(-11 * time.Minute))
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), rem))
}

// Case C27: who takes the cordon away in the middle wants the node to be used.
func testDrainAndAPerson(t *testing.T, config *rest.Config) {
	f := drains(t, config, 0)
	c := f.start()
	f.round(c)
	n := f.node(sick)
	n.Spec.Unschedulable = false
	delete(n.Annotations, api.AnnotationCordonedBy)
	require.NoError(t, f.client.Update(t.Context(), n))
	f.allows(1)
	f.round(c)
	require.False(t, f.goes())
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonUncordoned), f.one().Status.Reason)
	f.round(c)
	require.Empty(t, f.cordoned())
	require.Equal(t, sick+" Denied", f.hold(), "and it is left alone for a while")
}

// Case C27: a stop is obeyed between two evictions.
func testDrainAndAStop(t *testing.T, config *rest.Config) {
	f := drains(t, config, 0)
	c := f.start()
	f.round(c)
	f.create(&api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "stop"}, Spec: api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "test"}})
	f.allows(1)
	f.round(c)
	require.False(t, f.goes())
	require.Equal(t, api.RemediationDraining, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonFrozen), f.one().Status.Reason)
}

// Case C29: what recovers while it is drained is used again.
func testDrainAndRecovery(t *testing.T, config *rest.Config) {
	f := drains(t, config, 0)
	c := f.start()
	f.round(c)
	f.setNode(sick, corev1.ConditionTrue, time.Second, "boot-1")
	f.renew(sick, time.Second)
	f.unlist()
	f.round(c)
	require.Equal(t, string(policy.ReasonUncordoning), f.one().Status.Reason, "%s", f.one().Status.Message)
	require.Empty(t, f.cordoned())
	f.round(c)
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonRecovered), f.one().Status.Reason, "%s", f.one().Status.Message)
	require.Nil(t, f.one().Status.ActedAt)
	require.Nil(t, f.one().Status.Denial)
}

// Without the credential nothing is begun; with one that does not work nothing is repaired.
func testDrainWithoutRights(t *testing.T, config *rest.Config) {
	f := drains(t, config, 1)
	cluster := &api.Cluster{}
	require.NoError(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: cellNamespace, Name: clusterName}, cluster))
	cluster.Spec.DrainKubeconfigSecret = "no-such-secret"
	require.NoError(t, f.client.Update(t.Context(), cluster))
	c := f.start()
	_, err := c.round(t.Context())
	require.ErrorContains(t, err, "reading the drains' kubeconfig")
	f.untouched()
	require.Equal(t, sick+" RequestFailed", f.hold())
	require.Empty(t, f.cordoned())

	cluster.Spec.DrainKubeconfigSecret = ""
	require.NoError(t, f.client.Update(t.Context(), cluster))
	f.round(f.start())
	f.untouched()
	require.Equal(t, sick+" DrainUnavailable", f.hold())
}

// Killed after the cordon, before that could be written down.
func testDrainAndCrash(t *testing.T, config *rest.Config) {
	f := drains(t, config, 1)
	ctx, die := context.WithCancel(t.Context())
	_, err := f.dying(beforeStatus(die)).round(ctx)
	require.ErrorIs(t, err, errCrash)
	require.Empty(t, f.cordoned(), "nothing is touched before the drain is written down")
	c := f.start()
	f.round(c)
	require.Equal(t, f.one().Name, f.cordoned())
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase, "%s", f.one().Status.Message)
	require.Len(t, f.remediations(), 1)
}
