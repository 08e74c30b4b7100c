package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// settle says what becomes of repairs that are not known to have begun. Written
// down only, they wait for want of knowledge, and are cancelled for anything
// learned against them. Once the request stands, anything but "still unhealthy
// and allowed" takes it away.
func (r *run) settle(waiting []*api.Remediation) {
	decided, done := r.decided(), map[string]bool{}
	for _, rem := range waiting {
		uid := rem.Spec.Target.MachineUID
		p, d := r.ix.byUID[uid], decided[uid]
		if standing(rem, p.machine) {
			r.settleRequest(rem, p, d)
			done[uid] = true
			continue
		}
		r.settleRecord(rem, p, d)
	}
	slices.SortFunc(r.plan.Updates, func(a, b Update) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.plan.Withdrawals, func(a, b Withdrawal) int { return cmp.Compare(a.ID, b.ID) })
	// A machine that is well is no hold; it was decided only to close its record.
	// Nor is one whose request stands.
	r.plan.Decisions = slices.DeleteFunc(r.plan.Decisions, func(d Decision) bool {
		return d.Reason == ReasonRecovered || done[d.Machine.UID]
	})
}

// decided are the decisions of the plan, by machine, for as long as none is taken out.
func (r *run) decided() map[string]*Decision {
	all := make(map[string]*Decision, len(r.plan.Decisions))
	for i := range r.plan.Decisions {
		all[r.plan.Decisions[i].Machine.UID] = &r.plan.Decisions[i]
	}
	return all
}

func (r *run) settleRecord(rem *api.Remediation, p place, d *Decision) {
	reason, message := r.overdue(rem, d)
	if reason == "" {
		reason, message = r.against(rem, p, d)
	}
	if phase(rem) == api.RemediationDraining {
		r.settleDrain(rem, p, d, reason, message)
		return
	}
	switch {
	case reason == "":
		// The record stands; so does the intent to act on it.
		d.Spec, d.Recorded = rem.Spec, true
	case reason.unknown():
		r.update(rem, r.wait(rem, reason, message))
	default:
		r.update(rem, ended(rem, reason, message))
		d.defers(rem.Name)
	}
}

// overdue says why a record is too old to be taken up.
func (r *run) overdue(rem *api.Remediation, d *Decision) (Reason, string) {
	left := rem.Spec.Deadline.Sub(r.now)
	switch {
	case left < 0:
		return ReasonDeadlinePassed, neverBegun(why(rem, d))
	case d != nil && left < d.subject.step.timeout/2:
		return ReasonTooLittleTime, fmt.Sprintf("less than half of the %s that the policy allows is left, and the repair was not begun: %s; it is evaluated anew",
			d.subject.step.timeout, why(rem, d))
	}
	return "", ""
}

// against says what speaks against a repair that is written down, by what is known now.
func (r *run) against(rem *api.Remediation, p place, d *Decision) (Reason, string) {
	if by := denial(rem, r.now); by != nil {
		return ReasonDenied, "taken back by " + named(by)
	}
	if d == nil {
		return ReasonNoPolicy, "no policy selects the machine any more"
	}
	node := d.subject.live.node
	switch {
	case changed(rem.Spec.Target, p.machine, node) != "":
		return ReasonTargetChanged, changed(rem.Spec.Target, p.machine, node)
	case d.Reason.unknown():
		return d.Reason, d.Message
	case uncordoned(rem, node) != "":
		return ReasonUncordoned, uncordoned(rem, node)
	case rebooted(rem.Spec.Target, node):
		return ReasonRecovered, "the node has rebooted since the repair was recorded"
	case d.Verdict == Act:
		return d.differs(rem)
	case node != nil && node.Ready == "True":
		return ReasonRecovered, "the live Node is Ready"
	}
	return d.Reason, d.Message
}

// settleRequest keeps a request on the machine for as long as it is right and the
// node operator may still begin. The grace is for an answer on its way, and for
// clocks that differ.
func (r *run) settleRequest(rem *api.Remediation, p place, d *Decision) {
	reason, message := r.against(rem, p, d)
	lapses := p.machine.Request.StartBefore.Add(maxSkew)
	if reason == "" && r.now.After(lapses) {
		reason = ReasonNotStarted
		message = "the node operator did not begin the repair before " + p.machine.Request.StartBefore.UTC().Format(time.RFC3339)
	}
	if reason == "" {
		r.update(rem, Update{Phase: api.RemediationActing, Reason: ReasonRequested, Message: "the node operator has not answered yet", Acted: true})
		r.lookAt(lapses.Add(time.Second))
		return
	}
	r.plan.Withdrawals = append(r.plan.Withdrawals, Withdrawal{
		Cell: p.cell.Name, Namespace: p.machine.Namespace, Machine: p.machine.Name, UID: p.machine.UID, ID: rem.Name, Marked: withdrawing(rem),
		Then: &Update{
			Name: rem.Name, Target: rem.Spec.Target, Phase: api.RemediationCancelled,
			Reason: reason, Message: clip(message, 1024), Acted: true, Denial: denial(rem, r.now),
		},
	})
}

// defers leaves a machine for the next round, when its earlier record is closed.
func (d *Decision) defers(name string) {
	if d != nil && (d.Verdict == Act || d.Verdict == Propose || d.Verdict == Escalate) {
		d.Verdict, d.Reason, d.Name, d.Spec = Defer, ReasonInFlight, "", api.RemediationSpec{}
		d.Message = name + " is being closed first"
	}
}

// differs says why a repair that is decided is not the one that is written down.
func (d *Decision) differs(rem *api.Remediation) (Reason, string) {
	switch {
	case d.Name != rem.Name:
		return ReasonRecovered, "the node was ready in between"
	case d.Spec.Action != rem.Spec.Action:
		return otherStep(rem.Spec.Action, d.Spec.Action)
	}
	return "", ""
}

// otherStep is the reason against a repair that was written down by another escalation.
func otherStep(was, is api.RemediationAction) (Reason, string) {
	return ReasonPolicyChanged, fmt.Sprintf("%s was decided; the policy was changed, and by it %s is due", was, is)
}
