package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is written on a Node that is drained before its machine is repaired.
const (
	// AnnotationCordonedBy names the Remediation that cordoned the node. Without it a
	// cordon is somebody else's, and is never touched.
	AnnotationCordonedBy = "pharos.dev/cordoned-by"
	// AnnotationFencedBy names the Remediation that declared the node out of service, when
	// its machine was known to be off.
	AnnotationFencedBy = "pharos.dev/fenced-by"
	// TaintOutOfService lets Kubernetes end the pods of a node that is known to be off.
	TaintOutOfService = "node.kubernetes.io/out-of-service"
)

// DrainStep is how the node of a machine is emptied before a step of an escalation.
type DrainStep struct {
	// TimeoutSeconds is how long that may take, in seconds, beside the time of the
	// step. When pods are left then, the machine is handed to people, unless it is known
	// to be off.
	// +required
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// DrainRecord is how far a drain is.
type DrainRecord struct {
	// StartedAt is when the drain was written down, before the node was touched.
	// +required
	StartedAt metav1.Time `json:"startedAt,omitzero"`
	// CordonedAt is when the node was seen to be cordoned by this repair.
	// +optional
	CordonedAt *metav1.Time `json:"cordonedAt,omitempty"`
	// Left counts the pods that must go and have not been evicted, Leaving those that
	// have been and are still there.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Left int32 `json:"left,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Leaving int32 `json:"leaving,omitempty"`
	// Blocked are the first of those that may not be evicted, with the reason.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Blocked []BlockedPod `json:"blocked,omitempty"`
	// EndedAt is when nothing was left that must go, or the machine was known to be off.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
}

// BlockedPod is a pod that may not be evicted.
type BlockedPod struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`
	// Reason is the answer of the API server. It names the PodDisruptionBudget.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// PowerState is whether a machine has power.
// +kubebuilder:validation:Enum=On;Off
type PowerState string

// Power states.
const (
	PowerOn  PowerState = "On"
	PowerOff PowerState = "Off"
)

// PowerStatus is what the site's provider saw of the power of a machine.
type PowerStatus struct {
	// +required
	State PowerState `json:"state,omitempty"`
	// ObservedAt is when that was so. Old observations prove nothing.
	// +required
	ObservedAt metav1.Time `json:"observedAt,omitzero"`
	// HardwareID of what was asked, so that nothing is concluded of other hardware.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HardwareID string `json:"hardwareID,omitempty"`
}
