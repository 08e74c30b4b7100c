package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/process"
)

// FaultAnnotation on a pod makes the kubelet play a fault. The only value is FaultStopped.
const (
	FaultAnnotation = "local.pharos.dev/fault"
	FaultStopped    = "stopped"
)

// Reasons of container states, beside those that Kubernetes has.
const (
	reasonCompleted     = "Completed"
	reasonError         = "Error"
	reasonStartError    = "StartError"
	reasonCrashLoop     = "CrashLoopBackOff"
	reasonCreating      = "ContainerCreating"
	reasonInitializing  = "PodInitializing"
	reasonConfigError   = "CreateContainerConfigError"
	reasonUnknownImage  = "ErrImageNeverPull"
	reasonUnsupported   = "Unsupported"
	reasonFault         = "FaultInjected"
	reasonKubeletLeft   = "KubeletRestarted"
	reasonStatusUnknown = "ContainerStatusUnknown"
)

// podState is what is known of a pod on this node. The status that the API shows is a function of it.
type podState struct {
	// Pod has the newest specification, labels and annotations.
	Pod *corev1.Pod
	// Address is the pod's own, Host the node's. Address is empty until one is assigned.
	Address, Host string
	// Started is when the kubelet first saw the pod.
	Started metav1.Time
	// Containers holds init containers and containers by name; their names do not clash.
	Containers map[string]containerState
	// Terminating says that the pod is being deleted and none of its containers will run again.
	Terminating bool
}

// containerState is what is known of one container.
type containerState struct {
	// State and Last are as the API shows them.
	State, Last corev1.ContainerState
	// Runs counts the starts.
	Runs int32
	// Started and Ready are what the probes say, false when the container does not run.
	Started, Ready bool
	// Finished says that the container has ended for good.
	Finished bool
	// ID names the current or last run.
	ID string
}

func (c containerState) restartCount() int32 { return max(c.Runs-1, 0) }

// succeeded says that the container has ended for good, and well.
func (c containerState) succeeded() bool { return c.Finished && c.exitedWell() }

// exitedWell says that the container does not run, and that its last run ended well.
func (c containerState) exitedWell() bool {
	return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
}

// ended says that the container does not run, and has run before.
func (c containerState) ended() bool {
	return c.State.Running == nil && (c.State.Terminated != nil || c.Last.Terminated != nil)
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// faulted says whether a pod is to be kept stopped.
func faulted(pod *corev1.Pod) bool { return pod.Annotations[FaultAnnotation] == FaultStopped }

// willRestart says whether a container that ended with a code is run again.
func willRestart(policy corev1.RestartPolicy, isInit bool, code int32) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	default:
		return !isInit || code != 0
	}
}

// restartDelay is the wait before a restart: none after the first crash, then the base, doubling up to the most.
func restartDelay(crashes int, base, most time.Duration) time.Duration {
	if crashes < 2 {
		return 0
	}
	delay := base
	for i := 2; i < crashes && delay < most; i++ {
		delay *= 2
	}
	return min(delay, most)
}

// terminated returns the API's view of an exit.
func terminated(e process.Exit, id, message string) corev1.ContainerState {
	reason := reasonCompleted
	if e.Code != 0 {
		reason = reasonError
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: e.Code, Signal: e.Signal, Reason: reason, Message: message, ContainerID: id,
		StartedAt: seconds(e.StartedAt), FinishedAt: seconds(e.FinishedAt),
	}}
}

// seconds has the precision of the API, so that a status read back equals the one written.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// recoverState returns the state of a pod that an earlier kubelet may have run. Nothing of it runs any more, because
// containers end with their kubelet; what had run counts as a restart, or as failed when it must not run twice.
func recoverState(pod *corev1.Pod, host string, now metav1.Time) podState {
	s := podState{Pod: pod, Host: host, Started: now, Containers: map[string]containerState{}}
	if pod.Status.StartTime != nil {
		s.Started = *pod.Status.StartTime
	}
	policy := pod.Spec.RestartPolicy
	for _, c := range pod.Spec.InitContainers {
		s.Containers[c.Name] = recoverContainer(policy, true, statusOf(pod.Status.InitContainerStatuses, c.Name), now)
	}
	for _, c := range pod.Spec.Containers {
		s.Containers[c.Name] = recoverContainer(policy, false, statusOf(pod.Status.ContainerStatuses, c.Name), now)
	}
	return s
}

func statusOf(statuses []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	for _, s := range statuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

func recoverContainer(policy corev1.RestartPolicy, isInit bool, s corev1.ContainerStatus, now metav1.Time) containerState {
	c := containerState{State: waiting(reasonCreating, ""), Last: s.LastTerminationState, ID: s.ContainerID}
	end := s.State.Terminated
	if s.State.Running != nil {
		end = &corev1.ContainerStateTerminated{
			ExitCode: 137, Signal: 9, Reason: reasonKubeletLeft, Message: "the process ended together with the kubelet of its node",
			StartedAt: s.State.Running.StartedAt, FinishedAt: now, ContainerID: s.ContainerID,
		}
	}
	if end == nil {
		if s.LastTerminationState.Terminated != nil {
			c.Runs = s.RestartCount + 1
		}
		return c
	}
	c.Runs = s.RestartCount + 1
	if willRestart(policy, isInit, end.ExitCode) {
		c.Last = corev1.ContainerState{Terminated: end}
		return c
	}
	if s.State.Running != nil {
		end.Reason = reasonStatusUnknown
	}
	c.State, c.Finished = corev1.ContainerState{Terminated: end}, true
	return c
}
