package nodecheck_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/nodecheck"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// A check is tried with the real rights and security, and leaves nothing behind.
func testTried(t *testing.T, b business) {
	probe := policy.CheckProbe{
		Target: api.RemediationTarget{Cell: "asia-1", Cluster: "shop", Node: "shop-node-07"},
		Check:  api.NodeCheckPod{Image: "check:1", Command: []string{"/check"}},
	}
	before, err := b.admin.CoreV1().Pods(api.NodeCheckNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, nodecheck.Try(t.Context(), b.as, probe))
	after, err := b.admin.CoreV1().Pods(api.NodeCheckNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, after.Items, len(before.Items))

	for name, tc := range map[string]struct {
		change func(c *rest.Config)
		says   string
	}{
		"dead token": {func(c *rest.Config) {
			c.Impersonate, c.BearerToken, c.CertData, c.KeyData = rest.ImpersonationConfig{}, "dead", nil, nil
		}, "listing pods in namespace pharos-node-checks: Unauthorized"},
		"no rights":     {func(c *rest.Config) { c.Impersonate.UserName = "nobody" }, `User "nobody" cannot list resource "pods"`},
		"no API server": {func(c *rest.Config) { c.Host = "https://127.0.0.1:1" }, "listing pods in namespace pharos-node-checks"},
	} {
		t.Run(name, func(t *testing.T) {
			config := rest.CopyConfig(b.account)
			tc.change(config)
			require.ErrorContains(t, nodecheck.Try(t.Context(), kubernetes.NewForConfigOrDie(config), probe), tc.says)
		})
	}
	probe.Check.Image = ""
	require.ErrorContains(t, nodecheck.Try(t.Context(), b.as, probe),
		"creating a pod in namespace pharos-node-checks on node shop-node-07, as a dry run", "a pod that the API server refuses")
}

// What a check answers when it is told to end says nothing of its node. A
// finalizer lets the test see what a kubelet reports between the two.
func testToldToEnd(t *testing.T, b business) {
	for name, tc := range map[string]struct {
		ended  time.Duration // after it was told to
		result api.NodeCheckResult
	}{
		"before":       {-20 * time.Second, api.NodeCheckPass},
		"just before":  {-4 * time.Second, api.NodeCheckNotRun},
		"within grace": {2 * time.Second, api.NodeCheckNotRun},
		"long after":   {time.Minute, api.NodeCheckNotRun},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			s := startOf("told" + name[:4])
			pod := b.start(s)
			pods := b.admin.CoreV1().Pods(pod.Namespace)
			b.becomes(pod, running())
			pod, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
			require.NoError(t, err)
			pod.Finalizers = []string{"test.pharos.dev/seen"}
			_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
			require.NoError(t, err)
			told := time.Now()
			require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))

			status := ended(corev1.PodSucceeded, 0, "Completed", "")
			status.ContainerStatuses[0].State.Terminated.StartedAt = metav1.NewTime(told.Add(-time.Minute))
			status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(told.Add(tc.ended))
			b.becomes(pod, status)
			read := b.list(s.Remediation)
			require.Len(t, read, 1)
			require.True(t, read[0].Deleting)
			require.Equal(t, tc.result, read[0].Result, read[0].Message)
			pod, err = pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
			require.NoError(t, err)
			pod.Finalizers = nil
			_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
			require.NoError(t, err)
			now := int64(0)
			require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		})
	}
}

// A webhook that has the nodes pull from elsewhere would make every check foreign.
func TestTryingACheckThatIsChangedOnItsWayIn(t *testing.T) {
	for what, change := range map[string]func(p *corev1.Pod){
		"image":   func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror/check:1" },
		"command": func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/wrapped"} },
		"node":    func(p *corev1.Pod) { p.Spec.NodeName = "" },
	} {
		cluster := fake.NewClientset()
		cluster.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
			change(pod)
			return true, pod, nil
		})
		err := nodecheck.Try(t.Context(), cluster, policy.CheckProbe{Target: api.RemediationTarget{Node: "n-1"}, Check: api.NodeCheckPod{Image: "check:1"}})
		require.ErrorContains(t, err, "the API server changed its "+what)
	}
}
