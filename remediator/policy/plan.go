package policy

import (
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Verdict is the kind of a decision.
type Verdict string

const (
	// Act means: record the repair, then ask for it.
	Act Verdict = "Act"
	// Defer means that the repair is right but not yet.
	Defer Verdict = "Defer"
	// Hold means that the repair must not be done now.
	Hold Verdict = "Hold"
	// Observe means that the policy would act if it were in mode Act.
	Observe Verdict = "Observe"
)

// Plan is what to do now. It is sorted, and the same for the same inputs.
type Plan struct {
	// Decisions has one entry for each machine that a policy selects and some
	// source calls unhealthy, by cell, cluster, namespace and name.
	Decisions []Decision
	// Updates are the open repairs whose phase, reason or message changes.
	Updates []Update
	// Withdrawals are requests that stand on machines though their repair has ended.
	Withdrawals []Withdrawal
	// Policies has one report for each policy, by name.
	Policies []Report
	// Unmatched counts nodes called unhealthy that no machine of the inventory bears.
	Unmatched int
	// NextCheck is the first time at which waiting alone changes a decision; zero means none.
	NextCheck time.Time
}

// Decision is the verdict on one machine.
type Decision struct {
	Policy  string
	Cell    string
	Machine Machine
	Verdict Verdict
	Reason  Reason
	Message string
	// Name and Spec are the repair to record. Set for Act only.
	Name string
	Spec api.RemediationSpec
	// Recorded means that the record stands already.
	Recorded bool

	subject subject
}

// Update is the new status of an open repair.
type Update struct {
	Name    string
	Target  api.RemediationTarget
	Phase   api.RemediationPhase
	Reason  Reason
	Message string
	// RepairedAt is zero unless the node operator reported the end of its work.
	RepairedAt time.Time
	// Acted means that the request was found on the machine.
	Acted bool
	// Verification is the evidence that closes the repair.
	Verification []api.SignalRecord
}

// Withdrawal names a machine whose request has ended.
type Withdrawal struct {
	Cell      string
	Namespace string
	Machine   string
	UID       string
	ID        string
}

// Report sums up one policy.
type Report struct {
	Name      string
	Unhealthy int
	Holds     []Decision
	Allowed   bool
	Reason    Reason
	Message   string
}
