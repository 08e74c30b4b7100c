package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a person writes on a Remediation. Whoever may only write its status cannot.
const (
	// AnnotationApprovedBy approves the proposal of a policy in mode Approve. Its value
	// is who does so. Taken away before the repair is asked for, it takes that back.
	AnnotationApprovedBy = "pharos.dev/approved-by"
	// AnnotationDeniedBy denies a proposal, or takes back a repair whose request no
	// node operator has answered. Its value is who does so.
	AnnotationDeniedBy = "pharos.dev/denied-by"
	// AnnotationAnswerReason is why, in words.
	AnnotationAnswerReason = "pharos.dev/answer-reason"
)

// Proposes says whether a policy of the mode proposes repairs instead of beginning them.
func (m PolicyMode) Proposes() bool { return m == ModeRecommend || m == ModeApprove }

// PolicyApproval is how a policy in mode Approve asks people.
type PolicyApproval struct {
	// ExpiresSeconds is how long after a repair was proposed it can be approved, in
	// seconds. Without approval in the policy it is 3600.
	// +required
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	ExpiresSeconds *int32 `json:"expiresSeconds,omitempty"`
}

// PersonRecord is what a person said of a repair.
type PersonRecord struct {
	// By is who, as the annotation says. Nobody has checked that.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by,omitempty"`
	// Manager is the program that wrote the annotation last, by metadata.managedFields.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Manager string `json:"manager,omitempty"`
	// At is when it was written last, by the same, or else when it was seen first.
	// +required
	At metav1.Time `json:"at,omitzero"`
	// Reason is why, in words.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// CurrentPhase is the phase of a repair, where its status does not say it, too. A
// proposal that nothing is known of is a proposal, and no repair that may begin.
func (r *Remediation) CurrentPhase() RemediationPhase {
	switch {
	case r.Status.Phase != "":
		return r.Status.Phase
	case r.Spec.Action == ActionEscalate:
		return RemediationEscalated
	case r.Spec.Mode.Proposes():
		return RemediationProposed
	}
	return RemediationPending
}

// CurrentDeadline is the deadline of a repair. That of a proposal counts from when it was
// approved.
func (r *Remediation) CurrentDeadline() metav1.Time {
	if at := r.Status.Deadline; at != nil && at.Before(&r.Spec.Deadline) {
		return *at
	}
	return r.Spec.Deadline
}
