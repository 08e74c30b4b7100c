package agent

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// maxConditions and maxResources bound what one node may take; kubelets and
	// problem detectors set about a dozen of each.
	maxConditions = 32
	maxResources  = 24
	// kubeletPort is where a kubelet serves that does not say.
	kubeletPort = 10250
)

// exportedLabels are the node labels that leave the business cluster.
var exportedLabels = [...]string{corev1.LabelTopologyZone, v1alpha1.LabelRack, v1alpha1.LabelPool}

// nodeOutline is what is kept of a node.
type nodeOutline struct {
	name          string
	created       int64 // Unix seconds
	unschedulable bool
	providerID    string
	podCIDR       string
	systemUUID    string
	internalIP    string // empty when it has none
	kubeletPort   int32

	kernel, image, runtime, kubelet shared
	labels                          [len(exportedLabels)]shared // of exportedLabels; empty where it has none

	conditions            []nodeCondition
	capacity, allocatable []quantity
}

type nodeCondition struct {
	kind   shared
	status corev1.ConditionStatus
}

func (n *nodeOutline) key() string { return n.name }

func (n *nodeOutline) ready() bool {
	return slices.ContainsFunc(n.conditions, func(c nodeCondition) bool {
		return c.status == corev1.ConditionTrue && c.kind.Value() == string(corev1.NodeReady)
	})
}

func drawNode(object any) (*nodeOutline, error) {
	n, ok := object.(*corev1.Node)
	if !ok {
		return wrongType[*nodeOutline](object)
	}
	info := n.Status.NodeInfo
	out := &nodeOutline{
		name: n.Name, created: n.CreationTimestamp.Unix(), unschedulable: n.Spec.Unschedulable,
		providerID: n.Spec.ProviderID, podCIDR: n.Spec.PodCIDR, systemUUID: info.SystemUUID,
		internalIP: internalAddress(n.Status.Addresses), kubeletPort: n.Status.DaemonEndpoints.KubeletEndpoint.Port,
		kernel: share(info.KernelVersion), image: share(info.OSImage),
		runtime: share(info.ContainerRuntimeVersion), kubelet: share(info.KubeletVersion),
		conditions: drawConditions(n.Status.Conditions),
		capacity:   drawResources(n.Status.Capacity), allocatable: drawResources(n.Status.Allocatable),
	}
	if out.kubeletPort == 0 {
		out.kubeletPort = kubeletPort
	}
	for i, label := range exportedLabels {
		out.labels[i] = share(n.Labels[label])
	}
	return out, nil
}

// drawConditions keeps the first condition of each type: two would be two
// samples of one series.
func drawConditions(in []corev1.NodeCondition) []nodeCondition {
	out := make([]nodeCondition, 0, min(len(in), maxConditions))
	for _, c := range in {
		kind := share(string(c.Type))
		if slices.ContainsFunc(out, func(o nodeCondition) bool { return o.kind == kind }) {
			continue
		}
		if len(out) == maxConditions {
			break
		}
		out = append(out, nodeCondition{kind: kind, status: knownStatus(c.Status)})
	}
	return out
}

// knownStatus is one of the constants, so that none is kept once for each
// condition of each node.
func knownStatus(s corev1.ConditionStatus) corev1.ConditionStatus {
	for _, known := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
		if s == known {
			return known
		}
	}
	return ""
}

func internalAddress(in []corev1.NodeAddress) string {
	for _, a := range in {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// writeNodes writes the series that kube-state-metrics has for nodes, with its
// names and labels, and the label cluster in front.
func writeNodes(t *textWriter, clusters []clusterState) {
	each := func(write func(cluster string, n *nodeOutline)) {
		for _, c := range clusters {
			for _, n := range c.nodes {
				write(c.name, n)
			}
		}
	}
	t.gauge("kube_node_info", "Information about a cluster node.")
	each(t.nodeInfo)
	t.gauge("kube_node_created", "Unix creation timestamp.")
	each(func(cluster string, n *nodeOutline) {
		t.sample(float64(n.created), "cluster", cluster, "node", n.name)
	})
	t.gauge("kube_node_spec_unschedulable", "Whether a node takes no new pods.")
	each(func(cluster string, n *nodeOutline) {
		t.sample(number(n.unschedulable), "cluster", cluster, "node", n.name)
	})
	t.gauge("kube_node_status_condition", "The condition of a cluster node.")
	each(t.nodeConditions)
	t.gauge("kube_node_status_capacity", "The total of a resource of a node, by its base unit.")
	each(func(cluster string, n *nodeOutline) { t.nodeResources(cluster, n, n.capacity) })
	t.gauge("kube_node_status_allocatable", "What a node has of a resource for pods, by its base unit.")
	each(func(cluster string, n *nodeOutline) { t.nodeResources(cluster, n, n.allocatable) })
	t.gauge("kube_node_labels", "Kubernetes labels converted to Prometheus labels.")
	each(t.nodeLabels)
}

func (t *textWriter) nodeInfo(cluster string, n *nodeOutline) {
	t.sample(1, "cluster", cluster, "node", n.name,
		"kernel_version", n.kernel.Value(), "os_image", n.image.Value(),
		"container_runtime_version", n.runtime.Value(), "kubelet_version", n.kubelet.Value(),
		"provider_id", n.providerID, "pod_cidr", n.podCIDR,
		"system_uuid", n.systemUUID, "internal_ip", n.internalIP)
}

// nodeConditions writes three series for each condition, of which one is 1. A
// condition with a status that is none of the three has none.
func (t *textWriter) nodeConditions(cluster string, n *nodeOutline) {
	for _, c := range n.conditions {
		sample := func(status corev1.ConditionStatus, label string) {
			t.sample(number(c.status == status), "cluster", cluster, "node", n.name, "condition", c.kind.Value(), "status", label)
		}
		sample(corev1.ConditionTrue, "true")
		sample(corev1.ConditionFalse, "false")
		sample(corev1.ConditionUnknown, "unknown")
	}
}

func (t *textWriter) nodeResources(cluster string, n *nodeOutline, resources []quantity) {
	for _, q := range resources {
		t.sample(q.value, "cluster", cluster, "node", n.name, "resource", q.resource.Value(), "unit", q.unit)
	}
}

func (t *textWriter) nodeLabels(cluster string, n *nodeOutline) {
	labels := make([]string, 0, 2*(2+len(exportedLabels)))
	labels = append(labels, "cluster", cluster, "node", n.name)
	for i, value := range n.labels {
		// To Prometheus, an empty label is none.
		if v := value.Value(); v != "" {
			labels = append(labels, t.labelNames[i], v)
		}
	}
	t.sample(1, labels...)
}

// labelName is the series' label for a node's label, as kube-state-metrics names it.
func labelName(key string) string { return "label_" + wordOf(key) }

// wordOf makes a name of Kubernetes fit for Prometheus, as kube-state-metrics does.
func wordOf(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, name)
}
