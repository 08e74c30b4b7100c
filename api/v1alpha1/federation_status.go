package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FederationStatus is what the operator last saw.
type FederationStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Cells is how many cells feed this federation.
	// +optional
	Cells int32 `json:"cells,omitempty"`
	// RulesDigest is that of the rules and the contract of your own that run: those
	// of spec.rules that were accepted last. Empty means that there are none.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RulesDigest string `json:"rulesDigest,omitempty"`
	// Parts are the workloads in the hub.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1024
	Parts []PartStatus `json:"parts,omitempty"`
	// Geographies say which cascade shard reads which cell.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Geographies []GeographyStatus `json:"geographies,omitempty"`
}

// GeographyStatus is the shard plan of one geography. The next plan begins with
// it, so that cells stay where they are.
type GeographyStatus struct {
	// Name of the geography.
	// +required
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name,omitempty"`
	// Shards are the numbers of its cascade servers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	Shards []int32 `json:"shards,omitempty"`
	// Moving counts the cells that two shards read, until the second is warm.
	// +optional
	Moving int32 `json:"moving,omitempty"`
	// Message is the last change of the plan, and why.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// Cells are where each cell is read.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	Cells []CellPlacement `json:"cells,omitempty"`
}

// CellPlacement says which cascade shard reads a cell.
type CellPlacement struct {
	// Name of the Cell.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Shard that reads it.
	// +optional
	Shard int32 `json:"shard"`
	// MovingTo is a second shard that reads it as well, and will read it alone.
	// +optional
	MovingTo *int32 `json:"movingTo,omitempty"`
	// Reading is Beside while the cell goes from one geography to another, in that of the
	// two of which the centrals do not expect it. Unset means that they expect it here.
	// +optional
	Reading CellReading `json:"reading,omitempty"`
	// Series that it brought when that was last measured, within a quarter. 0
	// means that it was never measured.
	// +optional
	Series int64 `json:"series,omitempty"`
	// EdgeShards is among how many servers of its edge the cell's clusters are
	// divided, as the centrals expect it. 0 means that this was never settled.
	// +optional
	EdgeShards int32 `json:"edgeShards,omitempty"`
	// EdgeShardsBeside is a second division, while one takes the other's place:
	// each server of the edge watches what is its own by either.
	// +optional
	EdgeShardsBeside *int32 `json:"edgeShardsBeside,omitempty"`
}

// CellReading says how a geography reads a cell that two of them read.
// +kubebuilder:validation:Enum=Beside
type CellReading string

// ReadingBeside is a geography that reads a cell which the centrals expect of another.
const ReadingBeside CellReading = "Beside"

// PartStatus is one workload that the operator runs.
type PartStatus struct {
	// Name of the workload.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Ready counts its ready replicas.
	// +optional
	Ready int32 `json:"ready"`
	// Desired counts the replicas asked for.
	// +optional
	Desired int32 `json:"desired"`
	// Addresses of its ready pods, host:port.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=270
	Addresses []string `json:"addresses,omitempty"`
}
