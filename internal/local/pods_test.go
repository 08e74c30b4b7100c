package local_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// requirePodsRun proves what a node check rests on in the local fleet: a pod that
// is put on a worker node begins, runs and ends as its command says, and one that
// is deleted goes.
func requirePodsRun(t *testing.T, c client.WithWatch, node string) {
	t.Helper()
	// Without a controller-manager nobody makes the account that a pod must have.
	require.NoError(t, c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}))
	passes := createPod(t, c, node, corev1.RestartPolicyNever, nil, "true")
	fails := createPod(t, c, node, corev1.RestartPolicyNever, nil, "false")
	faulty := createPod(t, c, node, corev1.RestartPolicyNever, map[string]string{layout.AnnotationFault: layout.FaultFailed}, "true")
	stays := createPod(t, c, node, corev1.RestartPolicyAlways, nil, "true")

	require.Equal(t, []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}, phases(t, c, passes))
	require.Equal(t, []corev1.PodPhase{corev1.PodFailed}, last(phases(t, c, fails)))
	require.Equal(t, []corev1.PodPhase{corev1.PodFailed}, last(phases(t, c, faulty)))
	done := readPod(t, c, passes).Status.ContainerStatuses[0].State.Terminated
	require.Zero(t, done.ExitCode)
	require.False(t, done.FinishedAt.Before(&done.StartedAt))
	require.Equal(t, int32(1), readPod(t, c, fails).Status.ContainerStatuses[0].State.Terminated.ExitCode)
	require.Equal(t, corev1.PodRunning, readPod(t, c, stays).Status.Phase, "what is to be restarted does not end")

	for _, pod := range []*corev1.Pod{passes, fails, faulty, stays} {
		require.NoError(t, c.Delete(t.Context(), pod))
		require.Eventually(t, func() bool {
			return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}))
		}, 10*time.Second, 50*time.Millisecond)
	}
}

func createPod(t *testing.T, c client.Client, node string, restart corev1.RestartPolicy, annotations map[string]string, command string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: command + "-", Annotations: annotations},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: restart, AutomountServiceAccountToken: ptr.To(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "check", Image: "busybox:1.37", Command: []string{command}}},
		},
	}
	require.NoError(t, c.Create(t.Context(), pod))
	return pod
}

func readPod(t *testing.T, c client.Client, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	var now corev1.Pod
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), &now))
	return &now
}

// phases follows a pod from its creation until it has ended.
func phases(t *testing.T, c client.WithWatch, pod *corev1.Pod) []corev1.PodPhase {
	t.Helper()
	w, err := c.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(pod.Namespace),
		client.MatchingFields{"metadata.name": pod.Name}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: pod.ResourceVersion}})
	require.NoError(t, err)
	defer w.Stop()
	seen := []corev1.PodPhase{pod.Status.Phase}
	late := time.After(15 * time.Second)
	for {
		select {
		case e := <-w.ResultChan():
			now, ok := e.Object.(*corev1.Pod)
			require.True(t, ok, "%v", e.Object)
			if phase := now.Status.Phase; phase != seen[len(seen)-1] {
				seen = append(seen, phase)
			}
			if phase := now.Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
				return seen
			}
		case <-late:
			t.Fatalf("pod %s has not ended: %v", pod.Name, seen)
		}
	}
}

func last(all []corev1.PodPhase) []corev1.PodPhase { return all[len(all)-1:] }
