package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeCheckNamespace is where the pods of node checks run, in every business
// cluster. The kubeconfig that Pharos holds for them reaches no further.
const NodeCheckNamespace = "pharos-node-checks"

// ComponentNodeCheck is the value of LabelComponent on the pod of a node check.
const ComponentNodeCheck = "node-check"

// Marks that bind the pod of a node check to what it checks.
const (
	// LabelRemediation names the Remediation that the pod verifies.
	LabelRemediation = "pharos.dev/remediation"
	// AnnotationAttempt counts the pods of one Remediation, from 1.
	AnnotationAttempt = "pharos.dev/attempt"
	// AnnotationNodeUID is the UID of the Node that the pod is to check.
	AnnotationNodeUID = "pharos.dev/node-uid"
	// AnnotationBootID is the boot id that the Node had when the pod was asked for.
	AnnotationBootID = "pharos.dev/boot-id"
)

// Verification says what a repair must show on top of what every repair must
// show: that all centrals, the live Node and its Lease agree that it helped.
type Verification struct {
	// NodeCheck is a pod that must run on the repaired node and exit with 0.
	// Unset means that no pod runs.
	// +optional
	NodeCheck *NodeCheckPod `json:"nodeCheck,omitempty"`
}

// NodeCheckPod is one pod with one container, which runs to completion on the
// repaired node. It runs as nobody, without capabilities, with a root file system
// that it cannot write to, and without a token for the API server.
type NodeCheckPod struct {
	// Image to run. The node must be able to pull it without a secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image,omitempty"`
	// Command that replaces the image's entrypoint. Empty leaves the entrypoint.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Command []string `json:"command,omitempty"`
	// Args of the command, or of the image's entrypoint.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=1024
	Args []string `json:"args,omitempty"`
	// TimeoutSeconds is how long the pod may take from its start, pulling the
	// image included, in seconds. Unset means 120.
	// +optional
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// NodeCheckResult is how far a node check is, or what came of it.
// +kubebuilder:validation:Enum=Pending;Running;Pass;Fail;Timeout;NotRun
type NodeCheckResult string

const (
	// NodeCheckPending means that the pod is asked for and was not seen yet.
	NodeCheckPending NodeCheckResult = "Pending"
	// NodeCheckRunning means that the pod is on the node and has not ended.
	NodeCheckRunning NodeCheckResult = "Running"
	// NodeCheckPass means that the check ran on the repaired node and exited with 0.
	NodeCheckPass NodeCheckResult = "Pass"
	// NodeCheckFail means that the check ran and exited with anything else.
	NodeCheckFail NodeCheckResult = "Fail"
	// NodeCheckTimeout means that the check began and did not end in time.
	NodeCheckTimeout NodeCheckResult = "Timeout"
	// NodeCheckNotRun means that nothing is known from this pod: it never began,
	// was taken away, or ran before the node came to be what it is now.
	NodeCheckNotRun NodeCheckResult = "NotRun"
)

// Ended says whether nothing more is to be learned from the pod.
func (r NodeCheckResult) Ended() bool {
	return r == NodeCheckPass || r == NodeCheckFail || r == NodeCheckTimeout || r == NodeCheckNotRun
}

// NodeCheckRecord is the latest node check of a repair. It is written before the
// pod is made, and again with the result before the pod is deleted.
type NodeCheckRecord struct {
	// Attempt counts the pods, from 1. Another pod is made only if nothing is
	// known from the one before.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
	// Pod is its name, in the namespace pharos-node-checks of the business cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`
	// PodUID is known once the pod was seen.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PodUID string `json:"podUID,omitempty"`
	// NodeUID of the Node that the result holds for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	NodeUID string `json:"nodeUID,omitempty"`
	// BootID that the result holds for: it says nothing of the node after another boot.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
	// +required
	Result NodeCheckResult `json:"result,omitempty"`
	// Reason is a word for the result, mostly the kubelet's own.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`
	// Message says the same to a person; of a check that failed, the last it wrote.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// ExitCode of a check that ran to its end.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// RequestedAt is when the pod was asked for.
	// +required
	RequestedAt metav1.Time `json:"requestedAt,omitzero"`
	// StartedAt is when the container began, by the node's clock.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// FinishedAt is when it ended, by the node's clock.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}
