package policy

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	// Escalate means that nothing more is tried: people must look at the machine.
	Escalate Verdict = "Escalate"
	// Propose means: write the repair down for people to see. It is not done before a
	// person approves it, and never where the policy only recommends.
	Propose Verdict = "Propose"
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
	// Withdrawals are requests that stand on machines though their repair has
	// ended, or though nothing justifies one that was not answered.
	Withdrawals []Withdrawal
	// Handovers end the claims on spares whose repair has ended, by the spare's UID.
	Handovers []Handover
	// Uncordons are the nodes from which our own cordon is to be taken.
	Uncordons []Uncordon
	// Checks are the pods to make, on nodes whose repair has ended.
	Checks []CheckStart
	// Removals are the pods of checks of which nothing more is to be learned.
	Removals []CheckRemoval
	// Policies has one report for each policy, by name.
	Policies []Report
	// Budgets has one report for each budget, by name.
	Budgets []BudgetReport
	// Suspects are what many unhealthy machines share, by kind and name.
	Suspects []Suspect
	// Incidents has one report for each that is or was not closed, by name.
	Incidents []IncidentReport
	// Forgotten are the incidents to delete, by name.
	Forgotten []string
	// Late are answers of people that do nothing, by the repair's name.
	Late []LateAnswer
	// Unmatched counts nodes called unhealthy that no machine of the inventory bears.
	Unmatched int
	// Escalated counts the hardware that was handed to people, who have not acknowledged it.
	Escalated int
	// Unseen are the cells of which too little is known for their silence to pass for
	// health, by name.
	Unseen []string
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
	// Name and Spec are what is to be recorded, for Act, Propose and Escalate. Of what was
	// escalated already there is the name alone.
	Name string
	Spec api.RemediationSpec
	// Recorded means that the record stands already.
	Recorded bool

	// fences means that the machine is known to be off; see Fences.
	fences   bool
	subject  subject
	snapshot *Snapshot
	policies []*api.RemediationPolicy
}

// Nodes lists the nodes of the machine's cluster that were read for the decision,
// so that they are read again before it is carried out.
func (d Decision) Nodes() []string {
	nodes := []string{d.Machine.Node}
	for i := range d.snapshot.Clusters {
		c := &d.snapshot.Clusters[i]
		if c.Cell != d.Cell || c.Cluster != d.Machine.Cluster {
			continue
		}
		for j := range c.Nodes {
			if c.Nodes[j].Name != d.Machine.Node {
				nodes = append(nodes, c.Nodes[j].Name)
			}
		}
	}
	return nodes
}

// Update is the new status of an open repair.
type Update struct {
	Name   string
	Target api.RemediationTarget
	// From is the phase that it was decided on; whoever finds another decides anew. Empty
	// means any.
	From    api.RemediationPhase
	Phase   api.RemediationPhase
	Reason  Reason
	Message string
	// RepairedAt is zero unless the node operator reported the end of its work.
	RepairedAt time.Time
	// Reworded means that a record that waits has this phase and reason already:
	// only the words differ.
	Reworded bool
	// Tried means that it was tried in vain to begin the repair.
	Tried bool
	// Acted means that the request was found on the machine.
	Acted bool
	// Confirmation is the evidence that was read just before the request was written.
	Confirmation []api.SignalRecord
	// Verification is the evidence that closes the repair.
	Verification []api.SignalRecord
	// Approval and Denial are what a person said. Nil leaves what is written down.
	Approval, Denial *api.PersonRecord
	// Deadline is that of a proposal that was approved. Zero leaves what is written down.
	Deadline time.Time
	// Drain is how far the drain is. Nil leaves what is written down.
	Drain *api.DrainRecord
	// NodeCheck is how far the check is. Nil leaves what is written down.
	NodeCheck *api.NodeCheckRecord
}

// Withdrawal names a machine whose request is to be taken away.
type Withdrawal struct {
	Cell      string
	Namespace string
	Machine   string
	UID       string
	ID        string
	// Marked means that it is written down already that the request is taken away.
	Marked bool
	// Then is what to write down once the request is away. With it, the request
	// must be taken away only if the node operator has not answered it; without
	// it, the repair has ended already.
	Then *Update
}

// Report sums up one policy.
type Report struct {
	Name      string
	Unhealthy int
	// Holds are those of the plan's decisions that are not acted on.
	Holds []*Decision
	// Allowed is Unknown while the policy may act on some of its cells only.
	Allowed metav1.ConditionStatus
	Reason  Reason
	Message string
}
