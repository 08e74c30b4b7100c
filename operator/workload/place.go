// Package workload turns a part of Pharos into Kubernetes objects, applies
// them, takes away what is no longer wanted, and reports what runs. Which parts
// there are, and with which configuration, is decided elsewhere.
package workload

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// FieldOwner is the name under which the operator applies every object.
const FieldOwner = "pharos-operator"

// Ports of the parts, the same everywhere.
const (
	PrometheusPort      = 9090
	AlertmanagerPort    = 9093
	NotifyPort          = 9095
	EdgeAgentPort       = 9096
	RemediatorPort      = 8081
	MachineOperatorPort = 8082
)

// Place is where the parts of one Federation or one Cell are.
type Place struct {
	Namespace string
	// Labels tell the objects of this place from everything else in the
	// namespace. What bears them all is the operator's own.
	Labels map[string]string
	// Marks are further labels of its objects. They may change, so its pods, which would be
	// made anew, do not have them.
	Marks map[string]string
	// Owner is the object in the same cluster whose deletion takes the parts
	// with it. Nil where there is none.
	Owner *metav1ac.OwnerReferenceApplyConfiguration
}

// Part is one workload: what its pods are called and how they are told apart.
type Part struct {
	// Name of the workload, and of its Service and ConfigMap.
	Name string
	// Component is one of the values of v1alpha1.LabelComponent.
	Component string
	// Labels tell the part from others of its component, for example by
	// geography or replica. They must never change while the part exists.
	Labels map[string]string
	// ServiceAccount that its pods run as.
	ServiceAccount string
	Image          string
	// Port on which it serves.
	Port int32
}

// Objects are applied in order.
type Objects []runtime.ApplyConfiguration

// labels are those of an object.
func (p Place) labels(part Part, program string) map[string]string {
	l := p.podLabels(part, program)
	maps.Copy(l, p.Marks)
	return l
}

// podLabels are those of a pod: what changes them restarts it.
func (p Place) podLabels(part Part, program string) map[string]string {
	l := Selector(part, program)
	maps.Copy(l, p.Labels)
	l[v1alpha1.LabelManagedBy] = "pharos"
	return l
}

// Selector returns the labels by which a workload knows its pods.
func Selector(part Part, program string) map[string]string {
	l := map[string]string{"app.kubernetes.io/name": program, v1alpha1.LabelComponent: part.Component}
	maps.Copy(l, part.Labels)
	return l
}

// Programs, the values of the label app.kubernetes.io/name.
const (
	Prometheus   = "prometheus"
	Alertmanager = "alertmanager"
	Pharos       = "pharos"
)

// Service gives a part a name and an address of its own, at its own port.
func (p Place) Service(part Part, program string) runtime.ApplyConfiguration {
	s := corev1ac.Service(part.Name, p.Namespace).
		WithLabels(p.labels(part, program)).
		WithSpec(corev1ac.ServiceSpec().
			WithSelector(Selector(part, program)).
			WithPorts(corev1ac.ServicePort().WithName(portName).WithPort(part.Port)))
	if p.Owner != nil {
		s.WithOwnerReferences(p.Owner)
	}
	return s
}

// DNSAddress is where the Service of a part is reached by its DNS name, host:port.
func (p Place) DNSAddress(part Part) string {
	return net.JoinHostPort(part.Name+"."+p.Namespace+".svc", strconv.Itoa(int(part.Port)))
}

// Address is where the Service of a part is reached, host:port: by its DNS
// name, or by its cluster IP when addressing says so. The Service must have
// been applied.
func (p Place) Address(ctx context.Context, live client.Reader, part Part, addressing v1alpha1.ServiceAddressing) (string, error) {
	if addressing != v1alpha1.ServiceClusterIP {
		return p.DNSAddress(part), nil
	}
	var s corev1.Service
	if err := live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: part.Name}, &s); err != nil {
		return "", fmt.Errorf("reading Service %s: %w", part.Name, err)
	}
	return net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(part.Port))), nil
}
