package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FleetDisruptionBudget bounds how much of a part of the fleet may be unavailable
// before repairs in it stop, and how many run in it at a time. Budgets nest: a
// repair needs room in its pool, its cluster, its cell, its geography and the
// fleet. What no budget bounds is bounded by the built-in figures of its level.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fdb
// +kubebuilder:printcolumn:name="Level",type=string,JSONPath=`.spec.level`
// +kubebuilder:printcolumn:name="Tightest",type=string,JSONPath=`.status.tightest.domain`
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=`.status.tightest.unavailable`
// +kubebuilder:printcolumn:name="Of",type=integer,JSONPath=`.status.tightest.machines`
// +kubebuilder:printcolumn:name="In Flight",type=integer,JSONPath=`.status.tightest.inFlight`
// +kubebuilder:printcolumn:name="Freeze",type=string,JSONPath=`.spec.freeze`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FleetDisruptionBudget struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec FleetDisruptionBudgetSpec `json:"spec,omitzero"`
	// +optional
	Status FleetDisruptionBudgetStatus `json:"status,omitempty"`
}

// BudgetLevel is what a budget is a budget of. Each pool, cluster, cell and
// geography that a budget covers has the whole of it for itself.
// +kubebuilder:validation:Enum=Pool;Cluster;Cell;Geography;Fleet
type BudgetLevel string

const (
	// BudgetPool is a pool of machines of one cluster.
	BudgetPool BudgetLevel = "Pool"
	// BudgetCluster is a business cluster.
	BudgetCluster BudgetLevel = "Cluster"
	// BudgetCell is a meta cluster with all that it hosts.
	BudgetCell BudgetLevel = "Cell"
	// BudgetGeography is all cells of a geography.
	BudgetGeography BudgetLevel = "Geography"
	// BudgetFleet is everything.
	BudgetFleet BudgetLevel = "Fleet"
)

// FreezeNow is the one word that stops every new repair.
// +kubebuilder:validation:Enum=Now
type FreezeNow string

// Now freezes what a budget covers until the word is taken away.
const Now FreezeNow = "Now"

// SlowStart says how many repairs run at a time after a quiet while.
// +kubebuilder:validation:Enum=Doubling;None
type SlowStart string

const (
	// SlowStartDoubling begins with one repair, goes on with two when it is
	// verified, then with four, and begins anew after one that has failed.
	SlowStartDoubling SlowStart = "Doubling"
	// SlowStartNone begins with as many as may be in flight.
	SlowStartNone SlowStart = "None"
)

// FleetDisruptionBudgetSpec is the bounds. Of several budgets of one level that
// cover the same thing, the strictest figure of each kind holds.
//
// +kubebuilder:validation:XValidation:rule="self.level != 'Fleet' || !has(self.names) || size(self.names) == 0",message="there is one fleet: names stand with the other levels"
// +kubebuilder:validation:XValidation:rule="!has(self.cells) || size(self.cells) == 0 || self.level == 'Pool' || self.level == 'Cluster'",message="cells stand with the levels Pool and Cluster; a budget of level Cell names its cells in names"
// +kubebuilder:validation:XValidation:rule="has(self.maxUnavailable) || has(self.maxUnavailablePercent) || has(self.minAvailable) || has(self.maxInFlight) || has(self.minIntervalSeconds) || has(self.stormCooldownSeconds) || has(self.slowStart) || has(self.freeze) || (has(self.freezes) && size(self.freezes) > 0)",message="a budget bounds something: a budget without any figure would allow everything"
// +kubebuilder:validation:XValidation:rule="self.level != 'Pool' || !has(self.slowStart) || self.slowStart == 'None' || has(self.maxInFlight)",message="a pool begins slowly only where maxInFlight says up to what"
// +kubebuilder:validation:XValidation:rule="!has(self.freeze) || (has(self.reason) && size(self.reason) > 0)",message="whoever freezes repairs says why, in reason"
type FleetDisruptionBudgetSpec struct {
	// Level says what each of the bounds is a bound of.
	// +required
	Level BudgetLevel `json:"level,omitempty"`
	// Names of the pools, clusters, cells or geographies that are covered. Empty
	// covers every one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
	// Cells whose pools or clusters are covered. Empty covers those of every cell.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Cells []string `json:"cells,omitempty"`
	// MaxUnavailable is how many machines may be unavailable, the one to be
	// repaired included, for another repair to begin. However much it is, no
	// more than half of what is covered.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`
	// MaxUnavailablePercent is the same as a share, in percent, rounded down, and
	// at least one machine. With both set the smaller number holds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxUnavailablePercent *int32 `json:"maxUnavailablePercent,omitempty"`
	// MinAvailable is how many machines must be available for a repair to begin.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// MaxInFlight is how many repairs may run at a time, from the request until
	// the repair is verified or has failed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxInFlight *int32 `json:"maxInFlight,omitempty"`
	// MinIntervalSeconds is how long after one repair was asked for the next may
	// be, in seconds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MinIntervalSeconds *int32 `json:"minIntervalSeconds,omitempty"`
	// StormCooldownSeconds is how long, in seconds, the number of unhealthy machines must
	// not have risen for an Incident to close after it has fallen to what may be. Of
	// several budgets that cover something of the suspect the longest holds. Unset means 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	StormCooldownSeconds *int32 `json:"stormCooldownSeconds,omitempty"`
	// SlowStart unset means Doubling for the fleet, and None for every other level.
	// +optional
	SlowStart SlowStart `json:"slowStart,omitempty"`
	// Freeze stops new repairs now, and withdraws requests that were not answered.
	// +optional
	Freeze FreezeNow `json:"freeze,omitempty"`
	// Freezes are times in which no repair begins.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Freezes []FreezeWindow `json:"freezes,omitempty"`
	// Reason says why, to whoever is on call.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// FreezeWindow is a time in which no repair begins.
//
// +kubebuilder:validation:XValidation:rule="self.until > self.from",message="a freeze ends after it has begun"
type FreezeWindow struct {
	// +required
	From metav1.Time `json:"from,omitzero"`
	// Until is the first instant at which repairs may begin again.
	// +required
	Until metav1.Time `json:"until,omitzero"`
	// Reason says why, to whoever is on call.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// FleetDisruptionBudgetStatus is how much of the budget is used.
type FleetDisruptionBudgetStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Tightest is, of all that the budget covers, what has the least room left.
	// +optional
	Tightest *BudgetRecord `json:"tightest,omitempty"`
	// FrozenSince is when spec.freeze was first seen, and nothing where it is not set: what
	// somebody stopped and forgot is told of by this.
	// +optional
	FrozenSince *metav1.Time `json:"frozenSince,omitempty"`
}

// BudgetRecord is how much of a budget was used at a time.
type BudgetRecord struct {
	// +required
	Level BudgetLevel `json:"level,omitempty"`
	// Domain that the figures are of, in words.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=600
	Domain string `json:"domain,omitempty"`
	// Machines in use of which something is known.
	// +optional
	Machines int32 `json:"machines"`
	// Unavailable machines: unhealthy, being deleted or under repair.
	// +optional
	Unavailable int32 `json:"unavailable"`
	// MaxUnavailable unset means that the level has no such bound.
	// +optional
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`
	// InFlight counts repairs from the request until they are verified or have failed.
	// +optional
	InFlight int32 `json:"inFlight"`
	// MaxInFlight is what slow start allows at that time. Unset means that the
	// level has no such bound.
	// +optional
	MaxInFlight *int32 `json:"maxInFlight,omitempty"`
}

// FleetDisruptionBudgetList is a list of FleetDisruptionBudgets.
//
// +kubebuilder:object:root=true
type FleetDisruptionBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FleetDisruptionBudget `json:"items"`
}
