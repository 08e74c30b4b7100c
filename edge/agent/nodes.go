package agent

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// writeNodes writes the series that kube-state-metrics has for nodes, with its
// names and labels, and the label cluster in front.
func writeNodes(t *textWriter, clusters []clusterState) {
	each := func(write func(cluster string, n *corev1.Node)) {
		for _, c := range clusters {
			for _, n := range c.nodes {
				write(c.spec.Name, n)
			}
		}
	}
	t.family("kube_node_info", "Information about a cluster node.")
	each(t.nodeInfo)
	t.family("kube_node_created", "Unix creation timestamp.")
	each(func(cluster string, n *corev1.Node) {
		t.sample(float64(n.CreationTimestamp.Unix()), "cluster", cluster, "node", n.Name)
	})
	t.family("kube_node_spec_unschedulable", "Whether a node takes no new pods.")
	each(func(cluster string, n *corev1.Node) {
		t.sample(number(n.Spec.Unschedulable), "cluster", cluster, "node", n.Name)
	})
	t.family("kube_node_status_condition", "The condition of a cluster node.")
	each(t.nodeConditions)
	t.family("kube_node_labels", "Kubernetes labels converted to Prometheus labels.")
	each(t.nodeLabels)
}

func (t *textWriter) nodeInfo(cluster string, n *corev1.Node) {
	info, address := n.Status.NodeInfo, ""
	if len(n.Status.Addresses) > 0 {
		address = n.Status.Addresses[0].Address
	}
	t.sample(1, "cluster", cluster, "node", n.Name,
		"kernel_version", info.KernelVersion, "os_image", info.OSImage,
		"container_runtime_version", info.ContainerRuntimeVersion, "kubelet_version", info.KubeletVersion,
		"provider_id", n.Spec.ProviderID, "pod_cidr", n.Spec.PodCIDR,
		"system_uuid", info.SystemUUID, "internal_ip", address)
}

// nodeConditions writes three series for each condition, of which one is 1. A
// condition with a status that is none of the three has none.
func (t *textWriter) nodeConditions(cluster string, n *corev1.Node) {
	for _, c := range n.Status.Conditions {
		sample := func(status corev1.ConditionStatus, label string) {
			t.sample(number(c.Status == status), "cluster", cluster, "node", n.Name, "condition", string(c.Type), "status", label)
		}
		sample(corev1.ConditionTrue, "true")
		sample(corev1.ConditionFalse, "false")
		sample(corev1.ConditionUnknown, "unknown")
	}
}

func (t *textWriter) nodeLabels(cluster string, n *corev1.Node) {
	labels := make([]string, 0, 2*(2+len(exportedLabels)))
	labels = append(labels, "cluster", cluster, "node", n.Name)
	for i, key := range exportedLabels {
		if value, ok := n.Labels[key]; ok {
			labels = append(labels, t.labelNames[i], value)
		}
	}
	t.sample(1, labels...)
}

// labelName is the series' label for a node's label, as kube-state-metrics names it.
func labelName(key string) string {
	return "label_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, key)
}
