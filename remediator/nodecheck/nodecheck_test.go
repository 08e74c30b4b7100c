package nodecheck_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/nodecheck"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// business is a business cluster with the manifests of deploy/business: checks are
// made with the rights of the account there, and the test plays the kubelet.
type business struct {
	t       *testing.T
	admin   kubernetes.Interface
	as      kubernetes.Interface
	account *rest.Config
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
	account := rest.CopyConfig(config)
	account.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":" + deploy.NodeCheckAccess,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	return business{t, kubernetes.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(account), account}
}

func startOf(remediation string) policy.CheckStart {
	return policy.CheckStart{
		Remediation: remediation,
		Target:      api.RemediationTarget{Cluster: "shop", Node: "shop-node-07"},
		Check:       api.NodeCheckPod{Image: "check:1", Command: []string{"/check"}, Args: []string{"--all"}},
		Timeout:     90 * time.Second,
		Record:      api.NodeCheckRecord{Attempt: 2, Pod: "check-" + remediation + "-2", NodeUID: "node-uid", BootID: "boot-2"},
	}
}

func (b business) start(s policy.CheckStart) *corev1.Pod {
	require.NoError(b.t, nodecheck.Start(b.t.Context(), b.as, s))
	pod, err := b.admin.CoreV1().Pods(api.NodeCheckNamespace).Get(b.t.Context(), s.Record.Pod, metav1.GetOptions{})
	require.NoError(b.t, err)
	return pod
}

func (b business) list(remediation string) []policy.CheckPod {
	pods, err := nodecheck.List(b.t.Context(), b.as, remediation)
	require.NoError(b.t, err)
	return pods
}

// becomes plays the kubelet.
func (b business) becomes(pod *corev1.Pod, status corev1.PodStatus) {
	now, err := b.admin.CoreV1().Pods(pod.Namespace).Get(b.t.Context(), pod.Name, metav1.GetOptions{})
	require.NoError(b.t, err)
	now.Status = status
	_, err = b.admin.CoreV1().Pods(pod.Namespace).UpdateStatus(b.t.Context(), now, metav1.UpdateOptions{})
	require.NoError(b.t, err)
}

// TestNodeCheck shares one API server, with the real rights and the real pod
// security of the namespace.
func TestNodeCheck(t *testing.T) {
	b := newBusiness(t)
	for _, tc := range []struct {
		name string
		test func(t *testing.T, b business)
	}{
		{"pod", testPod},
		{"made once", testMadeOnce},
		{"pod of somebody else", testForeign},
		{"results", testResults},
		{"told to end", testToldToEnd},
		{"tried", testTried},
		{"removal", testRemoval},
		{"rights", testRights},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b.t = t
			tc.test(t, b)
		})
	}
}

// Case C33: a pod goes to its node whatever taints that has.
func testPod(t *testing.T, b business) {
	pod := b.start(startOf("plain"))
	require.Equal(t, "shop-node-07", pod.Spec.NodeName, "no scheduler is asked")
	require.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	require.Equal(t, int64(90), *pod.Spec.ActiveDeadlineSeconds)
	require.False(t, *pod.Spec.AutomountServiceAccountToken)
	require.Empty(t, pod.Spec.Volumes)
	require.Contains(t, pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot)
	require.Equal(t, "pharos", pod.Labels[api.LabelManagedBy])
	require.Equal(t, "plain", pod.Labels[api.LabelRemediation])
	c := pod.Spec.Containers[0]
	require.Equal(t, "check:1", c.Image)
	require.Equal(t, []string{"/check"}, c.Command)
	require.Equal(t, []string{"--all"}, c.Args)
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, "10m", c.Resources.Requests.Cpu().String())

	read := b.list("plain")
	require.Len(t, read, 1)
	require.Equal(t, policy.CheckPod{
		Name: "check-plain-2", UID: string(pod.UID), NodeUID: "node-uid", BootID: "boot-2",
		Result: api.NodeCheckRunning, Created: pod.CreationTimestamp.Time,
		Node: "shop-node-07", Image: "check:1", Command: []string{"/check"}, Args: []string{"--all"},
	}, read[0])
	require.Empty(t, b.list("another"))
}

// Case C37: one pod for one attempt.
func testMadeOnce(t *testing.T, b business) {
	first := b.start(startOf("twice"))
	second := b.start(startOf("twice"))
	require.Equal(t, first.UID, second.UID)
}

// A pod of the name that was made for another Node, in another boot, for another
// repair, or by somebody else is no check of ours.
func testForeign(t *testing.T, b business) {
	for name, change := range map[string]func(p *corev1.Pod){
		"annotation " + api.AnnotationBootID:  func(p *corev1.Pod) { p.Annotations[api.AnnotationBootID] = "boot-1" },
		"annotation " + api.AnnotationNodeUID: func(p *corev1.Pod) { p.Annotations[api.AnnotationNodeUID] = "another" },
		"label " + api.LabelRemediation:       func(p *corev1.Pod) { p.Labels[api.LabelRemediation] = "another" },
		"label " + api.LabelManagedBy:         func(p *corev1.Pod) { delete(p.Labels, api.LabelManagedBy) },
		"image":                               func(p *corev1.Pod) { p.Spec.Containers[0].Image = "theirs" },
		"command":                             func(p *corev1.Pod) { p.Spec.Containers[0].Args = nil },
		"node":                                func(p *corev1.Pod) { p.Spec.NodeName = "shop-node-08" },
	} {
		t.Run(name, func(t *testing.T) {
			s := startOf("foreign")
			pod := b.start(s)
			pods := b.admin.CoreV1().Pods(pod.Namespace)
			now := int64(0)
			require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
			theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations}, Spec: *pod.Spec.DeepCopy()}
			change(theirs)
			_, err := pods.Create(t.Context(), theirs, metav1.CreateOptions{})
			require.NoError(t, err)
			err = nodecheck.Start(t.Context(), b.as, s)
			require.ErrorIs(t, err, nodecheck.ErrForeign)
			require.ErrorContains(t, err, "creating pod pharos-node-checks/check-foreign-2 on node shop-node-07")
			require.ErrorContains(t, err, "its "+name+" differs; delete it to free the attempt")
			require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		})
	}
}

func testRemoval(t *testing.T, b business) {
	pod := b.start(startOf("gone"))
	removal := policy.CheckRemoval{Remediation: "gone", Pod: pod.Name, UID: "of-another"}
	require.NoError(t, nodecheck.Remove(t.Context(), b.as, removal))
	require.False(t, b.list("gone")[0].Deleting, "another pod that came to bear the name is left alone")

	removal.UID = string(pod.UID)
	require.NoError(t, nodecheck.Remove(t.Context(), b.as, removal))
	require.True(t, b.list("gone")[0].Deleting, "a pod that runs is told to end")
	b.becomes(pod, ended(corev1.PodFailed, 143, "Error", ""))
	require.Equal(t, api.NodeCheckNotRun, b.list("gone")[0].Result, "that it was ended does not make it fail")

	done := b.start(startOf("done"))
	b.becomes(done, ended(corev1.PodSucceeded, 0, "Completed", ""))
	require.NoError(t, nodecheck.Remove(t.Context(), b.as, policy.CheckRemoval{Pod: done.Name, UID: string(done.UID)}))
	require.Empty(t, b.list("done"))
	require.NoError(t, nodecheck.Remove(t.Context(), b.as, policy.CheckRemoval{Pod: done.Name, UID: string(done.UID)}), "gone already")
}

// The token can do what is needed, in its namespace, and no more.
func testRights(t *testing.T, b business) {
	ctx := context.WithoutCancel(t.Context())
	pods := b.as.CoreV1().Pods(api.NodeCheckNamespace)
	pod := b.start(startOf("rights"))
	for name, try := range map[string]func() error{
		"pods elsewhere": func() error { _, err := b.as.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); return err },
		"pods made elsewhere": func() error {
			_, err := b.as.CoreV1().Pods(deploy.Namespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
			return err
		},
		"change": func() error {
			_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		},
		"status": func() error { _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); return err },
		"logs":   func() error { _, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx); return err },
		"secrets": func() error {
			_, err := b.as.CoreV1().Secrets(api.NodeCheckNamespace).List(ctx, metav1.ListOptions{})
			return err
		},
		"nodes": func() error { _, err := b.as.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err },
	} {
		require.True(t, apierrors.IsForbidden(try()), name)
	}
	privileged := pod.DeepCopy()
	privileged.ObjectMeta = metav1.ObjectMeta{Name: "host"}
	privileged.Spec.HostPID = true
	_, err := pods.Create(ctx, privileged, metav1.CreateOptions{})
	require.ErrorContains(t, err, "PodSecurity", "a pod with a hold on its node is not let in")
}
