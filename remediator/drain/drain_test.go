package drain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/drain"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// business is a business cluster with the manifests of deploy/business, in which nodes are
// drained with the rights of the account for that.
type business struct {
	t         *testing.T
	admin, as kubernetes.Interface
}

func newBusiness(t *testing.T) business {
	t.Helper()
	config := testkit.APIServer(t)
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	objects, err := deploy.Business()
	require.NoError(t, err)
	for _, o := range objects {
		require.NoError(t, c.Create(t.Context(), o), "%s %s", o.GetKind(), o.GetName())
	}
	account := func(name string) kubernetes.Interface {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + deploy.Namespace + ":" + name, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		}
		return kubernetes.NewForConfigOrDie(as)
	}
	b := business{t, kubernetes.NewForConfigOrDie(config), account(deploy.DrainAccess)}
	_, err = b.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return b
}

func (b business) node(name string, edit func(n *corev1.Node)) {
	b.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if edit != nil {
		edit(n)
	}
	_, err := b.admin.CoreV1().Nodes().Create(b.t.Context(), n, metav1.CreateOptions{})
	require.NoError(b.t, err)
}

func (b business) get(name string) *corev1.Node {
	b.t.Helper()
	n, err := b.admin.CoreV1().Nodes().Get(b.t.Context(), name, metav1.GetOptions{})
	require.NoError(b.t, err)
	return n
}

// pod is one that runs, and is Ready.
func (b business) pod(node, name string, edit func(p *corev1.Pod)) *corev1.Pod {
	b.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{
		NodeName: node, AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}
	if edit != nil {
		edit(p)
	}
	p, err := b.admin.CoreV1().Pods(p.Namespace).Create(b.t.Context(), p, metav1.CreateOptions{})
	require.NoError(b.t, err)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p, err = b.admin.CoreV1().Pods(p.Namespace).UpdateStatus(b.t.Context(), p, metav1.UpdateOptions{})
	require.NoError(b.t, err)
	return p
}

// keep is a PodDisruptionBudget that allows nothing, as the disruption controller would say.
func (b business) keep(app string) {
	b.t.Helper()
	budgets := b.admin.PolicyV1().PodDisruptionBudgets("shop")
	pdb, err := budgets.Create(b.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep-" + app}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}, metav1.CreateOptions{})
	require.NoError(b.t, err)
	pdb.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: pdb.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
	_, err = budgets.UpdateStatus(b.t.Context(), pdb, metav1.UpdateOptions{})
	require.NoError(b.t, err)
}

func TestDrain(t *testing.T) {
	b := newBusiness(t)
	for name, test := range map[string]func(t *testing.T, b business){
		"cordon": cordons, "cordon of somebody else": leavesCordons, "out of service": fences, "evict": evicts, "evict many": evictsInTurn,
		"nothing there": nothingThere, "rights": hasNoRights,
	} {
		t.Run(name, func(t *testing.T) { test(t, business{t, b.admin, b.as}) })
	}
}

// Case C27: a cordon of ours is taken away, and taken over by our next repair.
func cordons(t *testing.T, b business) {
	b.node("n-1", nil)
	require.NoError(t, drain.Cordon(t.Context(), b.as, "n-1", "rem-1"))
	n := b.get("n-1")
	require.True(t, n.Spec.Unschedulable)
	require.Equal(t, "rem-1", n.Annotations[api.AnnotationCordonedBy])
	require.NoError(t, drain.Cordon(t.Context(), b.as, "n-1", "rem-1"))
	require.Equal(t, n.ResourceVersion, b.get("n-1").ResourceVersion, "nothing is written twice")
	require.NoError(t, drain.Cordon(t.Context(), b.as, "n-1", "rem-2"))
	require.Equal(t, "rem-2", b.get("n-1").Annotations[api.AnnotationCordonedBy])
	require.NoError(t, drain.Uncordon(t.Context(), b.as, "n-1"))
	n = b.get("n-1")
	require.False(t, n.Spec.Unschedulable)
	require.NotContains(t, n.Annotations, api.AnnotationCordonedBy)
}

// Case C27: what others did is theirs.
func leavesCordons(t *testing.T, b business) {
	b.node("n-2", func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Spec.Taints = true, []corev1.Taint{{Key: api.TaintOutOfService, Value: "x", Effect: corev1.TaintEffectNoExecute}}
	})
	require.ErrorIs(t, drain.Cordon(t.Context(), b.as, "n-2", "rem-1"), drain.ErrForeign)
	require.ErrorIs(t, drain.Fence(t.Context(), b.as, "n-2", "rem-1"), drain.ErrForeign)
	before := b.get("n-2").ResourceVersion
	require.NoError(t, drain.Uncordon(t.Context(), b.as, "n-2"))
	require.Equal(t, before, b.get("n-2").ResourceVersion)
}

// Case C21: our word that a node is off is taken back with the cordon.
func fences(t *testing.T, b business) {
	other := corev1.Taint{Key: "site/dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}
	b.node("n-3", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{other} })
	require.NoError(t, drain.Cordon(t.Context(), b.as, "n-3", "rem-1"))
	require.NoError(t, drain.Fence(t.Context(), b.as, "n-3", "rem-1"))
	require.Contains(t, b.get("n-3").Spec.Taints, corev1.Taint{Key: api.TaintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	require.NoError(t, drain.Uncordon(t.Context(), b.as, "n-3"))
	taints := b.get("n-3").Spec.Taints
	require.Contains(t, taints, other)
	require.False(t, slices.ContainsFunc(taints, func(taint corev1.Taint) bool { return taint.Key == api.TaintOutOfService }), "%v", taints)
}

// Case C20: budgets are asked, named where they say no, and never passed over.
func evicts(t *testing.T, b business) {
	b.node("n-4", nil)
	b.node("n-5", nil)
	b.pod("n-4", "free", nil)
	b.pod("n-4", "kept", nil)
	b.keep("kept")
	b.pod("n-5", "elsewhere", nil)
	b.pod("n-4", "daemon", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: ptr.To(true)}}
	})
	b.pod("n-4", "mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} })
	ended := b.pod("n-4", "ended", nil)
	ended.Status.Phase = corev1.PodSucceeded
	_, err := b.admin.CoreV1().Pods("shop").UpdateStatus(t.Context(), ended, metav1.UpdateOptions{})
	require.NoError(t, err)

	for range 2 {
		found, err := drain.Evict(t.Context(), b.as, "n-4")
		require.NoError(t, err)
		require.Equal(t, policy.DrainFound{Left: 1, Leaving: 1, Blocked: []api.BlockedPod{{
			Namespace: "shop", Pod: "kept", Reason: "The disruption budget keep-kept needs 1 healthy pods and has 1 currently"}}}, found)
	}
	for name, goes := range map[string]bool{"free": true, "kept": false, "elsewhere": false, "daemon": false, "mirror": false, "ended": false} {
		p, err := b.admin.CoreV1().Pods("shop").Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err, name)
		require.Equal(t, goes, p.DeletionTimestamp != nil, name)
	}
}

// A node is not emptied in one go, in which nobody could say stop.
func evictsInTurn(t *testing.T, b business) {
	b.node("n-6", nil)
	for i := range 25 {
		b.pod("n-6", fmt.Sprintf("many-%d", i), nil)
	}
	found, err := drain.Evict(t.Context(), b.as, "n-6")
	require.NoError(t, err)
	require.Equal(t, policy.DrainFound{Left: 5, Leaving: 20}, found)
	found, err = drain.Evict(t.Context(), b.as, "n-6")
	require.NoError(t, err)
	require.Equal(t, policy.DrainFound{Leaving: 25}, found)
}

func nothingThere(t *testing.T, b business) {
	require.NoError(t, drain.Uncordon(t.Context(), b.as, "no-such-node"))
	require.True(t, apierrors.IsNotFound(drain.Cordon(t.Context(), b.as, "no-such-node", "rem-1")))
	found, err := drain.Evict(t.Context(), b.as, "no-such-node")
	require.NoError(t, err)
	require.Zero(t, found)
}

// What the account may not do, and what somebody else's may not, is an error that says so.
func hasNoRights(t *testing.T, b business) {
	b.pod("n-7", "not-to-be-deleted", nil)
	require.True(t, apierrors.IsForbidden(b.as.CoreV1().Pods("shop").Delete(t.Context(), "not-to-be-deleted", metav1.DeleteOptions{})))
	require.True(t, apierrors.IsForbidden(b.as.CoreV1().Nodes().Delete(t.Context(), "n-1", metav1.DeleteOptions{})))
	nobody := kubernetes.NewForConfigOrDie(&rest.Config{Host: "127.0.0.1:1", Timeout: time.Second})
	_, err := drain.Evict(t.Context(), nobody, "n-7")
	require.ErrorContains(t, err, "listing the pods of node n-7: ")
	require.ErrorContains(t, drain.Cordon(t.Context(), nobody, "n-7", "rem-1"), "cordoning node n-7: reading it: ")
}
