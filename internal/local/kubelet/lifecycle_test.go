package kubelet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pharos-fleet/pharos/internal/local/kubelet"
)

const roleVariable = "PHAROS_KUBELET_TEST_ROLE"

func httpGet(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}
}

func TestNodeIsRegistered(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	eventually(t, "the node is ready", func() error {
		node, err := client.CoreV1().Nodes().Get(t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", node.Status.Conditions)
	})
	node, err := client.CoreV1().Nodes().Get(t.Context(), n.name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "127.90.127.1", node.Status.Addresses[0].Address)
	require.NotZero(t, node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	require.Positive(t, node.Status.Capacity.Memory().Value())
	require.Positive(t, node.Status.Allocatable.Cpu().Value())
	eventually(t, "the lease is held", func() error {
		_, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), n.name, metav1.GetOptions{})
		return err
	})
}

func TestPodBecomesReadyAndGoes(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	created := n.create(n.server("web"))
	p := n.waitReady("web")

	require.Equal(t, corev1.PodRunning, p.Status.Phase)
	require.Equal(t, "127.90.127.1", p.Status.HostIP)
	require.Contains(t, p.Status.PodIP, "127.90.")
	for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		require.Equal(t, corev1.ConditionTrue, condition(p, c).Status, c)
	}
	n.ask(p, "/healthz")

	n.delete("web")
	n.waitGone("web")
	require.Empty(t, n.processes())
	require.NoDirExists(t, filepath.Join(n.root, "pods", string(created.UID)))

	n.create(n.server("web"))
	require.Equal(t, p.Status.PodIP, n.waitReady("web").Status.PodIP, "a pod that comes back has its address")
}

func TestPodsThatRunToCompletion(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for _, c := range []struct {
		name   string
		policy corev1.RestartPolicy
		args   []string
		phase  corev1.PodPhase
		code   int32
		reason string
		count  int32
	}{
		{"succeeds", corev1.RestartPolicyNever, []string{"exit"}, corev1.PodSucceeded, 0, "Completed", 0},
		{"fails", corev1.RestartPolicyNever, []string{"exit", "--code=3"}, corev1.PodFailed, 3, "Error", 0},
		{"second-time", corev1.RestartPolicyOnFailure, []string{"exit", "--code=4", "--once-file=/data/once"}, corev1.PodSucceeded, 0, "Completed", 1},
	} {
		p := n.pod(c.name, c.args...)
		p.Spec.RestartPolicy = c.policy
		withEmptyDir(p, "/data")
		n.create(p)
		got := n.wait(c.name, "it ends", func(p *corev1.Pod) bool { return p.Status.Phase == c.phase })
		end := mainStatus(got).State.Terminated
		require.NotNil(t, end, c.name)
		require.Equal(t, c.code, end.ExitCode, c.name)
		require.Equal(t, c.reason, end.Reason, c.name)
		require.Equal(t, c.count, mainStatus(got).RestartCount, c.name)
		require.False(t, ready(got), c.name)
		n.delete(c.name)
		n.waitGone(c.name)
	}
}

func withEmptyDir(p *corev1.Pod, path string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = append(p.Spec.Containers[i].VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: path})
	}
	for i := range p.Spec.InitContainers {
		p.Spec.InitContainers[i].VolumeMounts = append(p.Spec.InitContainers[i].VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: path})
	}
}

func TestCrashLoop(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.create(n.pod("crash", "exit", "--code=7"))
	p := n.wait("crash", "it crashes in a loop", func(p *corev1.Pod) bool {
		return waitingReason(p) == "CrashLoopBackOff" && mainStatus(p).RestartCount >= 2
	})
	require.Equal(t, corev1.PodRunning, p.Status.Phase)
	require.Equal(t, int32(7), mainStatus(p).LastTerminationState.Terminated.ExitCode)
	require.Equal(t, "Error", mainStatus(p).LastTerminationState.Terminated.Reason)
	n.delete("crash")
	n.waitGone("crash")
}

func TestProgramThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.pod("nothing")
	p.Spec.Containers[0].Command = []string{"/no/such/program"}
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	n.create(p)
	got := n.wait("nothing", "it fails", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	require.Equal(t, "StartError", mainStatus(got).State.Terminated.Reason)
	require.Contains(t, mainStatus(got).State.Terminated.Message, "/no/such/program")
}

func TestInitContainersRunInOrder(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.server("web")
	p.Spec.InitContainers = []corev1.Container{
		// The first fails once, and the second ends well only when the first has been there.
		{Name: "first", Image: toolImage, Args: []string{"exit", "--code=5", "--once-file=/data/once"}},
		{Name: "second", Image: toolImage, Args: []string{"exit", "--code=6", "--once-file=/data/once"}},
	}
	withEmptyDir(p, "/data")
	n.create(p)
	got := n.waitReady("web")
	require.Equal(t, int32(1), got.Status.InitContainerStatuses[0].RestartCount)
	require.Equal(t, int32(0), got.Status.InitContainerStatuses[1].RestartCount)
	require.True(t, got.Status.InitContainerStatuses[1].Ready)

	p = n.pod("never", "sleep")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.InitContainers = []corev1.Container{{Name: "bad", Image: toolImage, Args: []string{"exit", "--code=9"}}}
	n.create(p)
	got = n.wait("never", "it fails", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	require.Equal(t, int32(9), got.Status.InitContainerStatuses[0].State.Terminated.ExitCode)
	require.NotNil(t, mainStatus(got).State.Waiting, "the main container was never started")
}

func TestGraceIsKeptAndEnds(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.server("stubborn", "--ignore-term")
	grace := int64(1)
	p.Spec.TerminationGracePeriodSeconds = &grace
	n.create(p)
	n.waitReady("stubborn")
	began := time.Now()
	n.delete("stubborn")
	n.waitGone("stubborn")
	eventually(t, "no process is left", func() error {
		if left := n.processes(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	require.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond)
}

func TestLeftProcessGroupIsEndedWithThePod(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.create(n.server("parent", "--child"))
	n.waitReady("parent")
	require.Len(t, n.processes(), 2)
	n.delete("parent")
	n.waitGone("parent")
	eventually(t, "no process is left", func() error {
		if left := n.processes(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}

func TestUnknownImageIsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.pod("odd", "sleep")
	p.Spec.Containers[0].Image = "example.test/odd:v1"
	n.create(p)
	got := n.wait("odd", "it is refused", func(p *corev1.Pod) bool { return waitingReason(p) == "ErrImageNeverPull" })
	require.Equal(t, corev1.PodPending, got.Status.Phase)
	require.Contains(t, mainStatus(got).State.Waiting.Message, toolImage)

	got.Spec.Containers[0].Image = toolImage
	_, err := client.CoreV1().Pods(n.namespace).Update(t.Context(), got, metav1.UpdateOptions{})
	require.NoError(t, err)
	n.waitReady("odd")
}

func TestWhatAProcessCannotHaveIsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.pod("host", "sleep")
	p.Spec.HostNetwork = true
	p.Spec.Volumes = []corev1.Volume{{Name: "etc", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}}}
	n.create(p)
	got := n.wait("host", "it is refused", func(p *corev1.Pod) bool { return waitingReason(p) == "Unsupported" })
	require.Contains(t, mainStatus(got).State.Waiting.Message, "spec.hostNetwork")
	require.Contains(t, mainStatus(got).State.Waiting.Message, "volume etc")
	require.Empty(t, n.processes())
}

func TestLivenessAndReadiness(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.server("web")
	c := &p.Spec.Containers[0]
	c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1, FailureThreshold: 30}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: httpGet("/healthz"), PeriodSeconds: 1, FailureThreshold: 3}
	n.create(p)
	got := n.waitReady("web")
	since := condition(got, corev1.PodReady).LastTransitionTime
	n.ask(got, "/sick", "to", "true")
	n.wait("web", "it is not ready", func(p *corev1.Pod) bool {
		return !ready(p) && condition(p, corev1.PodReady).Reason == "ContainersNotReady"
	})
	got = n.wait("web", "it is restarted", func(p *corev1.Pod) bool { return mainStatus(p).RestartCount == 1 && ready(p) })
	require.Contains(t, mainStatus(got).LastTerminationState.Terminated.Message, "liveness")
	require.True(t, condition(got, corev1.PodReady).LastTransitionTime.After(since.Time))
}

func TestFaultKeepsAPodStopped(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.create(n.server("web"))
	n.waitReady("web")
	n.annotate("web", kubelet.FaultAnnotation, kubelet.FaultStopped)
	p := n.wait("web", "it is stopped", func(p *corev1.Pod) bool { return waitingReason(p) == "FaultInjected" && !ready(p) })
	require.Contains(t, p.Status.Message, kubelet.FaultAnnotation)
	require.Equal(t, int32(137), mainStatus(p).LastTerminationState.Terminated.ExitCode)
	require.Empty(t, n.processes())
	time.Sleep(1500 * time.Millisecond)
	require.Equal(t, "FaultInjected", waitingReason(n.get("web")), "it stays stopped")

	n.annotate("web", kubelet.FaultAnnotation, "")
	p = n.waitReady("web")
	require.Empty(t, p.Status.Message)
	require.Equal(t, int32(1), mainStatus(p).RestartCount)
}

func TestKubeletRestart(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.create(n.server("web"))
	once := n.pod("once", "sleep")
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	n.create(once)
	done := n.pod("done", "exit")
	done.Spec.RestartPolicy = corev1.RestartPolicyNever
	n.create(done)
	before := n.waitReady("web")
	n.waitReady("once")
	n.wait("done", "it is done", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	n.stop()
	require.Empty(t, n.processes(), "containers end with their kubelet")
	require.Equal(t, corev1.PodRunning, n.get("once").Status.Phase, "the end of the kubelet is not the pod's")

	n.start()
	got := n.wait("web", "it runs again", func(p *corev1.Pod) bool { return mainStatus(p).RestartCount == 1 && ready(p) })
	require.Equal(t, before.Status.PodIP, got.Status.PodIP)
	require.Equal(t, "KubeletRestarted", mainStatus(got).LastTerminationState.Terminated.Reason)
	got = n.wait("once", "it has failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	require.Equal(t, "ContainerStatusUnknown", mainStatus(got).State.Terminated.Reason)
	require.Equal(t, corev1.PodSucceeded, n.get("done").Status.Phase)
}

func TestSecondKubeletIsKeptAway(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.create(n.server("web"))
	n.waitReady("web")
	opts := n.opts
	opts.Listen = fmt.Sprintf("127.90.127.1:%d", lastPort.Add(1))
	opts.Registry = newRegistry()
	k, err := kubelet.New(opts)
	require.NoError(t, err)
	require.ErrorContains(t, k.Run(t.Context()), "another kubelet")
	require.Len(t, n.processes(), 1, "the pods of the first go on")
}

func TestFoldersOfForgottenPodsGo(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	stale := filepath.Join(n.root, "pods", "0000-stale")
	require.NoError(t, os.MkdirAll(stale, 0o755))
	n.start()
	eventually(t, "the folder is gone", func() error {
		if _, err := os.Stat(stale); err == nil {
			return fmt.Errorf("%s is there", stale)
		}
		return nil
	})
}
