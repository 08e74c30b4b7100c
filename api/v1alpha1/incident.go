package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Incident is many failures that have one cause: machines that fail together in
// something that they share, and not outside of it. While it is not closed nothing is
// repaired in that. The remediator writes it; it holds back and never acts.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Value",type=string,JSONPath=`.spec.value`
// +kubebuilder:printcolumn:name="Cells",type=string,JSONPath=`.spec.cells`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Affected",type=integer,JSONPath=`.status.affected`
// +kubebuilder:printcolumn:name="Of",type=integer,JSONPath=`.status.domain`
// +kubebuilder:printcolumn:name="Peak",type=integer,JSONPath=`.status.peak`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.cooldownUntil`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`
type Incident struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec IncidentSpec `json:"spec,omitzero"`
	// +optional
	Status IncidentStatus `json:"status,omitempty"`
}

// IncidentKind is what machines share that fail together.
// +kubebuilder:validation:Enum=Rack;Switch;Power;Pool;ClusterControlPath;Zone;Cell
type IncidentKind string

const (
	// IncidentRack is a rack of a zone, for whatever clusters its machines work.
	IncidentRack IncidentKind = "Rack"
	// IncidentSwitch is a network switch.
	IncidentSwitch IncidentKind = "Switch"
	// IncidentPower is a power feed.
	IncidentPower IncidentKind = "Power"
	// IncidentPool is a pool of a cluster: its machines have hardware, image and
	// settings in common.
	IncidentPool IncidentKind = "Pool"
	// IncidentClusterControlPath is a business cluster: the path between its kubelets and
	// its API server, or what was rolled out in all of it.
	IncidentClusterControlPath IncidentKind = "ClusterControlPath"
	// IncidentZone is a zone of a region, in whatever cells.
	IncidentZone IncidentKind = "Zone"
	// IncidentCell is a meta cluster with all that it hosts.
	IncidentCell IncidentKind = "Cell"
)

// IncidentSpec is the suspect. It never changes.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an Incident's spec is a record and cannot be changed"
// +kubebuilder:validation:XValidation:rule="!has(self.zone) || self.kind in ['Rack', 'Switch', 'Power']",message="zone stands with the kinds Rack, Switch and Power; the name of a Zone is its value"
// +kubebuilder:validation:XValidation:rule="has(self.cluster) == (self.kind == 'Pool')",message="cluster stands with the kind Pool, which needs it"
// +kubebuilder:validation:XValidation:rule="!has(self.region) || self.kind == 'Zone'",message="region stands with the kind Zone"
// +kubebuilder:validation:XValidation:rule="size(self.cells) == 1 || has(self.region)",message="only a zone with a region may be in several cells"
type IncidentSpec struct {
	// +required
	Kind IncidentKind `json:"kind,omitempty"`
	// Value is the name of the rack, switch, power feed, pool, cluster, zone or cell.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Value string `json:"value,omitempty"`
	// Cells in which it had machines when the incident began.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Cells []string `json:"cells,omitempty"`
	// Zone of the rack, the switch or the power feed, if the machines name one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// Cluster of the pool.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`
	// Region of the zone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// MaxUnhealthyPercent is the share above which the incident is open, as the strictest
	// policy that speaks for an affected machine had it when the incident began.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxUnhealthyPercent *int32 `json:"maxUnhealthyPercent,omitempty"`
}

// IncidentPhase is how far an incident is.
// +kubebuilder:validation:Enum=Open;Recovering;Closed
type IncidentPhase string

const (
	// IncidentOpen means that more is unhealthy than may be.
	IncidentOpen IncidentPhase = "Open"
	// IncidentRecovering means that no more is unhealthy than may be, and that it is
	// waited whether it stays so.
	IncidentRecovering IncidentPhase = "Recovering"
	// IncidentClosed is final. The suspect may have another incident.
	IncidentClosed IncidentPhase = "Closed"
)

// IncidentStatus is what is known of the suspect now.
type IncidentStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Phase unset means Open.
	// +optional
	Phase IncidentPhase `json:"phase,omitempty"`
	// Since is when the suspect was found.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Affected machines of the suspect: all centrals agree that they are unhealthy.
	// +optional
	Affected int32 `json:"affected"`
	// Unseen machines of the suspect, which may be unhealthy: nobody sees them, or sources
	// contradict each other.
	// +optional
	Unseen int32 `json:"unseen"`
	// Domain is how many machines in use the suspect has.
	// +optional
	Domain int32 `json:"domain"`
	// ElsewhereAffected machines are unhealthy in the rest of what the suspect is part of:
	// the zone (without zones the cell) of a rack, a switch and a power feed, the cluster of a
	// pool, the cell of a cluster, the fleet of a zone and a cell.
	// +optional
	ElsewhereAffected int32 `json:"elsewhereAffected"`
	// Elsewhere is how many machines in use that rest has.
	// +optional
	Elsewhere int32 `json:"elsewhere"`
	// Peak is the most that was affected at a time.
	// +optional
	Peak int32 `json:"peak"`
	// Clusters that have or had affected machines, as CELL/CLUSTER; the first fifty.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=507
	Clusters []string `json:"clusters,omitempty"`
	// RecoveredAt is when the number of unhealthy machines fell to what may be, the last time.
	// What was observed before that does not justify a repair in the suspect.
	// +optional
	RecoveredAt *metav1.Time `json:"recoveredAt,omitempty"`
	// CooldownUntil is when the incident closes unless the number rises. Unset while it is
	// open, or while what recovers is not seen.
	// +optional
	CooldownUntil *metav1.Time `json:"cooldownUntil,omitempty"`
}

// IncidentList is a list of Incidents.
//
// +kubebuilder:object:root=true
type IncidentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Incident `json:"items"`
}
