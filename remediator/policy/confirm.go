package policy

import (
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// startWithin is how long a request stands before it lapses. It bounds how old
// evidence can be when a repair begins, whoever was slow in between: the node
// operator, or a leader that no longer leads.
const startWithin = 60 * time.Second

// Fresh is what was read again, uncached, between recording a repair and asking for it.
type Fresh struct {
	Policy  *api.RemediationPolicy
	Budgets []api.FleetDisruptionBudget
	// Record is the repair as it is written down now, with what people said to it.
	Record        *api.Remediation
	CellPaused    bool
	ClusterPaused bool
	// Upgrade says from which version to which the cluster is on its way; empty if it is not.
	Upgrade string
	Machine Machine
	// Live holds all Leases of the cluster, and those of its Nodes that were
	// read for the decision.
	Live LiveCluster
	// CheckAccess answers the decision's CheckProbe; nil if it has none.
	CheckAccess *CheckAccess
}

// Confirmation is the outcome of the last look.
type Confirmation struct {
	// Reason not to ask for the repair; empty means that it may be asked for.
	Reason  Reason
	Message string
	// StartBefore is when the request lapses.
	StartBefore time.Time
	// Signals are the evidence that confirms.
	Signals []api.SignalRecord
}

// Confirm repeats the decision on what was just read: the machine's own evidence,
// and the gate and the control path with the cluster as it is now. What the
// centrals said is not read again, but has grown older.
func Confirm(d Decision, f Fresh, now time.Time) Confirmation {
	if reason, message := f.precludes(d, now); reason != "" {
		return Confirmation{Reason: reason, Message: message}
	}
	s := f.around(d)
	r := newRun(f.among(d.policies), &s, now)
	r.oneCell = true
	p := r.ix.byUID[f.Machine.UID]
	subject := r.subject(p)
	subject.pending, subject.draining = d.Name, phase(f.Record) == api.RemediationDraining
	// What was tried may have been in other cells, under other Machines.
	subject.tries = d.subject.tries
	subject.choose()
	subject.replacement = d.Spec.Replacement
	r.chooseSpare(&subject, p)
	if check := d.Spec.Verification.NodeCheck; check != nil {
		subject.needs = demand{check: check, policy: d.subject.needs.policy}
		subject.access = r.ix.access(subject.ref, check)
	}
	reason, message := r.judge(subject, p)
	if reason == "" && subject.step.action != d.Spec.Action {
		reason, message = otherStep(d.Spec.Action, subject.step.action)
	}
	switch {
	case reason == ReasonLiveStateContradicts && subject.live.node.Ready == "True":
		return Confirmation{Reason: ReasonRecovered, Message: message}
	case reason != "":
		return Confirmation{Reason: reason, Message: message}
	}
	c := Confirmation{StartBefore: now.Add(startWithin), Signals: subject.signals()}
	if deadline := d.Spec.Deadline.Time; deadline.Before(c.StartBefore) {
		c.StartBefore = deadline
	}
	return c
}

// among are the policies of the decision with the one that speaks as it is now.
func (f Fresh) among(policies []*api.RemediationPolicy) []*api.RemediationPolicy {
	all := slices.Clone(policies)
	for i := range all {
		if all[i].Name == f.Policy.Name {
			all[i] = f.Policy
		}
	}
	return all
}

// precludes compares what was read with the record.
func (f Fresh) precludes(d Decision, now time.Time) (Reason, string) {
	if reason, message := f.forbidden(now); reason != "" {
		return reason, message
	}
	node := f.node(d.Machine.Node)
	switch {
	case f.Machine.UID != d.Machine.UID:
		return ReasonTargetGone, "another Machine bears the name now"
	case f.Machine.Node != d.Machine.Node || f.Machine.Cluster != d.Machine.Cluster:
		return ReasonTargetGone, "the Machine belongs to another node now"
	case changed(d.Spec.Target, &f.Machine, node) != "":
		return ReasonTargetChanged, changed(d.Spec.Target, &f.Machine, node)
	case !selects(f.Policy, d.Cell, f.Machine.Pool):
		return ReasonNoPolicy, "the policy does not select the machine any more"
	case rebooted(d.Spec.Target, node):
		return ReasonRecovered, "the node has rebooted since the repair was recorded"
	case now.After(d.Spec.Deadline.Time):
		return ReasonDeadlinePassed, neverBegun("the last look came after it")
	}
	return "", ""
}

// forbidden says what people have said to the repair since it was decided, or have not.
func (f Fresh) forbidden(now time.Time) (Reason, string) {
	if by := denial(f.Record, now); by != nil {
		return ReasonDenied, "taken back by " + named(by)
	}
	if f.Record.Spec.Mode.Proposes() && !Approved(f.Record) {
		return ReasonNotApproved, f.Record.Name + " is a proposal that no person approved"
	}
	return "", ""
}

func (f Fresh) node(name string) *LiveNode {
	if i := slices.IndexFunc(f.Live.Nodes, func(n LiveNode) bool { return n.Name == name }); i >= 0 {
		return &f.Live.Nodes[i]
	}
	return nil
}

// around is the machine's cell as the decision saw it, with what was read since
// in its place. The rest of the fleet has no part in the last look, save that
// hardware takes its past along.
func (f Fresh) around(d Decision) Snapshot {
	s := Snapshot{Remediations: d.snapshot.Remediations, Reservations: d.snapshot.Reservations, Budgets: f.Budgets, Incidents: d.snapshot.Incidents}
	if f.CheckAccess != nil {
		s.CheckAccess = append(s.CheckAccess, *f.CheckAccess)
	}
	for _, c := range d.snapshot.Cells {
		if c.Name == d.Cell {
			s.Cells = append(s.Cells, f.cell(c, d))
		}
	}
	for _, c := range d.snapshot.Centrals {
		s.Centrals = append(s.Centrals, c.only(d.Cell))
	}
	for _, c := range d.snapshot.Clusters {
		if c.Cell == d.Cell && c.Cluster != d.Machine.Cluster {
			s.Clusters = append(s.Clusters, c)
		}
	}
	live := f.Live
	live.Cell, live.Cluster = d.Cell, d.Machine.Cluster
	s.Clusters = append(s.Clusters, live)
	return s
}

func (f Fresh) cell(c Cell, d Decision) Cell {
	c.Paused = f.CellPaused
	c.PausedClusters = slices.DeleteFunc(slices.Clone(c.PausedClusters), func(name string) bool { return name == d.Machine.Cluster })
	if f.ClusterPaused {
		c.PausedClusters = append(c.PausedClusters, d.Machine.Cluster)
	}
	c.Upgrades = map[string]string{d.Machine.Cluster: f.Upgrade}
	c.Machines = slices.Clone(c.Machines)
	for i := range c.Machines {
		if c.Machines[i].UID == d.Machine.UID {
			c.Machines[i] = f.Machine
		}
	}
	return c
}

// only leaves out what a central says of other cells.
func (c Central) only(cell string) Central {
	c.Heartbeats = pick(c.Heartbeats, func(s CellSample) bool { return s.Cell == cell })
	c.ClustersUp = pick(c.ClustersUp, func(s ClusterSample) bool { return s.Cell == cell })
	c.Unhealthy = pick(c.Unhealthy, func(s NodeSample) bool { return s.Cell == cell })
	return c
}

func pick[T any](all []T, wanted func(T) bool) []T {
	var out []T
	for _, one := range all {
		if wanted(one) {
			out = append(out, one)
		}
	}
	return out
}

// Settled says whether the reason of a failed confirmation ends the repair,
// rather than leaving it written down until more is known.
func Settled(r Reason) bool { return !r.unknown() }
