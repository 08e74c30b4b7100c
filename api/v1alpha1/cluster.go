package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is one business cluster. It lives in the cell that hosts its control plane.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Cluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec ClusterSpec `json:"spec,omitzero"`
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSize is the size of a business cluster's control plane.
// +kubebuilder:validation:Enum=Small;Medium;Large
type ClusterSize string

// Sizes of a control plane.
const (
	ClusterSmall  ClusterSize = "Small"
	ClusterMedium ClusterSize = "Medium"
	ClusterLarge  ClusterSize = "Large"
)

// ClusterSpec describes a business cluster.
type ClusterSpec struct {
	// Profile of the cluster, for example "standard", "serverless" or "edge".
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Profile string `json:"profile,omitempty"`
	// Size of the control plane.
	// +optional
	Size ClusterSize `json:"size,omitempty"`
	// Version of Kubernetes, for example "v1.37.2".
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Version string `json:"version,omitempty"`
	// ObserverKubeconfigSecret is a Secret beside the Cluster whose key
	// kubeconfig may read Nodes, Leases and metrics in the business cluster,
	// and nothing else. The edge agent and the remediator use it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ObserverKubeconfigSecret string `json:"observerKubeconfigSecret,omitempty"`
	// Remediation is a repair asked of the cluster operator.
	// +optional
	Remediation *RemediationRequest `json:"remediation,omitempty"`
}

// ClusterStatus is what the cluster operator last saw.
type ClusterStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Remediation answers spec.remediation.
	// +optional
	Remediation *RemediationResponse `json:"remediation,omitempty"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
