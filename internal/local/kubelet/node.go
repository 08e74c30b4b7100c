package kubelet

import (
	"context"
	"runtime"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/internal/version"
)

const (
	// leaseSeconds is how long the node counts as alive without a sign of life, Kubernetes' own default.
	leaseSeconds = 40
	// maxPods is Kubernetes' own default.
	maxPods = 110
)

// node returns the Node as it is registered.
func (k *Kubelet) node() *corev1.Node {
	capacity := capacity()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.opts.NodeName,
			Labels: map[string]string{
				corev1.LabelHostname:   k.opts.NodeName,
				corev1.LabelOSStable:   runtime.GOOS,
				corev1.LabelArchStable: runtime.GOARCH,
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: k.hostAddress()},
				{Type: corev1.NodeHostName, Address: k.opts.NodeName},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{
				KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(k.listen.Port())},
			},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
				KubeletVersion: "pharos-" + version.Version, ContainerRuntimeVersion: "process://" + version.Version,
			},
			Conditions: nodeConditions(),
		},
	}
}

func nodeConditions() []corev1.NodeCondition {
	now := metav1.Now()
	c := func(t corev1.NodeConditionType, s corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: s, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []corev1.NodeCondition{
		c(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "the process kubelet runs pods"),
		c(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "Loopback", "pods use loopback addresses"),
	}
}

// capacity is that of the machine. Processes are not held to what they request; the scheduler counts with it all the same.
func capacity() corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		out[corev1.ResourceMemory] = *resource.NewQuantity(int64(info.Totalram)*int64(info.Unit), resource.BinarySI)
	}
	return out
}

// nodePing is virtual-kubelet's view of the node: alive while this process is.
type nodePing struct{}

// Ping implements node.NodeProvider.
func (nodePing) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus implements node.NodeProvider. The status never changes.
func (nodePing) NotifyNodeStatus(context.Context, func(*corev1.Node)) {}
