package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cell is one meta cluster of the fleet: the control planes of business
// clusters run in it, and it feeds one geography's cascade. The operator runs
// in the cell what this resource describes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Geography",type=string,JSONPath=`.spec.geography`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="Edge",type=string,JSONPath=`.spec.edge.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Cell struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec CellSpec `json:"spec,omitzero"`
	// +optional
	Status CellStatus `json:"status,omitempty"`
}

// CellSpec places a cell and says how to reach it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.edge) || !has(self.edge.mode) || self.edge.mode != 'External' || (has(self.edge.endpoints) && size(self.edge.endpoints) > 0)",message="an External edge needs edge.endpoints: the host:port of each of its Prometheus servers"
type CellSpec struct {
	// Geography is the name of one of the Federation's geographies.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Geography string `json:"geography,omitempty"`
	// Region of the provider, for example "eu-central-1".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// KubeconfigSecret is a Secret beside the operator whose key kubeconfig
	// lets the operator apply the cell's parts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	KubeconfigSecret string `json:"kubeconfigSecret,omitempty"`
	// RemediatorKubeconfigSecret is a Secret beside the remediator whose key
	// kubeconfig lets it read Clusters and their observer Secrets and patch
	// Machines. Unset means that nothing in this cell is ever repaired.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RemediatorKubeconfigSecret string `json:"remediatorKubeconfigSecret,omitempty"`
	// Edge is the cell's Prometheus.
	// +optional
	Edge Edge `json:"edge,omitempty,omitzero"`
	// Network says how pods in the cell reach Services and their API server.
	// +optional
	Network Network `json:"network,omitempty,omitzero"`
	// RepairJobConfigMap names a ConfigMap in the cell, in the namespace of
	// the node operator, whose key job.yaml is the site's Job for a repair of
	// a Machine. Unset means that the cell runs no node operator.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RepairJobConfigMap string `json:"repairJobConfigMap,omitempty"`
}

// EdgeMode says who runs the cell's Prometheus.
// +kubebuilder:validation:Enum=Managed;External
type EdgeMode string

const (
	// EdgeManaged means that the operator runs it.
	EdgeManaged EdgeMode = "Managed"
	// EdgeExternal means that the cell has one already; Pharos only reads it.
	EdgeExternal EdgeMode = "External"
)

// Edge is the cell's Prometheus.
type Edge struct {
	// Mode unset means Managed.
	// +optional
	Mode EdgeMode `json:"mode,omitempty"`
	// Endpoints are where the cascade reads the edge, host:port, one for each
	// server. Unset means the addresses of the edge's own pods.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=270
	Endpoints []string `json:"endpoints,omitempty"`
}

// CellStatus is what the operator last saw of the cell.
type CellStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// EdgeEndpoints are where the cascade reads the edge now. They are kept
	// while a pod is away, so that a dead edge stays a target that is down.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=270
	EdgeEndpoints []string `json:"edgeEndpoints,omitempty"`
	// Parts are the workloads in the cell.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Parts []PartStatus `json:"parts,omitempty"`
}

// CellList is a list of Cells.
//
// +kubebuilder:object:root=true
type CellList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cell `json:"items"`
}
