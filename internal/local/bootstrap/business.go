package bootstrap

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/local/components"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/pki"
)

// accountBMC is what the site's repair Job may do in a business cluster: it plays
// the board that resets a machine.
const accountBMC = "local-bmc"

func (i *installer) installBusiness(ctx context.Context, to *cluster, c layout.Cluster) error {
	if err := to.apply(ctx, kwokRights()...); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		if err := applyNode(ctx, to, n); err != nil {
			return err
		}
	}
	if err := i.Prepared(c); err != nil {
		return err
	}
	objects, err := deploy.Business()
	if err != nil {
		return err
	}
	if err := to.applyAll(ctx, objects); err != nil {
		return err
	}
	if err := to.apply(ctx, repairRights()...); err != nil {
		return err
	}
	for _, account := range []string{deploy.Observer, accountBMC, deploy.NodeCheckAccess} {
		if err := i.keepToken(ctx, to, c, account); err != nil {
			return err
		}
	}
	return nil
}

// keepToken makes a kubeconfig of a service account for another cluster to hold.
func (i *installer) keepToken(ctx context.Context, from *cluster, c layout.Cluster, account string) error {
	token, err := from.token(ctx, deploy.Namespace, account)
	if err != nil {
		return err
	}
	kubeconfig, err := pki.TokenKubeconfig(c.Name, from.server, from.ca, account, token)
	if err != nil {
		return err
	}
	i.keep(c, account, kubeconfig)
	return nil
}

func kwokRights() []client.Object {
	return userRole(components.UserKwok,
		rule([]string{""}, []string{"nodes"}, "get", "list", "watch"),
		rule([]string{""}, []string{"nodes/status", "pods/status"}, "patch"),
		rule([]string{""}, []string{"pods"}, "get", "list", "watch", "patch", "delete"),
		rule([]string{"coordination.k8s.io"}, []string{"leases"}, "get", "list", "watch", "create", "update"),
		rule([]string{""}, []string{"events"}, "create", "patch"),
	)
}

func repairRights() []client.Object {
	return append([]client.Object{account(accountBMC)}, accountRole(accountBMC,
		rule([]string{""}, []string{"nodes"}, "get", "patch"),
		rule([]string{""}, []string{"nodes/status"}, "patch"),
	)...)
}

// applyNode makes a worker node with a living kubelet. A fault that was
// injected into it before the fleet was stopped is gone.
func applyNode(ctx context.Context, to *cluster, n layout.Node) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			layout.LabelKubelet:      layout.KubeletRunning,
			corev1.LabelHostname:     n.Name,
			corev1.LabelTopologyZone: n.Zone,
			v1alpha1.LabelRack:       n.Rack,
			v1alpha1.LabelPool:       layout.Pool,
		}},
		Spec: corev1.NodeSpec{ProviderID: n.ProviderID},
	}
	if err := to.apply(ctx, node); err != nil {
		return err
	}
	if err := removeFault(ctx, to, node); err != nil {
		return err
	}
	node.Status = nodeStatus(n)
	return to.applyStatus(ctx, node)
}

func removeFault(ctx context.Context, to *cluster, node *corev1.Node) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, layout.AnnotationFault)
	if err := to.client.Patch(ctx, node.DeepCopy(), client.RawPatch(mergePatch, []byte(patch))); err != nil {
		return fmt.Errorf("clearing the fault of node %s in cluster %s: %w", node.Name, to.name, err)
	}
	return nil
}

func nodeStatus(n layout.Node) corev1.NodeStatus {
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("32"),
		corev1.ResourceMemory: resource.MustParse("128Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return corev1.NodeStatus{
		Capacity:    size,
		Allocatable: size,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: n.Address},
			{Type: corev1.NodeHostName, Address: n.Name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID:               strings.ReplaceAll(n.HardwareID, "-", ""),
			SystemUUID:              n.HardwareID,
			BootID:                  string(uuid.NewUUID()),
			KernelVersion:           "6.12.0",
			OSImage:                 "Simulated by kwok",
			ContainerRuntimeVersion: "kwok://0.8.0",
			KubeletVersion:          "v1.37.2",
			OperatingSystem:         "linux",
			Architecture:            "amd64",
		},
	}
}
