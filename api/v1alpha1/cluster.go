package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is one business cluster. It lives in the cell that hosts its control plane.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`
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
	// Version of Kubernetes that the cluster should have, for example "v1.37.2".
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Version string `json:"version,omitempty"`
	// ObserverKubeconfigSecret is a Secret beside the Cluster whose key
	// kubeconfig may read Nodes, Pods, Leases and metrics in the business
	// cluster, and nothing else. The edge agent, the remediator and the node
	// operator use it. The agent shows it to kubelets, too, whose serving
	// certificates it verifies by the authority in the kubeconfig, or by those in
	// the Secret's key kubelet-ca.crt. The key kubelet-insecure-skip-tls-verify
	// with the value true lets it scrape kubelets that it cannot verify.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ObserverKubeconfigSecret string `json:"observerKubeconfigSecret,omitempty"`
	// NodeCheckKubeconfigSecret is a Secret beside the Cluster whose key
	// kubeconfig may create, get, list and delete Pods in the namespace
	// pharos-node-checks of the business cluster, and nothing else. The
	// remediator uses it. Without it no machine of the cluster is repaired under
	// a policy that asks for a node check.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeCheckKubeconfigSecret string `json:"nodeCheckKubeconfigSecret,omitempty"`
	// DrainKubeconfigSecret is a Secret beside the Cluster whose key kubeconfig may get
	// and patch Nodes, list Pods and create their evictions in the business cluster, and
	// nothing else. The remediator uses it. Without it no step that drains is taken.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DrainKubeconfigSecret string `json:"drainKubeconfigSecret,omitempty"`
	// Remediation is a repair asked of the cluster operator.
	// +optional
	Remediation *RemediationRequest `json:"remediation,omitempty"`
}

// Reasons of a Cluster's condition Ready. It is True with ReasonAPIServerReady
// and False with ReasonAPIServerNotReady, which are what the API server itself
// says; with any other, ReasonUnreachable included, it is Unknown.
const (
	// ReasonAPIServerReady means that the API server says that it is ready.
	ReasonAPIServerReady = "APIServerReady"
	// ReasonAPIServerNotReady means that the API server says that it is not
	// ready; the message names the checks that it fails.
	ReasonAPIServerNotReady = "APIServerNotReady"
	// ReasonUnauthorized means that the API server does not accept the credential.
	ReasonUnauthorized = "Unauthorized"
	// ReasonKubeconfigMissing means that there is no such Secret, or nothing in it.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigUnreadable means that the cell does not give the Secret out.
	ReasonKubeconfigUnreadable = "KubeconfigUnreadable"
	// ReasonKubeconfigInvalid means that no connection can be made of what the
	// Secret holds.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
)

// Reasons of a Cluster's condition Paused.
const (
	// ReasonAnnotated means that the Cluster bears the annotation pharos.dev/paused.
	ReasonAnnotated = "Annotated"
	// ReasonNotAnnotated means that it does not.
	ReasonNotAnnotated = "NotAnnotated"
)

// ClusterStatus is what the node operator of the cell last saw.
type ClusterStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Version of Kubernetes that the API server last said it is. It is kept while
	// the API server does not answer; the condition Ready says that it does not.
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Version string `json:"version,omitempty"`
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
