// Package policy decides which machines are repaired, which are held and why.
//
// It is a pure function of its inputs: it has no clock, client, logger or
// goroutine. Not knowing never starts a repair and never finishes one.
package policy

// Reason is the word for a decision. The same word stands in conditions,
// events, metric labels and logs.
type Reason string

// Reasons for not acting because something is not known. A repair that is
// written down but not begun waits while one of these holds.
const (
	// ReasonInventoryUnknown means that the cell's machines could not be listed.
	ReasonInventoryUnknown Reason = "InventoryUnknown"
	// ReasonEvidenceMissing means that a central did not answer, or knows nothing of the cell or cluster.
	ReasonEvidenceMissing Reason = "EvidenceMissing"
	// ReasonEvidencePartial means that a central answered with warnings.
	ReasonEvidencePartial Reason = "EvidencePartial"
	// ReasonEvidenceStale means that a sample is older than the policy allows or
	// lies in the future, or that clocks differ, so that no age can be told.
	ReasonEvidenceStale Reason = "EvidenceStale"
	// ReasonEvidenceConflict means that the centrals contradict each other.
	ReasonEvidenceConflict Reason = "EvidenceConflict"
	// ReasonClusterUnreachable means that the cell itself does not see the cluster.
	ReasonClusterUnreachable Reason = "ClusterUnreachable"
	// ReasonLiveUnknown means that the Node or its Lease could not be read.
	ReasonLiveUnknown Reason = "LiveUnknown"
	// ReasonControlPathSuspected means that many Leases of the cluster are old at once.
	ReasonControlPathSuspected Reason = "ControlPathSuspected"
	// ReasonInFlight means that as many repairs run in the cluster, or in what it is
	// part of, as may run at a time.
	ReasonInFlight Reason = "InFlight"
	// ReasonNodeCheckUnavailable means that a policy asks for a node check and none
	// is known to be possible: the Cluster names no kubeconfig for it, that does not
	// work, its timeout leaves no room, or the pod cannot be read or made.
	ReasonNodeCheckUnavailable Reason = "NodeCheckUnavailable"
	// ReasonDrainUnavailable means that the step drains the node first, and that the Cluster
	// names no kubeconfig for that.
	ReasonDrainUnavailable Reason = "DrainUnavailable"
	// ReasonRequestFailed means that the last look, or a write that begins the
	// repair, failed. It is tried again in the next round.
	ReasonRequestFailed Reason = "RequestFailed"
)

// Reasons for not acting because something is known. A repair that is written
// down but not begun is cancelled for one of these.
const (
	// ReasonPaused means that a person asked for hands off.
	ReasonPaused Reason = "Paused"
	// ReasonNotInUse means that the machine is a spare.
	ReasonNotInUse Reason = "NotInUse"
	// ReasonQuarantined means that the machine was replaced, or failed to replace another,
	// and that nobody has looked at it since.
	ReasonQuarantined Reason = "Quarantined"
	// ReasonNoSpare means that the machine is to be replaced, and that no machine on standby
	// can take its place.
	ReasonNoSpare Reason = "NoSpare"
	// ReasonDeleting means that the machine or its node is being deleted.
	ReasonDeleting Reason = "Deleting"
	// ReasonCordoned means that somebody works on the node.
	ReasonCordoned Reason = "Cordoned"
	// ReasonIdentityUnknown means that the machine has no hardware id, the node no
	// boot id, or that nothing proves that the node is the machine's.
	ReasonIdentityUnknown Reason = "IdentityUnknown"
	// ReasonDuplicateMachine means that several machines claim one node or one hardware id.
	ReasonDuplicateMachine Reason = "DuplicateMachine"
	// ReasonFailureDomainUnknown means that the machine names no rack, so that the gate cannot be measured.
	ReasonFailureDomainUnknown Reason = "FailureDomainUnknown"
	// ReasonForeignOwner means that another controller works on the node.
	ReasonForeignOwner Reason = "ForeignOwner"
	// ReasonControlPlane means that the machine is part of a control plane. How many
	// members of etcd that leaves is not known, so that nothing is done to it.
	ReasonControlPlane Reason = "ControlPlaneMachine"
	// ReasonRollOut means that the cluster is on its way to another version.
	ReasonRollOut Reason = "RollOutInProgress"
	// ReasonForeignRemediation means that somebody else asked for a repair of the machine.
	ReasonForeignRemediation Reason = "ForeignRemediation"
	// ReasonLiveStateContradicts means that the live node does not confirm the metrics.
	ReasonLiveStateContradicts Reason = "LiveStateContradicts"
	// ReasonNotLongEnough means that the node has not been unhealthy for long enough.
	ReasonNotLongEnough Reason = "NotLongEnough"
	// ReasonCorrelatedFailure means that too much of the rack or cluster is unhealthy.
	ReasonCorrelatedFailure Reason = "CorrelatedFailure"
	// ReasonIncidentOpen means that the machine is in something that has an incident which
	// is not closed, or was not observed since it recovered.
	ReasonIncidentOpen Reason = "IncidentOpen"
	// ReasonFrozen means that a person has stopped repairs in a part of the fleet.
	ReasonFrozen Reason = "Frozen"
	// ReasonBudgetExceeded means that too much of the pool, cluster, cell, geography
	// or fleet is unavailable for another disruption.
	ReasonBudgetExceeded Reason = "BudgetExceeded"
	// ReasonLoneMachine means that the machine is the only one of its cluster or pool.
	ReasonLoneMachine Reason = "LoneMachine"
	// ReasonCooldown means that the machine was repaired a short while ago.
	ReasonCooldown Reason = "Cooldown"
	// ReasonLimitReached means that a policy in mode ActLimited has begun as many
	// repairs as it may in a day.
	ReasonLimitReached Reason = "LimitReached"
	// ReasonEscalated means that no step of the escalation is left for the hardware, or
	// none may follow what was tried. People must look, and say that they did.
	ReasonEscalated Reason = "Escalated"
	// ReasonRepairsFailing means that most machines of the pool that were reinstalled of
	// late did not come back.
	ReasonRepairsFailing Reason = "RepairsFailing"
	// ReasonPolicyChanged means that by the policy as it is now another action is due, or
	// that it is in another mode than when it proposed.
	ReasonPolicyChanged Reason = "PolicyChanged"
	// ReasonObserveOnly means that the policy would act, but only observes.
	ReasonObserveOnly Reason = "ObserveOnly"
	// ReasonNodeCheckConflict means that policies which select the same machine ask
	// for different node checks.
	ReasonNodeCheckConflict Reason = "NodeCheckConflict"
	// ReasonNodeCheckSuspect means that most of the last machines did not pass the check: it
	// says more of itself than of them.
	ReasonNodeCheckSuspect Reason = "NodeCheckSuspect"
	// ReasonNoPolicy means that no policy selects the machine any more.
	ReasonNoPolicy Reason = "NoPolicy"
)

// Reasons for the phase of a Remediation.
const (
	// ReasonUnhealthy means that all evidence agrees and the target is to be repaired.
	ReasonUnhealthy Reason = "Unhealthy"
	// ReasonDraining means that the node is cordoned and emptied before the repair.
	ReasonDraining Reason = "Draining"
	// ReasonUncordoning means that our own cordon is being taken away before the record ends.
	ReasonUncordoning Reason = "Uncordoning"
	// ReasonUncordoned means that somebody took our cordon away during a drain.
	ReasonUncordoned Reason = "Uncordoned"
	// ReasonDrainBlocked means that pods were left on the node when the time of its drain
	// was over, and that the machine is not known to be off.
	ReasonDrainBlocked Reason = "DrainBlocked"
	// ReasonRequested means that the request stands on the machine.
	ReasonRequested Reason = "Requested"
	// ReasonRepairRunning means that the node operator works.
	ReasonRepairRunning Reason = "RepairRunning"
	// ReasonAwaitingVerification means that the repair ran and evidence of its effect is awaited.
	ReasonAwaitingVerification Reason = "AwaitingVerification"
	// ReasonAwaitingNodeCheck means that all that is missing is a node check that
	// was asked for or runs.
	ReasonAwaitingNodeCheck Reason = "AwaitingNodeCheck"
	// ReasonNodeCheckNotRun means that nothing is known from a node check that was
	// tried; it is tried again, a few times.
	ReasonNodeCheckNotRun Reason = "NodeCheckNotRun"
	// ReasonNodeCheckFailed means that the check ran on the repaired node and failed.
	ReasonNodeCheckFailed Reason = "NodeCheckFailed"
	// ReasonNodeCheckTimedOut means that the check began on the repaired node and
	// did not end in time.
	ReasonNodeCheckTimedOut Reason = "NodeCheckTimedOut"
	// ReasonNodeCheckPassed means that the check passed. It is the reason of an
	// event; the repair may still be waiting for other evidence.
	ReasonNodeCheckPassed Reason = "NodeCheckPassed"
	// ReasonVerified means that all evidence agrees that the target is well.
	ReasonVerified Reason = "Verified"
	// ReasonRecovered means that the target was well before it was touched.
	ReasonRecovered Reason = "Recovered"
	// ReasonTargetGone means that the machine no longer exists.
	ReasonTargetGone Reason = "TargetGone"
	// ReasonDeadlinePassed means that the repair was not verified in time.
	ReasonDeadlinePassed Reason = "DeadlinePassed"
	// ReasonUnverified means that by the deadline nobody could see whether the repair has
	// helped. It is no sign that it has not.
	ReasonUnverified Reason = "Unverified"
	// ReasonRepairFailed means that the node operator reported failure.
	ReasonRepairFailed Reason = "RepairFailed"
	// ReasonTargetChanged means that other hardware stands where the record's stood.
	ReasonTargetChanged Reason = "TargetChanged"
	// ReasonTooLittleTime means that a repair that was written down is too near its deadline to begin.
	ReasonTooLittleTime Reason = "TooLittleTime"
	// ReasonNotStarted means that the node operator let the request lapse.
	ReasonNotStarted Reason = "NotStarted"
	// ReasonRepairRefused means that the node operator did not start the repair.
	ReasonRepairRefused Reason = "RepairRefused"
	// ReasonWithdrawing means that the request is being taken away; the message says why.
	ReasonWithdrawing Reason = "Withdrawing"
	// ReasonWithdrawn means that it was; the message says why.
	ReasonWithdrawn Reason = "Withdrawn"
	// ReasonRequestWithdrawn means that somebody removed the request from the machine.
	ReasonRequestWithdrawn Reason = "RequestWithdrawn"
)

// Reasons for what a person is asked, or has said.
const (
	// ReasonApprovalAwaited means that the repair is proposed, and done if a person approves it.
	ReasonApprovalAwaited Reason = "ApprovalAwaited"
	// ReasonRecommended means that the repair is proposed by a policy that only recommends.
	ReasonRecommended Reason = "Recommended"
	// ReasonApproved means that a person has approved the proposal; it is an act that
	// waits for its turn.
	ReasonApproved Reason = "Approved"
	// ReasonNotApproved means that a repair that is written down may not be begun, since
	// no person approved it.
	ReasonNotApproved Reason = "NotApproved"
	// ReasonDenied means that a person has denied the proposal or taken the repair back;
	// and, as a hold, that this was a short while ago.
	ReasonDenied Reason = "Denied"
	// ReasonProposalExpired means that nobody has approved the proposal in time; and, as
	// a hold, that the machine is not proposed again yet.
	ReasonProposalExpired Reason = "ProposalExpired"
	// ReasonAnsweredTooLate is the reason of an event: a person has answered when there
	// was nothing to answer any more.
	ReasonAnsweredTooLate Reason = "AnsweredTooLate"
)

// ReasonNoTargets is the reason of a budget that covers nothing.
const ReasonNoTargets Reason = "NoTargets"

// ReasonEvidenceComplete is the reason of an incident of which every machine is seen.
const ReasonEvidenceComplete Reason = "EvidenceComplete"

// ReasonAllowed is the reason of a policy that may act.
const ReasonAllowed Reason = "Allowed"

// HoldReasons lists every reason for which a machine can be held or deferred,
// so that metrics can start at zero.
func HoldReasons() []Reason {
	return []Reason{
		ReasonInventoryUnknown, ReasonEvidenceMissing, ReasonEvidencePartial, ReasonEvidenceStale,
		ReasonEvidenceConflict, ReasonClusterUnreachable, ReasonLiveUnknown, ReasonControlPathSuspected,
		ReasonInFlight, ReasonRequestFailed, ReasonPaused, ReasonNotInUse, ReasonQuarantined, ReasonNoSpare, ReasonDeleting, ReasonCordoned, ReasonIdentityUnknown,
		ReasonDuplicateMachine, ReasonFailureDomainUnknown, ReasonForeignRemediation, ReasonForeignOwner, ReasonControlPlane, ReasonRollOut,
		ReasonLiveStateContradicts, ReasonNotLongEnough, ReasonCorrelatedFailure, ReasonIncidentOpen,
		ReasonFrozen, ReasonBudgetExceeded, ReasonLoneMachine, ReasonCooldown,
		ReasonEscalated, ReasonRepairsFailing, ReasonPolicyChanged, ReasonNodeCheckUnavailable, ReasonNodeCheckConflict, ReasonNodeCheckSuspect, ReasonDrainUnavailable, ReasonLimitReached, ReasonObserveOnly,
		ReasonApprovalAwaited, ReasonRecommended, ReasonNotApproved, ReasonDenied, ReasonProposalExpired,
	}
}

// unknown says whether the reason is a lack of knowledge or of room, which may
// pass without anything having been learned against the repair.
func (r Reason) unknown() bool {
	switch r {
	case ReasonInventoryUnknown, ReasonEvidenceMissing, ReasonEvidencePartial, ReasonEvidenceStale,
		ReasonEvidenceConflict, ReasonClusterUnreachable, ReasonLiveUnknown, ReasonControlPathSuspected,
		ReasonInFlight, ReasonNodeCheckUnavailable, ReasonDrainUnavailable, ReasonRequestFailed:
		return true
	default:
		return false
	}
}
