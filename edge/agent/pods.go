package agent

import (
	corev1 "k8s.io/api/core/v1"
)

// podKey names a pod in its cluster.
type podKey struct {
	namespace shared
	name      string
}

// podOutline is what is kept of a pod. There are some thirty of them for each
// node, so that it is small: see BenchmarkPodOutlines50k.
type podOutline struct {
	podKey
	node, hostIP shared // empty before it has one
	podIP        string
	phase        corev1.PodPhase
	hostNetwork  bool
	containers   []containerOutline
}

func (p *podOutline) key() podKey { return p.podKey }

// containerOutline is what is kept of a container that is neither one that
// initialises nor one for debugging.
type containerOutline struct {
	name shared
	// waiting and terminated are reasons: why it does not run, and why it ended
	// the last time. Empty when there is none.
	waiting, terminated shared
	restarts            int32 // less than zero when not known
	// requested are the amounts of requestedResources, less than zero where there is none.
	requested [len(requestedResources)]float64
}

// requestedResources are those whose requests are exported: the capacity of a
// cell is counted in them.
var requestedResources = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func drawPod(object any) (*podOutline, error) {
	p, ok := object.(*corev1.Pod)
	if !ok {
		return wrongType[*podOutline](object)
	}
	out := &podOutline{
		podKey: podKey{share(p.Namespace), p.Name},
		node:   share(p.Spec.NodeName), hostIP: share(p.Status.HostIP), podIP: p.Status.PodIP,
		phase: knownPhase(p.Status.Phase), hostNetwork: p.Spec.HostNetwork,
		containers: make([]containerOutline, 0, len(p.Spec.Containers)),
	}
	for _, c := range p.Spec.Containers {
		out.containers = append(out.containers, drawContainer(c, p.Status.ContainerStatuses))
	}
	return out, nil
}

func drawContainer(c corev1.Container, statuses []corev1.ContainerStatus) containerOutline {
	out := containerOutline{name: share(c.Name), waiting: share(""), terminated: share(""), restarts: -1}
	for i, name := range requestedResources {
		out.requested[i] = -1
		if q, ok := c.Resources.Requests[name]; ok {
			out.requested[i] = amount(unitOf(name), q)
		}
	}
	for _, s := range statuses {
		if s.Name != c.Name {
			continue
		}
		out.restarts = s.RestartCount
		if w := s.State.Waiting; w != nil {
			out.waiting = share(w.Reason)
		}
		if e := s.LastTerminationState.Terminated; e != nil {
			out.terminated = share(e.Reason)
		}
		break
	}
	return out
}

// podPhases are all there are.
var podPhases = [...]corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown}

// knownPhase is one of the constants, or empty.
func knownPhase(p corev1.PodPhase) corev1.PodPhase {
	for _, known := range podPhases {
		if p == known {
			return known
		}
	}
	return ""
}

// holdsAddress says whether the pod takes an address from the network of pods.
// One that has ended still names its own, which another may have by now.
func (p *podOutline) holdsAddress() bool {
	return p.podIP != "" && !p.hostNetwork && p.phase != corev1.PodSucceeded && p.phase != corev1.PodFailed
}

// writePods writes, of the series that kube-state-metrics has for pods, those
// that tell how the workloads of a cluster fare in outline. Of series of which
// one is 1 it writes only that.
func writePods(t *textWriter, clusters []clusterState) {
	each := func(write func(cluster string, p *podOutline)) {
		for _, c := range clusters {
			for _, p := range c.pods {
				write(c.name, p)
			}
		}
	}
	containers := func(write func(cluster string, p *podOutline, c *containerOutline)) {
		each(func(cluster string, p *podOutline) {
			for i := range p.containers {
				write(cluster, p, &p.containers[i])
			}
		})
	}
	t.gauge("kube_pod_info", "Information about a pod.")
	each(t.podInfo)
	t.gauge("kube_pod_status_phase", "The present phase of a pod.")
	each(func(cluster string, p *podOutline) {
		if p.phase != "" {
			t.sample(1, "cluster", cluster, "namespace", p.namespace.Value(), "pod", p.name, "phase", string(p.phase))
		}
	})
	t.gauge("kube_pod_container_status_waiting_reason", "Why a container waits, while it does.")
	containers(func(cluster string, p *podOutline, c *containerOutline) { t.containerReason(cluster, p, c, c.waiting) })
	t.gauge("kube_pod_container_status_last_terminated_reason", "Why a container ended the last time, if it has.")
	containers(func(cluster string, p *podOutline, c *containerOutline) {
		t.containerReason(cluster, p, c, c.terminated)
	})
	t.counter("kube_pod_container_status_restarts_total", "How often a container was started again.")
	containers(func(cluster string, p *podOutline, c *containerOutline) {
		if c.restarts >= 0 {
			t.sample(float64(c.restarts), "cluster", cluster, "namespace", p.namespace.Value(), "pod", p.name, "container", c.name.Value())
		}
	})
	t.gauge("kube_pod_container_resource_requests", "What a container asks for of a resource, by its base unit.")
	containers(t.containerRequests)
}

func (t *textWriter) podInfo(cluster string, p *podOutline) {
	hostNetwork := "false"
	if p.hostNetwork {
		hostNetwork = "true"
	}
	t.sample(1, "cluster", cluster, "namespace", p.namespace.Value(), "pod", p.name,
		"host_ip", p.hostIP.Value(), "pod_ip", p.podIP, "node", p.node.Value(), "host_network", hostNetwork)
}

func (t *textWriter) containerReason(cluster string, p *podOutline, c *containerOutline, reason shared) {
	if r := reason.Value(); r != "" {
		t.sample(1, "cluster", cluster, "namespace", p.namespace.Value(), "pod", p.name, "container", c.name.Value(), "reason", r)
	}
}

func (t *textWriter) containerRequests(cluster string, p *podOutline, c *containerOutline) {
	for i, name := range requestedResources {
		if c.requested[i] >= 0 {
			t.sample(c.requested[i], "cluster", cluster, "namespace", p.namespace.Value(), "pod", p.name, "container", c.name.Value(),
				"node", p.node.Value(), "resource", string(name), "unit", unitOf(name))
		}
	}
}
