package kubelet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podStatus returns the status that the API should show. What the kubelet does not decide is kept from before.
func podStatus(before corev1.PodStatus, s podState, now metav1.Time) corev1.PodStatus {
	out := *before.DeepCopy()
	out.ObservedGeneration = s.Pod.Generation
	out.Phase = phase(s)
	out.StartTime = &s.Started
	out.HostIP, out.HostIPs = s.Host, []corev1.HostIP{{IP: s.Host}}
	if s.Address != "" {
		out.PodIP, out.PodIPs = s.Address, []corev1.PodIP{{IP: s.Address}}
	}
	out.InitContainerStatuses = containerStatuses(s.Pod.Spec.InitContainers, s)
	out.ContainerStatuses = containerStatuses(s.Pod.Spec.Containers, s)
	for i := range out.InitContainerStatuses {
		out.InitContainerStatuses[i].Ready = s.Containers[out.InitContainerStatuses[i].Name].succeeded()
	}
	out.Message = ""
	if faulted(s.Pod) {
		out.Message = faultMessage
	}
	for _, c := range conditions(s, out.Phase) {
		out.Conditions = setCondition(out.Conditions, c, now)
	}
	return out
}

const faultMessage = "stopped by the annotation " + FaultAnnotation

// phase sums up the containers.
func phase(s podState) corev1.PodPhase {
	if p := initPhase(s); p != "" {
		return p
	}
	return mainPhase(s)
}

// initPhase is the phase of a pod whose init containers have not all ended well; it is empty once they have.
func initPhase(s podState) corev1.PodPhase {
	for _, c := range s.Pod.Spec.InitContainers {
		st := s.Containers[c.Name]
		switch {
		case st.succeeded():
		case st.Finished || s.Terminating:
			return corev1.PodFailed
		default:
			return corev1.PodPending
		}
	}
	return ""
}

// mainPhase is the phase of a pod whose init containers have done their work.
func mainPhase(s podState) corev1.PodPhase {
	started, finished, failed := 0, 0, 0
	for _, c := range s.Pod.Spec.Containers {
		st := s.Containers[c.Name]
		if st.State.Running != nil || st.ended() {
			started++
		}
		if st.Finished || s.Terminating {
			finished++
			if !st.exitedWell() {
				failed++
			}
		}
	}
	total := len(s.Pod.Spec.Containers)
	switch {
	case finished == total && failed > 0:
		return corev1.PodFailed
	case finished == total:
		return corev1.PodSucceeded
	case started == total:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

func containerStatuses(containers []corev1.Container, s podState) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range containers {
		st := s.Containers[c.Name]
		out = append(out, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: st.ID,
			State: *st.State.DeepCopy(), LastTerminationState: *st.Last.DeepCopy(),
			RestartCount: st.restartCount(), Ready: st.Ready, Started: &st.Started,
		})
	}
	return out
}

// conditions are those that the kubelet decides.
func conditions(s podState, p corev1.PodPhase) []corev1.PodCondition {
	ready := readyCondition(s, p)
	containersReady := ready
	containersReady.Type = corev1.ContainersReady
	return []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		initializedCondition(s),
		containersReady,
		ready,
	}
}

func initializedCondition(s podState) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	var names []string
	for _, ic := range s.Pod.Spec.InitContainers {
		if !s.Containers[ic.Name].succeeded() {
			names = append(names, ic.Name)
		}
	}
	if len(names) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: %v", names)
	}
	return c
}

func readyCondition(s podState, p corev1.PodPhase) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	var names []string
	for _, mc := range s.Pod.Spec.Containers {
		if !s.Containers[mc.Name].Ready {
			names = append(names, mc.Name)
		}
	}
	switch {
	case p == corev1.PodSucceeded:
		c.Reason = "PodCompleted"
	case p == corev1.PodFailed:
		c.Reason = "PodFailed"
	case len(names) == 0:
		c.Status = corev1.ConditionTrue
	default:
		c.Reason, c.Message = "ContainersNotReady", fmt.Sprintf("containers with unready status: %v", names)
	}
	if faulted(s.Pod) {
		c.Message = faultMessage
	}
	return c
}

// setCondition replaces a condition, and moves its transition time only with its status.
func setCondition(all []corev1.PodCondition, c corev1.PodCondition, now metav1.Time) []corev1.PodCondition {
	c.LastTransitionTime = now
	i := slices.IndexFunc(all, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	if i < 0 {
		return append(all, c)
	}
	if all[i].Status == c.Status {
		c.LastTransitionTime = all[i].LastTransitionTime
	}
	c.ObservedGeneration = all[i].ObservedGeneration
	all[i] = c
	return all
}
