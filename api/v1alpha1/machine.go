package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine is one worker machine of a business cluster, or a spare. It lives in
// the cell of its cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Rack",type=string,JSONPath=`.spec.failureDomain.rack`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Repair",type=string,JSONPath=`.spec.remediation.action`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.remediation.phase`
// +kubebuilder:printcolumn:name="Quarantined",type=string,JSONPath=`.metadata.annotations.pharos\.dev/quarantined`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Machine struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec MachineSpec `json:"spec,omitzero"`
	// +optional
	Status MachineStatus `json:"status,omitempty"`
}

// MachineState is what a machine is for now.
// +kubebuilder:validation:Enum=Standby;InUse
type MachineState string

const (
	// MachineStandby is a spare that waits to be claimed.
	MachineStandby MachineState = "Standby"
	// MachineInUse is a worker of its cluster.
	MachineInUse MachineState = "InUse"
)

// MachineSpec describes a machine, and carries the repair asked of it.
type MachineSpec struct {
	// ClusterName names the Cluster, in the same namespace, that the machine works for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`
	// NodeName names the machine's Node in that cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`
	// Pool of the machine inside its cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Pool string `json:"pool,omitempty"`
	// Roles of the machine, for example "worker".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	Roles []string `json:"roles,omitempty"`
	// ProviderID as on the Node.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
	// HardwareID outlives the Machine object: a serial number or the BMC's
	// identity. Attempts at repair are counted by it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HardwareID string `json:"hardwareID,omitempty"`
	// Address at which the site's repair Job reaches the machine.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address,omitempty"`
	// FailureDomain lists what the machine shares with others.
	// +optional
	FailureDomain FailureDomain `json:"failureDomain,omitempty,omitzero"`
	// State asked for. Unset means InUse.
	// +optional
	State MachineState `json:"state,omitempty"`
	// Remediation is a repair asked of the node operator, which answers in status.
	// +optional
	Remediation *RemediationRequest `json:"remediation,omitempty"`
}

// FailureDomain names what a machine shares with others and may fail with.
type FailureDomain struct {
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Rack string `json:"rack,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Switch string `json:"switch,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Power string `json:"power,omitempty"`
}

// RemediationAction is one kind of repair.
// +kubebuilder:validation:Enum=RestartComponent;Reboot;Reinstall;Replace;Escalate
type RemediationAction string

// Actions, from the mildest to the most destructive, and the end of them all.
const (
	ActionRestartComponent RemediationAction = "RestartComponent"
	ActionReboot           RemediationAction = "Reboot"
	ActionReinstall        RemediationAction = "Reinstall"
	ActionReplace          RemediationAction = "Replace"
	// ActionEscalate hands a machine to people. It is recorded like a repair, and
	// touches nothing.
	ActionEscalate RemediationAction = "Escalate"
)

// What is written on a Machine when one takes another's place.
const (
	// AnnotationClaimedBy, on a machine on standby, names the Remediation that takes it
	// to replace another. Nothing else takes it while it stands.
	AnnotationClaimedBy = "pharos.dev/claimed-by"
	// AnnotationQuarantined names the Remediation by which a machine was replaced, or
	// that it failed to take another's place by. Nothing takes or repairs the machine
	// until a person has looked at it and taken the annotation away.
	AnnotationQuarantined = "pharos.dev/quarantined"
)

// RemediationRequest asks the owner of an object for a repair. The same id is
// never acted on twice.
//
// +kubebuilder:validation:XValidation:rule="has(self.spare) == (self.action == 'Replace')",message="spare belongs to Replace, which needs it"
type RemediationRequest struct {
	// ID of the request: the name of the Remediation in the hub.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ID string `json:"id,omitempty"`
	// Action asked for.
	// +required
	// +kubebuilder:validation:XValidation:rule="self != 'Escalate'",message="a machine is handed to people by a record, not by a request"
	Action RemediationAction `json:"action,omitempty"`
	// Reason in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// StartBefore is when the request lapses: its owner must not start it
	// then or later. It is close to the moment at which the evidence was last
	// confirmed, so that a request that was overlooked is never carried out on
	// a machine that has since recovered.
	// +required
	StartBefore metav1.Time `json:"startBefore,omitzero"`
	// Deadline by which a repair that was started must have ended.
	// +required
	Deadline metav1.Time `json:"deadline,omitzero"`
	// HardwareID of the machine that the evidence is about. Its owner refuses
	// the request when the machine's own differs.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HardwareID string `json:"hardwareID,omitempty"`
	// Spare is the machine on standby that takes the place of this one, of a request to
	// Replace. It bears the request's id in its annotation pharos.dev/claimed-by; its
	// owner refuses the request when it does not.
	// +optional
	Spare *SpareReference `json:"spare,omitempty"`
	// Epoch of the remediator that asks: the leaseTransitions of the Lease that it
	// leads by. Whoever answers remembers the highest that it answered, and refuses
	// a request of a lower one, and of none where it remembers any: it was written
	// by a remediator that leads no more.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch *int32 `json:"epoch,omitempty"`
}

// SpareReference names a machine on standby, in the namespace of whoever refers to it.
type SpareReference struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// UID guards against a new Machine under an old name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// RepairPhase is how far the owner of an object is with a repair.
// +kubebuilder:validation:Enum=Running;Succeeded;Failed;Refused
type RepairPhase string

const (
	// RepairRunning means that the repair has started.
	RepairRunning RepairPhase = "Running"
	// RepairSucceeded means that the repair ran to its end; it does not mean that it helped.
	RepairSucceeded RepairPhase = "Succeeded"
	// RepairFailed means that the repair started and did not end well.
	RepairFailed RepairPhase = "Failed"
	// RepairRefused means that the repair was never started.
	RepairRefused RepairPhase = "Refused"
)

// RemediationResponse answers a RemediationRequest.
type RemediationResponse struct {
	// ID of the request that this answers.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ID string `json:"id,omitempty"`
	// +required
	Phase RepairPhase `json:"phase,omitempty"`
	// Message for a person.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// MachineStatus is what the node operator last saw.
type MachineStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Remediation answers spec.remediation.
	// +optional
	Remediation *RemediationResponse `json:"remediation,omitempty"`
	// Power is what the site's provider saw last of the machine's power. Nothing but a
	// fresh Off lets pods be ended that nobody can reach.
	// +optional
	Power *PowerStatus `json:"power,omitempty"`
	// RemediationEpoch is the highest epoch of a request that was answered. Unset
	// means that none bore one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RemediationEpoch *int32 `json:"remediationEpoch,omitempty"`
}

// MachineList is a list of Machines.
//
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Machine `json:"items"`
}
