package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

func phase(rem *api.Remediation) api.RemediationPhase { return rem.CurrentPhase() }

// standing says whether the request for a repair is on the machine and the node
// operator has not answered it: as far as anyone has said, it is not begun.
func standing(rem *api.Remediation, m *Machine) bool {
	return m.Request != nil && m.Request.ID == rem.Name && (m.Response == nil || m.Response.ID != rem.Name)
}

// withdrawals finds the requests whose repair has ended.
func (ix *index) withdrawals() []Withdrawal {
	var found []Withdrawal
	for _, p := range ix.machines {
		if m := p.machine; m.Request != nil && ix.closed[m.Request.ID] != nil {
			found = append(found, Withdrawal{Cell: p.cell.Name, Namespace: m.Namespace, Machine: m.Name, UID: m.UID, ID: m.Request.ID})
		}
	}
	slices.SortFunc(found, func(a, b Withdrawal) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// progress updates every open repair but those that are not known to have begun,
// which it returns: they are decided anew.
func (r *run) progress() []*api.Remediation {
	var waiting []*api.Remediation
	for i := range r.ix.snapshot.Remediations {
		rem := &r.ix.snapshot.Remediations[i]
		if phase(rem).Final() {
			r.escalationTold(rem)
			continue
		}
		u, decided := r.advance(rem)
		if !decided {
			waiting = append(waiting, rem)
			continue
		}
		r.update(rem, u)
	}
	return waiting
}

// update drops what would change nothing.
func (r *run) update(rem *api.Remediation, u Update) {
	u.Name, u.Target, u.Message, u.From = rem.Name, rem.Spec.Target, clip(u.Message, 1024), phase(rem)
	u.closeCheck(rem)
	if u.Phase == api.RemediationCancelled && u.Denial == nil {
		u.Denial = denial(rem, r.now)
	}
	r.lookAt(rem.Spec.Deadline.Time)
	same := u.NodeCheck == nil || equality.Semantic.DeepEqual(u.NodeCheck, rem.Status.NodeCheck)
	if same && u.Phase == rem.Status.Phase && string(u.Reason) == rem.Status.Reason && u.Message == rem.Status.Message {
		return
	}
	u.Reworded = same && rewords(rem, u)
	r.plan.Updates = append(r.plan.Updates, u)
}

// advance says how far an open repair is; false means that it is not begun.
func (r *run) advance(rem *api.Remediation) (Update, bool) {
	t := rem.Spec.Target
	begun := !unbegun(rem)
	cell := r.ix.cells[t.Cell]
	if cell == nil {
		return r.unseen(rem, "no cell "+t.Cell+" is known"), true
	}
	if cell.Err != "" {
		return r.unseen(rem, "the machines of cell "+t.Cell+" cannot be listed: "+clip(cell.Err, 512)), true
	}
	p, ok := r.ix.byUID[t.MachineUID]
	if !ok || p.cell != cell {
		return ended(rem, ReasonTargetGone, "the Machine no longer exists"), true
	}
	m := p.machine
	switch {
	case m.Response != nil && m.Response.ID == rem.Name:
		return r.answered(rem, m), true
	case withdrawing(rem) && !standing(rem, m):
		return Update{Phase: api.RemediationCancelled, Reason: ReasonWithdrawn, Message: rem.Status.Message, Acted: true}, true
	case begun && !standing(rem, m):
		return ended(rem, ReasonRequestWithdrawn, "somebody removed the request from the Machine"), true
	}
	return Update{}, false
}

// withdrawing says whether it is written down that the request is being taken away. Then
// it was us who took it, though a crash, a slow cell or the hub kept that from being said.
func withdrawing(rem *api.Remediation) bool {
	return rem.Status.Phase == api.RemediationActing && Reason(rem.Status.Reason) == ReasonWithdrawing
}

// unseen keeps what is written down of a request that is being taken away.
func (r *run) unseen(rem *api.Remediation, message string) Update {
	if withdrawing(rem) && !r.late(rem.Spec.Deadline.Time) {
		return Update{Phase: api.RemediationActing, Reason: ReasonWithdrawing, Message: rem.Status.Message}
	}
	return r.wait(rem, ReasonInventoryUnknown, message)
}

// wait keeps the phase until the deadline.
func (r *run) wait(rem *api.Remediation, reason Reason, message string) Update {
	late, waits := r.late(rem.Spec.Deadline.Time), unbegun(rem)
	if !late && r.now.After(rem.Spec.Deadline.Time) {
		message += "; its deadline is over by the remediator's clock alone, which is ahead of every central's, and does not count"
	}
	switch {
	case late && waits:
		return ended(rem, ReasonDeadlinePassed, neverBegun(because(reason, message)))
	case late:
		return ended(rem, ReasonDeadlinePassed, "the deadline passed; "+message)
	case waits:
		message = notBegun + because(reason, message)
	}
	return Update{Phase: phase(rem), Reason: reason, Message: message}
}

// ended is Cancelled for a repair that never touched its target, Failed otherwise.
func ended(rem *api.Remediation, reason Reason, message string) Update {
	if unbegun(rem) {
		return Update{Phase: api.RemediationCancelled, Reason: reason, Message: message}
	}
	return Update{Phase: api.RemediationFailed, Reason: reason, Message: message}
}

func (r *run) answered(rem *api.Remediation, m *Machine) Update {
	acting, answer := *rem, m.Response
	acting.Status.Phase = api.RemediationActing
	u := Update{}
	switch answer.Phase {
	case api.RepairSucceeded:
		u = r.verify(&acting, m)
	case api.RepairFailed:
		u = ended(&acting, ReasonRepairFailed, said("the repair failed", answer))
	case api.RepairRefused:
		// It was never started, so there is no failure that people must look at.
		u = Update{Phase: api.RemediationCancelled, Reason: ReasonRepairRefused, Message: said("the node operator refused the repair", answer)}
	default:
		u = r.wait(&acting, ReasonRepairRunning, said("the repair runs", answer))
	}
	u.Acted = true
	if answer.FinishedAt != nil {
		u.RepairedAt = answer.FinishedAt.Time
	}
	return u
}

func said(what string, answer *api.RemediationResponse) string {
	if answer.Message == "" {
		return what
	}
	return what + ": " + answer.Message
}

// verify closes a repair only if every source says that the target is well and
// the repair is proven to have happened, to the machine that the record names. Of one
// that was replaced it is the machine that took its place.
func (r *run) verify(rem *api.Remediation, m *Machine) Update {
	by := rem.Spec.Replacement
	if by == nil {
		return r.verifyThat(rem, m)
	}
	p, there := r.ix.byUID[by.MachineUID]
	if !there {
		return ended(rem, ReasonTargetGone, fmt.Sprintf("Machine %s, which was to take its place, no longer exists", by.Machine))
	}
	return r.verifyThat(replaced(rem), p.machine)
}

func (r *run) verifyThat(rem *api.Remediation, m *Machine) Update {
	t := rem.Spec.Target
	ref := NodeRef{t.Cell, t.Cluster, t.Node}
	facts, live := r.ix.facts(ref), r.ix.liveFact(ref)
	if why := changed(t, m, live.node); why != "" {
		return ended(rem, ReasonTargetChanged, why)
	}
	age := r.evidenceAge(rem.Spec.PolicyName)
	dead := missingLive(rem, live, age, r.now)
	missing := append(missingCentrals(facts, ref, age, r.now), dead...)
	check := r.check(rem, m, live, len(dead) == 0)
	verifying := *rem
	verifying.Status.Phase = api.RemediationVerifying
	u := Update{Phase: api.RemediationSucceeded, Reason: ReasonVerified, Message: check.agreed()}
	switch {
	case check.fails != "":
		u = ended(&verifying, check.fails, check.says)
	case check.waits != "" && len(missing) == 0:
		u = unverified(r.wait(&verifying, check.waits, check.says), true)
	case check.waits != "" || len(missing) > 0:
		u = r.wait(&verifying, ReasonAwaitingVerification, "still missing: "+strings.Join(check.among(missing), "; "))
		u = unverified(u, !r.contradicted(rem, facts, live, ref, age))
	case live.node.CordonedBy != "":
		r.uncordon(rem)
		u = unverified(r.wait(&verifying, ReasonUncordoning, "all evidence agrees; the node is being uncordoned"), true)
	default:
		for _, f := range facts {
			u.Verification = append(u.Verification, f.record(ref, false))
		}
		u.Verification = append(append(u.Verification, live.records()...), check.signals()...)
	}
	u.NodeCheck = check.record
	if check.starts && !u.Phase.Final() {
		r.startCheck(rem, u)
	}
	return u
}

// unverified tells a repair of which nobody could see whether it helped from one that
// did not help: an outage of a central would else have every machine of that hour be
// reinstalled at its next illness.
func unverified(u Update, unseen bool) Update {
	if unseen && u.Phase == api.RemediationFailed && u.Reason == ReasonDeadlinePassed {
		u.Reason = ReasonUnverified
	}
	return u
}

// contradicted says whether something that is known speaks against the repair being done.
func (r *run) contradicted(rem *api.Remediation, facts []fact, live liveFact, ref NodeRef, age time.Duration) bool {
	if f, _, _ := agree(facts, ref, age, r.now); f == findingUnhealthy {
		return true
	}
	return live.unreadable(age, r.now) == "" && len(missingLive(rem, live, age, r.now)) > 0
}

// missingCentrals lists what the centrals say against the repair being done.
// Messages bear no ages, so that waiting does not rewrite the record every few seconds.
func missingCentrals(facts []fact, ref NodeRef, age time.Duration, now time.Time) []string {
	switch f, reason, _ := agree(facts, ref, age, now); f {
	case findingUnknown:
		return []string{fmt.Sprintf("agreement of the centrals (%s)", reason)}
	case findingUnhealthy:
		return []string{"the centrals still list the node as unhealthy"}
	}
	return nil
}

// missingLive lists what the node itself says against it.
func missingLive(rem *api.Remediation, live liveFact, age time.Duration, now time.Time) []string {
	var missing []string
	if live.unreadable(age, now) != "" {
		return append(missing, "the live Node and Lease cannot be read")
	}
	if why := live.well(age, now); why != "" {
		missing = append(missing, why)
	}
	if rem.Spec.Target.ProviderID != "" && live.node.ProviderID == "" {
		missing = append(missing, "the Node has no provider id, so it is not known to be the machine")
	}
	if rank(rem.Spec.Action) >= rank(api.ActionReboot) && live.node.BootID == rem.Spec.Target.BootID {
		missing = append(missing, "the boot id has not changed, so the node has not rebooted")
	}
	return missing
}

// evidenceAge outlives the policy that decided: without it, the default holds.
func (r *run) evidenceAge(name string) time.Duration {
	for _, p := range r.policies {
		if p.Name == name {
			return evidenceAge(p)
		}
	}
	return evidenceAge(&api.RemediationPolicy{})
}
