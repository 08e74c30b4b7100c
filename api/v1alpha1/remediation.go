package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Remediation is the record of one repair of one target. It is written before
// the target is touched, and outlives it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rem
// +kubebuilder:printcolumn:name="Cell",type=string,JSONPath=`.spec.target.cell`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.target.cluster`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.target.machine`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.action`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Approved",type=string,JSONPath=`.status.approval.by`
// +kubebuilder:printcolumn:name="Check",type=string,JSONPath=`.status.nodeCheck.result`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Remediation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec RemediationSpec `json:"spec,omitzero"`
	// +optional
	Status RemediationStatus `json:"status,omitempty"`
}

// RemediationSpec is the intent, with what it rests on. It never changes.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Remediation's spec is a record and cannot be changed"
// +kubebuilder:validation:XValidation:rule="has(self.expiresAt) == (has(self.mode) && self.mode == 'Approve' && self.action != 'Escalate')",message="expiresAt belongs to a proposal of mode Approve, which needs it"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Observe'",message="a policy in mode Observe has nothing to record"
// +kubebuilder:validation:XValidation:rule="has(self.replacement) == (self.action == 'Replace')",message="replacement belongs to Replace, which needs it"
type RemediationSpec struct {
	// PolicyName names the RemediationPolicy that decided.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PolicyName string `json:"policyName,omitempty"`
	// Target is the machine to repair.
	// +required
	Target RemediationTarget `json:"target,omitzero"`
	// +required
	Action RemediationAction `json:"action,omitempty"`
	// Replacement is the machine on standby that takes the target's place, of action Replace.
	// +optional
	Replacement *ReplacementTarget `json:"replacement,omitempty"`
	// Drain is how the target's node is emptied before the action. Unset means that it is not.
	// +optional
	Drain *DrainStep `json:"drain,omitempty"`
	// Mode of the policy when it decided. With Recommend or Approve the repair is a
	// proposal, which is not begun unless a person approves it. Unset, as in records of
	// earlier versions, it is none.
	// +optional
	Mode PolicyMode `json:"mode,omitempty"`
	// ExpiresAt is when a proposal of mode Approve cannot be approved any more.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// Reason in words: what is wrong with the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// Deadline by which the repair must be verified; otherwise it has failed. That of a
	// proposal that was approved is in status.deadline.
	// +required
	Deadline metav1.Time `json:"deadline,omitzero"`
	// Evidence that the decision rests on, and when it agreed.
	// +required
	Evidence Evidence `json:"evidence,omitzero"`
	// Gate is how much of the target's surroundings was unhealthy.
	// +required
	Gate GateRecord `json:"gate,omitzero"`
	// Budgets are how much was used of the pool's, the cluster's, the cell's, the
	// geography's and the fleet's before this repair. Its target is unavailable
	// already.
	// +optional
	// +listType=map
	// +listMapKey=level
	// +kubebuilder:validation:MaxItems=8
	Budgets []BudgetRecord `json:"budgets,omitempty"`
	// Place is what budgets of the target beside its cell and cluster are counted in.
	// +optional
	Place RemediationPlace `json:"place,omitempty,omitzero"`
	// Verification as the policy asked for it when the repair was decided. The
	// policy may change or go; what this repair must show does not.
	// +optional
	Verification Verification `json:"verification,omitempty,omitzero"`
	// Epoch of the remediator that wrote this down, as in the request on the target.
	// A later one may take the repair up; its request then bears its own.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch *int32 `json:"epoch,omitempty"`
	// Snapshot names the file in the folder of the remediator's --record that has all
	// that the decision rests on. Unset means that none was recorded. The file may be
	// gone: the folder is bounded, and its disk may have been full.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Snapshot string `json:"snapshot,omitempty"`
}

// RemediationPlace is where a target was when its repair was decided. Labels change
// while a repair runs; what it takes away is missed where it was.
type RemediationPlace struct {
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Geography string `json:"geography,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Pool string `json:"pool,omitempty"`
}

// ReplacementTarget is a machine that takes another's place in its cluster, as it was when
// that was decided.
type ReplacementTarget struct {
	// Machine is in the namespace of the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	MachineUID string `json:"machineUID,omitempty"`
	// Node that it will be.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HardwareID string `json:"hardwareID,omitempty"`
	// ProviderID by which its Node is known to be the machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
}

// RemediationTarget identifies a machine for good.
type RemediationTarget struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cell string `json:"cell,omitempty"`
	// Namespace of the Machine in the cell.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`
	// MachineUID guards against a new Machine under an old name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	MachineUID string `json:"machineUID,omitempty"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HardwareID string `json:"hardwareID,omitempty"`
	// ProviderID of the node, as on the Node and on the Machine.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
	// BootID of the node when the decision was made; a reboot changes it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
}

// Evidence is the list of observations that agree on a finding.
type Evidence struct {
	// AgreedAt is when the last of the observations was read.
	// +required
	AgreedAt metav1.Time `json:"agreedAt,omitzero"`
	// +required
	// +listType=map
	// +listMapKey=source
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Signals []SignalRecord `json:"signals,omitempty"`
}

// SignalRecord is one observation.
type SignalRecord struct {
	// Source that was asked: "central-a", "central-b", "node",
	// "lease" or "node-check".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Source string `json:"source,omitempty"`
	// ObservedAt is when the source itself made the observation: the sample's
	// timestamp, the condition's last heartbeat, the Lease's renewal.
	// +required
	ObservedAt metav1.Time `json:"observedAt,omitzero"`
	// Says is what it says, in words.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Says string `json:"says,omitempty"`
}

// GateRecord is the count of unhealthy machines that the gate was measured on.
type GateRecord struct {
	// +optional
	ClusterMachines int32 `json:"clusterMachines"`
	// +optional
	ClusterUnhealthy int32 `json:"clusterUnhealthy"`
	// +optional
	RackMachines int32 `json:"rackMachines"`
	// +optional
	RackUnhealthy int32 `json:"rackUnhealthy"`
}

// RemediationPhase is how far a repair is.
// +kubebuilder:validation:Enum=Proposed;Pending;Draining;Acting;Verifying;Succeeded;Failed;Cancelled;Escalated
type RemediationPhase string

const (
	// RemediationProposed means that a person is asked; nothing is begun.
	RemediationProposed RemediationPhase = "Proposed"
	// RemediationPending means written down, target not touched yet.
	RemediationPending RemediationPhase = "Pending"
	// RemediationDraining means that the target's node is cordoned and emptied.
	RemediationDraining RemediationPhase = "Draining"
	// RemediationActing means that the request stands on the target.
	RemediationActing RemediationPhase = "Acting"
	// RemediationVerifying means that the repair ran and its effect is awaited.
	RemediationVerifying RemediationPhase = "Verifying"
	// RemediationSucceeded means that metrics and the live node agree that the target is well.
	RemediationSucceeded RemediationPhase = "Succeeded"
	// RemediationFailed means that the repair failed, or did not help in time.
	RemediationFailed RemediationPhase = "Failed"
	// RemediationCancelled means that the repair was withdrawn before the target was touched.
	RemediationCancelled RemediationPhase = "Cancelled"
	// RemediationEscalated means that the machine was handed to people, of a record
	// with the action Escalate. Its hardware is left alone until it is acknowledged.
	RemediationEscalated RemediationPhase = "Escalated"
)

// Final says whether the phase never changes again.
func (p RemediationPhase) Final() bool {
	return p == RemediationSucceeded || p == RemediationFailed || p == RemediationCancelled || p == RemediationEscalated
}

// RemediationStatus is how the repair went.
type RemediationStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Phase unset means Proposed where spec.mode is Recommend or Approve, else Pending.
	// +optional
	Phase RemediationPhase `json:"phase,omitempty"`
	// Reason is a word for why the phase is what it is.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`
	// Message says the same to a person.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Approval is who approved the proposal.
	// +optional
	Approval *PersonRecord `json:"approval,omitempty"`
	// Denial is who denied the proposal, or took the repair back.
	// +optional
	Denial *PersonRecord `json:"denial,omitempty"`
	// Deadline of a proposal that was approved, counted from then. It is never later
	// than spec.deadline.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// TriedAt is when the request was last tried to be written in vain.
	// +optional
	TriedAt *metav1.Time `json:"triedAt,omitempty"`
	// ActedAt is when the request was written on the target.
	// +optional
	ActedAt *metav1.Time `json:"actedAt,omitempty"`
	// RepairedAt is when the node operator reported the end of its work.
	// +optional
	RepairedAt *metav1.Time `json:"repairedAt,omitempty"`
	// EndedAt is when the phase became final.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// VerifiedAt is when metrics and the live node agreed that the target is well.
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
	// Confirmation is the evidence that was read just before the target was
	// touched. The spec's may be older, when the repair had to wait.
	// +optional
	// +listType=map
	// +listMapKey=source
	// +kubebuilder:validation:MaxItems=16
	Confirmation []SignalRecord `json:"confirmation,omitempty"`
	// Verification is the evidence that closed the repair.
	// +optional
	// +listType=map
	// +listMapKey=source
	// +kubebuilder:validation:MaxItems=16
	Verification []SignalRecord `json:"verification,omitempty"`
	// Drain is how far the drain is that spec.drain asks for.
	// +optional
	Drain *DrainRecord `json:"drain,omitempty"`
	// NodeCheck is the check that spec.verification asks for, as far as it is.
	// +optional
	NodeCheck *NodeCheckRecord `json:"nodeCheck,omitempty"`
}

// RemediationList is a list of Remediations.
//
// +kubebuilder:object:root=true
type RemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Remediation `json:"items"`
}
