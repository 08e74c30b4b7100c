package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemediationPolicy says which machines may be repaired, when, and how.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rempol
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Allowed",type=string,JSONPath=`.status.conditions[?(@.type=="RemediationAllowed")].status`
// +kubebuilder:printcolumn:name="Unhealthy",type=integer,JSONPath=`.status.unhealthy`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.held`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RemediationPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec RemediationPolicySpec `json:"spec,omitzero"`
	// +optional
	Status RemediationPolicyStatus `json:"status,omitempty"`
}

// PolicyMode says whether a policy acts.
// +kubebuilder:validation:Enum=Observe;Recommend;Approve;ActLimited;Act
type PolicyMode string

const (
	// ModeObserve decides and reports, and writes to no machine.
	ModeObserve PolicyMode = "Observe"
	// ModeRecommend writes down what it would do for people to see, and never does it.
	ModeRecommend PolicyMode = "Recommend"
	// ModeApprove writes down what it would do, and does it if a person approves.
	ModeApprove PolicyMode = "Approve"
	// ModeActLimited repairs, up to the policy's limit.
	ModeActLimited PolicyMode = "ActLimited"
	// ModeAct repairs.
	ModeAct PolicyMode = "Act"
)

// RemediationPolicySpec is a rule for repairing nodes that are not ready.
//
// +kubebuilder:validation:XValidation:rule="has(self.matchAll) || (has(self.cells) && size(self.cells) > 0) || (has(self.pools) && size(self.pools) > 0)",message="a policy selects cells or pools, or says matchAll: All; an empty selection is not everything"
// +kubebuilder:validation:XValidation:rule="!has(self.matchAll) || ((!has(self.cells) || size(self.cells) == 0) && (!has(self.pools) || size(self.pools) == 0))",message="matchAll stands alone, without cells or pools"
// +kubebuilder:validation:XValidation:rule="!has(self.verification) || !has(self.verification.nodeCheck) || (has(self.verification.nodeCheck.timeoutSeconds) ? self.verification.nodeCheck.timeoutSeconds : 120) + 60 <= (has(self.timeoutSeconds) ? self.timeoutSeconds : 1800)",message="a node check must end before the repair's deadline: verification.nodeCheck.timeoutSeconds (120 when unset) must be at least 60 less than timeoutSeconds (1800 when unset)"
// +kubebuilder:validation:XValidation:rule="!has(self.escalation) || self.escalation.map(s, s.action == 'RestartComponent' ? 0 : s.action == 'Reboot' ? 1 : s.action == 'Reinstall' ? 2 : 3).isSorted()",message="an escalation goes from the mildest to the most destructive: RestartComponent, Reboot, Reinstall, Replace"
// +kubebuilder:validation:XValidation:rule="!has(self.escalation) || !has(self.verification) || !has(self.verification.nodeCheck) || self.escalation.all(s, !has(s.timeoutSeconds) || (has(self.verification.nodeCheck.timeoutSeconds) ? self.verification.nodeCheck.timeoutSeconds : 120) + 60 <= s.timeoutSeconds)",message="a node check must end before the deadline of each step: verification.nodeCheck.timeoutSeconds (120 when unset) must be at least 60 less than its timeoutSeconds"
// +kubebuilder:validation:XValidation:rule="has(self.limit) == (has(self.mode) && self.mode == 'ActLimited')",message="limit belongs to mode ActLimited, which needs it"
// +kubebuilder:validation:XValidation:rule="!has(self.approval) || (has(self.mode) && self.mode == 'Approve')",message="approval belongs to mode Approve"
type RemediationPolicySpec struct {
	// Mode is Observe to report what would be done, Recommend to propose it to people
	// in Remediations, Approve to do what a person approves of that, ActLimited to do at
	// most what limit allows, Act to do it. Unset means Observe.
	// +optional
	Mode PolicyMode `json:"mode,omitempty"`
	// Limit of mode ActLimited.
	// +optional
	Limit PolicyLimit `json:"limit,omitempty,omitzero"`
	// Approval is how mode Approve asks people.
	// +optional
	Approval PolicyApproval `json:"approval,omitempty,omitzero"`
	// MatchAll selects every machine of the fleet. It must be said.
	// +optional
	MatchAll MatchAll `json:"matchAll,omitempty"`
	// Cells whose machines are selected. Empty with pools set means any cell.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Cells []string `json:"cells,omitempty"`
	// Pools whose machines are selected. Empty with cells set means any pool.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	Pools []string `json:"pools,omitempty"`
	// Escalation is what is tried in turn on a node that is not ready, from the
	// mildest to the most destructive. After the last step, always, the machine is
	// handed to people: a Remediation with the action Escalate is written, and the
	// hardware is left alone until somebody acknowledges that. Unset means Reboot alone.
	// +optional
	// +listType=map
	// +listMapKey=action
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Escalation []EscalationStep `json:"escalation,omitempty"`
	// EscalationWindowSeconds is for how long a repair of the same hardware counts
	// for the choice of the next step, in seconds. One that failed counts until a
	// later one succeeded, however long ago it was. Unset means 86400.
	// +optional
	// +kubebuilder:validation:Minimum=3600
	// +kubebuilder:validation:Maximum=604800
	EscalationWindowSeconds *int32 `json:"escalationWindowSeconds,omitempty"`
	// UnhealthySeconds is how long a node must have been not ready, in
	// seconds, before it is repaired. Unset means 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	UnhealthySeconds *int32 `json:"unhealthySeconds,omitempty"`
	// FlappingPercent is the share of the last half hour, in percent, from which on a
	// node that is not ready is repaired though it has not been so for unhealthySeconds
	// at a time: one that flaps never is. Every central must say so, and in sum it must
	// have been unhealthySeconds. Neither an incident nor a repair may lie in that half
	// hour. 100 means never. Unset means 30.
	// +optional
	// +kubebuilder:validation:Minimum=20
	// +kubebuilder:validation:Maximum=100
	FlappingPercent *int32 `json:"flappingPercent,omitempty"`
	// MaxEvidenceAgeSeconds is the age at which an observation no longer
	// counts. Unset means 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	MaxEvidenceAgeSeconds *int32 `json:"maxEvidenceAgeSeconds,omitempty"`
	// MaxUnhealthyPercent is the share of a rack or a cluster, in percent,
	// above which its unhealthy machines are held: suspect what they share. It is
	// rounded down, and is one machine at least: one sick machine of four may be
	// repaired, two may not. Unset means 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxUnhealthyPercent *int32 `json:"maxUnhealthyPercent,omitempty"`
	// TimeoutSeconds is how long a repair may take until it is verified, in
	// seconds, where its step does not say. No node operator begins what has not a
	// minute left. Unset means 1800.
	// +optional
	// +kubebuilder:validation:Minimum=120
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// CooldownSeconds is how long after a repair that succeeded the same
	// machine is left alone, in seconds. After one that failed the next step of
	// the escalation follows at once. Unset means 3600.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	CooldownSeconds *int32 `json:"cooldownSeconds,omitempty"`
	// Verification is what a repair must show beside the agreement of the
	// centrals, the live Node and its Lease. Unset means nothing more.
	// +optional
	Verification Verification `json:"verification,omitempty,omitzero"`
}

// EscalationStep is one of the things that are tried.
//
// +kubebuilder:validation:XValidation:rule="!has(self.sparePool) || self.action == 'Replace'",message="sparePool belongs to Replace"
type EscalationStep struct {
	// Action of the step. What it does to a machine, the site's repair Job says.
	// +required
	// +kubebuilder:validation:XValidation:rule="self != 'Escalate'",message="Escalate cannot be written: it is what always comes after the last step"
	Action RemediationAction `json:"action,omitempty"`
	// TimeoutSeconds is how long the step may take until it is verified, in
	// seconds. Unset means the policy's timeoutSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=120
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// Attempts is how many times in escalationWindowSeconds the step may succeed on
	// the same hardware, until it counts as no help and the next step is due. A step
	// that failed is not repeated. Unset means 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Attempts *int32 `json:"attempts,omitempty"`
	// Drain has the node be cordoned and its pods be evicted before the step, as their
	// PodDisruptionBudgets allow. Needs the Cluster's drainKubeconfigSecret: without it
	// the step is not taken there. Unset means that nothing is done to pods.
	// +optional
	Drain *DrainStep `json:"drain,omitempty"`
	// SparePool is the pool of the same cluster of which a machine on standby takes the
	// place of one that is replaced. Unset means the pool of that machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	SparePool string `json:"sparePool,omitempty"`
}

// PolicyLimit is how much a policy in mode ActLimited may do.
type PolicyLimit struct {
	// PerDay is how many repairs of the policy may begin in any 24 hours, in the
	// whole fleet, whatever came of them. It is counted from the Remediations that
	// name the policy. Beyond it machines are held, with reason LimitReached.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	PerDay *int32 `json:"perDay,omitempty"`
	// Action is the most destructive that the policy may do by itself. A machine for
	// which a harsher one is due is held, with reason LimitReached. Unset means any
	// that the escalation has.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != 'Escalate'",message="handing a machine to people is never limited"
	Action RemediationAction `json:"action,omitempty"`
}

// MatchAll is the one word that selects everything.
// +kubebuilder:validation:Enum=All
type MatchAll string

// MatchAllMachines selects every machine of the fleet.
const MatchAllMachines MatchAll = "All"

// RemediationPolicyStatus is what the policy decided last.
type RemediationPolicyStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Unhealthy counts the selected machines that some source calls unhealthy.
	// +optional
	Unhealthy int32 `json:"unhealthy"`
	// Held counts the unhealthy machines that are not being repaired.
	// +optional
	Held int32 `json:"held"`
	// Holds are the first of them, by name, with the reason.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Holds []HoldRecord `json:"holds,omitempty"`
}

// HoldRecord says why a machine is not being repaired.
type HoldRecord struct {
	// +required
	// +kubebuilder:validation:MaxLength=253
	Cell string `json:"cell,omitempty"`
	// +required
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`
	// Reason is the word.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`
	// Message says the same to a person, with the numbers.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// RemediationPolicyList is a list of RemediationPolicies.
//
// +kubebuilder:object:root=true
type RemediationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RemediationPolicy `json:"items"`
}
