package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// newCheckedFleet is a fleet whose policy asks for a node check, and whose cluster
// has a kubeconfig for it.
func newCheckedFleet(t *testing.T, config *rest.Config) *fleet {
	t.Helper()
	f := newFleet(t, config)
	f.namespace(api.NodeCheckNamespace)
	f.checkSecret()
	f.nameCheckSecret("shop-node-checks")
	p := f.policy()
	p.Spec.Verification.NodeCheck = &api.NodeCheckPod{Image: "check:1", Command: []string{"/check"}, TimeoutSeconds: ptr.To(int32(60))}
	require.NoError(t, f.client.Update(t.Context(), p))
	return f
}

func (f *fleet) checkSecret() {
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cellNamespace, Name: "shop-node-checks"},
		Data: map[string][]byte{kube.SecretKeyKubeconfig: kubeconfigOf(f.t, f.config)}})
}

func (f *fleet) cluster() *api.Cluster {
	var c api.Cluster
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: cellNamespace, Name: clusterName}, &c))
	return &c
}

func (f *fleet) nameCheckSecret(name string) {
	c := f.cluster()
	c.Spec.NodeCheckKubeconfigSecret = name
	require.NoError(f.t, f.client.Update(f.t.Context(), c))
}

// unlist lets both centrals say that all is well.
func (f *fleet) unlist() {
	for _, answers := range f.centrals {
		answers.set(func(c *central) { c.listed = map[string]time.Duration{} })
	}
}

// repaired brings the sick node to where only a check is missing: it is written
// down, and no pod is made yet.
func (f *fleet) repaired(c *Controller) {
	f.fail(sick)
	f.round(c)
	f.answer(sick, api.RepairSucceeded)
	f.reboot(sick)
	f.unlist()
	f.round(c)
	f.requirePhase(api.RemediationVerifying, policy.ReasonAwaitingNodeCheck)
	f.requireCheck(1, api.NodeCheckPending)
	require.Empty(f.t, f.pods(), "the pod is made after the check is written down")
}

func (f *fleet) requirePhase(phase api.RemediationPhase, reason policy.Reason) {
	f.t.Helper()
	s := f.one().Status
	require.Equal(f.t, string(phase)+" "+string(reason), string(s.Phase)+" "+s.Reason, s.Message)
}

func (f *fleet) requireCheck(attempt int32, result api.NodeCheckResult) {
	f.t.Helper()
	check := f.one().Status.NodeCheck
	require.NotNil(f.t, check)
	require.Equal(f.t, attempt, check.Attempt)
	require.Equal(f.t, result, check.Result, check.Message)
}

func (f *fleet) pods() []corev1.Pod {
	var list corev1.PodList
	require.NoError(f.t, f.client.List(f.t.Context(), &list, client.InNamespace(api.NodeCheckNamespace)))
	return list.Items
}

// ends plays the kubelet: the one pod has run to its end.
func (f *fleet) ends(phase corev1.PodPhase, exit int32, message string) {
	pods := f.pods()
	require.Len(f.t, pods, 1)
	pods[0].Status = corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "check", Image: "check:1", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exit, Reason: "Error", Message: message, StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}}}}
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), &pods[0]))
}

// elapse lets the check have been asked for a minute earlier, so that another
// attempt is due.
func (f *fleet) elapse() {
	rem := f.one()
	rem.Status.NodeCheck.RequestedAt = metav1.NewTime(rem.Status.NodeCheck.RequestedAt.Add(-time.Minute))
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), &rem))
}

func testCheckPasses(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	c := f.start()
	f.repaired(c)
	require.Equal(t, f.policy().Spec.Verification, f.one().Spec.Verification)
	f.round(c)
	pods := f.pods()
	require.Len(t, pods, 1)
	require.Equal(t, "check-"+f.one().Name+"-1", pods[0].Name)
	require.Equal(t, sick, pods[0].Spec.NodeName)
	require.Equal(t, []string{"/check"}, pods[0].Spec.Containers[0].Command)
	require.Equal(t, "boot-2", pods[0].Annotations[api.AnnotationBootID])
	f.round(c)
	f.requirePhase(api.RemediationVerifying, policy.ReasonAwaitingNodeCheck)
	f.requireCheck(1, api.NodeCheckRunning)
	require.Len(t, f.pods(), 1, "one pod is enough")

	f.ends(corev1.PodSucceeded, 0, "")
	f.round(c)
	f.requirePhase(api.RemediationSucceeded, policy.ReasonVerified)
	f.requireCheck(1, api.NodeCheckPass)
	require.NotNil(t, f.one().Status.NodeCheck.FinishedAt)
	require.Len(t, f.one().Status.Verification, 5)
	require.Len(t, f.pods(), 1, "the pod goes after its result is written down")
	f.round(c)
	require.Empty(t, f.pods())
	f.round(c)
	require.True(t, c.checksDone[f.one().Name].After(time.Now()), "and is not looked for any more")
	f.requireEvents("AwaitingNodeCheck", "NodeCheckPassed", "Verified")
	_, metrics := get(t, "http://"+c.Addr().String()+"/metrics")
	require.Contains(t, metrics, `pharos_remediator_node_checks_total{result="Pass"} 1`)
	require.Contains(t, metrics, `pharos_remediator_node_checks_total{result="Fail"} 0`)
}

// Case C40: the check has the last word.
func testCheckFails(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	c := f.start()
	f.repaired(c)
	f.round(c)
	f.ends(corev1.PodFailed, 7, "disk sda is slow")
	f.round(c)
	f.requirePhase(api.RemediationFailed, policy.ReasonNodeCheckFailed)
	f.requireCheck(1, api.NodeCheckFail)
	require.Equal(t, int32(7), *f.one().Status.NodeCheck.ExitCode)
	require.Contains(t, f.one().Status.Message, "exit code 7, Error: disk sda is slow")
	f.round(c)
	require.Empty(t, f.pods())
	f.requireEvents("NodeCheckFailed")

	f.fail(sick)
	f.round(c)
	require.Equal(t, sick+" Escalated", f.hold(), "what a reboot did not mend, another will not")
	require.Equal(t, api.RemediationEscalated, f.byAction()[api.ActionEscalate].Status.Phase)
}

func testCheckWithoutSecret(t *testing.T, config *rest.Config) {
	t.Run("named by nobody", func(t *testing.T) {
		f := newCheckedFleet(t, config)
		f.nameCheckSecret("")
		f.fail(sick)
		c := f.start()
		f.round(c)
		f.untouched()
		require.Empty(t, f.remediations())
		require.Equal(t, sick+" NodeCheckUnavailable", f.hold())
		require.Contains(t, f.policy().Status.Holds[0].Message, "Cluster shop names no spec.nodeCheckKubeconfigSecret")
	})
	t.Run("gone", func(t *testing.T) {
		f := newCheckedFleet(t, config)
		c := f.start()
		f.repaired(c)
		require.NoError(t, f.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cellNamespace, Name: "shop-node-checks"}}))
		for range 3 {
			f.round(c)
			f.requirePhase(api.RemediationVerifying, policy.ReasonNodeCheckUnavailable)
			require.Contains(t, f.one().Status.Message, `"shop-node-checks" not found`)
			require.Empty(t, f.pods())
		}
		f.requireEvents("NodeCheckUnavailable")

		f.checkSecret()
		f.round(c)
		f.ends(corev1.PodSucceeded, 0, "")
		f.round(c)
		f.requirePhase(api.RemediationSucceeded, policy.ReasonVerified)
	})
}

// Case C37: somebody deletes the pod.
func testCheckDeleted(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	c := f.start()
	f.repaired(c)
	f.round(c)
	f.round(c) // the pod is seen
	require.NoError(t, f.client.Delete(t.Context(), &f.pods()[0], client.GracePeriodSeconds(0)))
	f.round(c)
	f.requirePhase(api.RemediationVerifying, policy.ReasonNodeCheckNotRun)
	require.Contains(t, f.one().Status.Message, "somebody deleted the pod")
	f.round(c)
	require.Empty(t, f.pods(), "it is not tried again at once")

	f.elapse()
	f.round(c)
	f.requireCheck(2, api.NodeCheckPending)
	f.round(c)
	require.Equal(t, "check-"+f.one().Name+"-2", f.pods()[0].Name)
	f.ends(corev1.PodSucceeded, 0, "")
	f.round(c)
	f.requirePhase(api.RemediationSucceeded, policy.ReasonVerified)
}

// What a pod says of the boot before says nothing of this one.
func testCheckOfAnotherBoot(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	c := f.start()
	f.repaired(c)
	f.round(c)
	f.ends(corev1.PodSucceeded, 0, "")
	f.setNode(sick, corev1.ConditionTrue, time.Second, "boot-3")
	f.round(c)
	f.requirePhase(api.RemediationVerifying, policy.ReasonNodeCheckNotRun)
	f.requireCheck(1, api.NodeCheckNotRun)
	require.Contains(t, f.one().Status.Message, "has booted")

	f.elapse()
	f.round(c)
	f.round(c)
	require.Len(t, f.pods(), 1, "the first pod is gone")
	require.Equal(t, "boot-3", f.pods()[0].Annotations[api.AnnotationBootID])
	f.ends(corev1.PodSucceeded, 0, "")
	f.round(c)
	f.requirePhase(api.RemediationSucceeded, policy.ReasonVerified)
}

func testCheckForeign(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	c := f.start()
	f.repaired(c)
	theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: api.NodeCheckNamespace, Name: f.one().Status.NodeCheck.Pod},
		Spec: corev1.PodSpec{NodeName: sick, Containers: []corev1.Container{{Name: "check", Image: "theirs"}}}}
	f.create(theirs)
	f.ends(corev1.PodSucceeded, 0, "")
	for range 3 {
		f.round(c)
	}
	f.requirePhase(api.RemediationVerifying, policy.ReasonNodeCheckUnavailable)
	require.Contains(t, f.one().Status.Message, "creating pod pharos-node-checks/"+theirs.Name)
	require.Contains(t, f.one().Status.Message, "a pod of this name exists that was not made for this check")
	require.Contains(t, f.one().Status.Message, "delete it to free the attempt")
	require.Equal(t, 1, strings.Count(f.one().Status.Message, theirs.Name), "it is named once")
	require.Len(t, f.pods(), 1, "it is left alone")
	f.requireEvents("NodeCheckUnavailable")

	require.NoError(t, f.client.Delete(t.Context(), theirs, client.GracePeriodSeconds(0)))
	f.round(c)
	f.ends(corev1.PodSucceeded, 0, "")
	f.round(c)
	f.requirePhase(api.RemediationSucceeded, policy.ReasonVerified)
}

// Case C36: a check waits for hands off, and goes on when that ends.
// justBeforeTheCheck has something happen between the decision to check the repaired node
// and the pod, which is then not made.
func (f *fleet) justBeforeTheCheck(happens func()) *Controller {
	once := false
	c := f.dying(interceptor.Funcs{Get: func(ctx context.Context, k client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*api.RemediationPolicy); ok && once {
			once = false
			happens()
		}
		return k.Get(ctx, key, o, opts...)
	}})
	f.repaired(c)
	once = true
	f.round(c)
	require.False(f.t, once, "the policy is read again before the pod is made")
	require.Empty(f.t, f.pods())
	return c
}

// A person who says hands off is obeyed when deciding, and once more just before
// the pod is made.
func testCheckPaused(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	c := f.justBeforeTheCheck(func() { f.annotate(f.cluster(), api.AnnotationPaused, "") })
	require.Contains(t, f.one().Status.NodeCheck.Message, "the node check is withheld: cluster shop or cell asia-1 is paused")
	f.round(c)
	f.requirePhase(api.RemediationVerifying, policy.ReasonPaused)

	cluster := f.cluster()
	cluster.Annotations = nil
	require.NoError(t, f.client.Update(t.Context(), cluster))
	f.round(c)
	require.Len(t, f.pods(), 1)
}

// A check is an act on a node: none begins in a freeze, whenever that began.
func testCheckFrozen(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	c := f.justBeforeTheCheck(func() { f.create(freezing("stop")) })
	require.Contains(t, f.one().Status.NodeCheck.Message, "the node check is withheld: in the fleet, budget stop freezes repairs, until somebody takes away its spec.freeze (storm)")
	f.round(c)
	f.requirePhase(api.RemediationVerifying, policy.ReasonFrozen)
	require.Contains(t, f.one().Status.Message, "the node check is not begun: in the fleet, budget stop freezes repairs")

	require.NoError(t, f.client.Delete(t.Context(), freezing("stop")))
	f.round(c)
	require.Len(t, f.pods(), 1)
}

// Case C37: a restart makes no second pod.
// Whoever takes over finds what is written down, and makes no second pod.
func testCheckAndCrash(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	f.repaired(f.start())
	f.round(f.start())
	first := f.pods()
	require.Len(t, first, 1)
	f.round(f.start())
	require.Equal(t, first[0].UID, f.pods()[0].UID)
	f.ends(corev1.PodSucceeded, 0, "")
	f.round(f.start())
	f.requirePhase(api.RemediationSucceeded, policy.ReasonVerified)
	f.round(f.start())
	require.Empty(t, f.pods(), "and cleans up after another")
}
