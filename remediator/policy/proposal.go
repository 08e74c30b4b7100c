package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// setApart takes proposals out of what the decision counts: one takes no place, and holds
// and proves nothing. What was approved has its deadline from then on.
func (ix *index) setApart() {
	ix.proposedOn = map[string][]*api.Remediation{}
	ix.denied, ix.unanswered = map[string]*api.Remediation{}, map[string][]*api.Remediation{}
	all := ix.snapshot.Remediations
	for i := range all {
		if rem := &all[i]; phase(rem) == api.RemediationProposed {
			ix.proposals = append(ix.proposals, rem)
		} else {
			ix.addAnswer(rem)
		}
	}
	if !slices.ContainsFunc(all, func(rem api.Remediation) bool { return rem.Spec.Mode.Proposes() }) {
		return
	}
	slices.SortFunc(ix.proposals, func(a, b *api.Remediation) int { return cmp.Compare(a.Name, b.Name) })
	for _, rem := range ix.proposals {
		uid := rem.Spec.Target.MachineUID
		ix.proposedOn[uid] = append(ix.proposedOn[uid], rem)
	}
	apart := *ix.snapshot
	apart.Remediations = make([]api.Remediation, 0, len(all))
	for _, rem := range all {
		if phase(&rem) == api.RemediationProposed {
			continue
		}
		rem.Spec.Deadline = rem.CurrentDeadline()
		apart.Remediations = append(apart.Remediations, rem)
	}
	ix.snapshot = &apart
}

// keepsAway says whether what people said, or did not, keeps the next repair away for a while.
func keepsAway(rem *api.Remediation) bool {
	return rem.Status.Denial != nil || rem.Status.Reason == string(ReasonProposalExpired)
}

// addAnswer keeps what was denied last of each hardware, and what nobody answered.
func (ix *index) addAnswer(rem *api.Remediation) {
	key := identity(rem.Spec.Target.HardwareID, rem.Spec.Target.MachineUID)
	switch {
	case rem.Status.Phase != api.RemediationCancelled:
	case rem.Status.Denial != nil:
		if last := ix.denied[key]; last == nil || endedAt(rem, ix.now).After(endedAt(last, ix.now)) {
			ix.denied[key] = rem
		}
	case rem.Status.Reason == string(ReasonProposalExpired) && ix.now.Sub(endedAt(rem, ix.now)) < askedWindow:
		ix.unanswered[key] = append(ix.unanswered[key], rem)
	}
}

// proposal is the open one of a policy for a machine, the first by name; nil if there is none.
func (r *run) proposal(uid, policy string) *api.Remediation {
	for _, rem := range r.ix.proposedOn[uid] {
		if rem.Spec.PolicyName == policy {
			return rem
		}
	}
	return nil
}

// nameTaken says whether a name is that of a repair that has ended, or of a proposal that
// another policy made, or the same in another mode: what a person is asked must not be
// what is done without asking.
func (r *run) nameTaken(name string, s subject) bool {
	if r.ix.closed[name] != nil || name != s.pending && s.machine.bears(name) {
		return true
	}
	return slices.ContainsFunc(r.ix.proposedOn[s.machine.UID], func(rem *api.Remediation) bool {
		return rem.Name == name && (rem.Spec.PolicyName != s.settings.name || rem.Spec.Mode != s.settings.mode)
	})
}

// propose makes of a decision what is written down for people to see. What can be approved
// expires, and its deadline leaves the repair its time after that.
func (r *run) propose(d *Decision, s subject, p place) {
	d.Verdict, d.Name, d.Spec = Propose, r.name(s), r.spec(s, p)
	d.Message = clip(fmt.Sprintf("%s, as %s: %s", d.Message, d.Name, s.wrong()), 512)
	if s.settings.mode == api.ModeApprove {
		expires := metav1.NewTime(r.now.Add(s.settings.expires).Truncate(time.Second))
		d.Spec.ExpiresAt, d.Spec.Deadline = &expires, metav1.NewTime(expires.Add(s.step.timeout+s.step.drainTime()).Truncate(time.Second))
	}
}

// settleProposals says what becomes of every open proposal.
func (r *run) settleProposals() {
	decided := r.decided()
	for _, rem := range r.ix.proposals {
		d := decided[rem.Spec.Target.MachineUID]
		u := r.settleProposal(rem, d)
		switch {
		case u.Phase.Final():
			if d != nil && d.Policy == rem.Spec.PolicyName {
				d.defers(rem.Name)
			}
		case d != nil && d.Verdict == Propose && d.Name == rem.Name:
			d.Spec, d.Recorded = rem.Spec, true
		}
		if rem.Spec.ExpiresAt != nil {
			r.lookAt(rem.Spec.ExpiresAt.Time)
		}
		r.update(rem, u)
	}
}

func (r *run) settleProposal(rem *api.Remediation, d *Decision) Update {
	if reason, message := r.outdated(rem, d); reason != "" {
		return Update{Phase: api.RemediationCancelled, Reason: reason, Message: message}
	}
	reason, message := r.stands(rem, d)
	by := approval(rem, r.now)
	switch {
	case by == nil:
		return Update{Phase: api.RemediationProposed, Reason: reason, Message: message}
	case rem.Spec.Mode != api.ModeApprove:
		return Update{Phase: api.RemediationProposed, Reason: reason, Message: fmt.Sprintf(
			"policy %s only recommends, so that the approval by %s does nothing; %s", rem.Spec.PolicyName, named(by), message)}
	case reason == ReasonApprovalAwaited || reason.unknown():
		deadline := r.now.Add(rem.Spec.Deadline.Sub(rem.Spec.ExpiresAt.Time)).Truncate(time.Second)
		return Update{Phase: api.RemediationPending, Reason: ReasonApproved, Approval: by, Deadline: deadline,
			Message: fmt.Sprintf("approved by %s; not begun yet", named(by))}
	}
	return Update{Phase: api.RemediationCancelled, Reason: reason, Approval: by,
		Message: fmt.Sprintf("approved by %s, and not done: %s", named(by), message)}
}

// outdated says why a proposal is none any more.
func (r *run) outdated(rem *api.Remediation, d *Decision) (Reason, string) {
	if by := denial(rem, r.now); by != nil {
		return ReasonDenied, "denied by " + named(by)
	}
	if reason, message := r.disowned(rem); reason != "" {
		return reason, message
	}
	if at := rem.Spec.ExpiresAt; at != nil && !r.now.Before(at.Time) {
		return ReasonProposalExpired, expired(rem, approval(rem, r.now))
	}
	t := rem.Spec.Target
	cell := r.ix.cells[t.Cell]
	if cell == nil || cell.Err != "" {
		return "", ""
	}
	p, is := r.ix.byUID[t.MachineUID]
	if !is || p.cell != cell {
		return ReasonTargetGone, "the Machine no longer exists"
	}
	if speaks := r.policyFor(p); speaks == nil || speaks.Name != rem.Spec.PolicyName {
		return ReasonNoPolicy, fmt.Sprintf("policy %s does not speak for the machine any more", rem.Spec.PolicyName)
	}
	return r.unwanted(rem, p, d)
}

// unwanted says why what is proposed is not what is due any more. What merely keeps it from
// being done now may pass.
func (r *run) unwanted(rem *api.Remediation, p place, d *Decision) (Reason, string) {
	if d == nil {
		return "", ""
	}
	wanted := *d
	if wanted.Verdict == Propose {
		wanted.Verdict = Act
	}
	reason, message := r.against(rem, p, &wanted)
	switch reason {
	case ReasonRecovered, ReasonTargetChanged, ReasonPolicyChanged, ReasonEscalated:
		return reason, message
	}
	return "", ""
}

// disowned says why the policy does not stand behind a proposal any more.
func (r *run) disowned(rem *api.Remediation) (Reason, string) {
	i := slices.IndexFunc(r.policies, func(p *api.RemediationPolicy) bool { return p.Name == rem.Spec.PolicyName })
	switch {
	case i < 0:
		return ReasonNoPolicy, fmt.Sprintf("policy %s is gone", rem.Spec.PolicyName)
	case r.policies[i].Spec.Mode != rem.Spec.Mode:
		return ReasonPolicyChanged, fmt.Sprintf("policy %s is in mode %s now", rem.Spec.PolicyName, cmp.Or(r.policies[i].Spec.Mode, api.ModeObserve))
	}
	return "", ""
}

func expired(rem *api.Remediation, by *api.PersonRecord) string {
	at := rem.Spec.ExpiresAt.UTC().Format(time.RFC3339)
	if by == nil {
		return "nobody approved it before " + at
	}
	return fmt.Sprintf("the approval by %s was not seen before %s, and does nothing", named(by), at)
}

// stands is what is said of a proposal that stands: what a person can do, or what would
// keep the repair from being done now.
func (r *run) stands(rem *api.Remediation, d *Decision) (Reason, string) {
	switch {
	case d == nil && r.ix.open[rem.Spec.Target.MachineUID] != nil:
		return ReasonForeignRemediation, "would not be done now: " + r.ix.open[rem.Spec.Target.MachineUID].Name + " is open for the machine"
	case d == nil:
		return ReasonInventoryUnknown, "would not be done now: the machines of cell " + rem.Spec.Target.Cell + " are not known"
	case d.Verdict != Propose:
		return d.Reason, "would not be done now: " + because(d.Reason, d.Message)
	case rem.Spec.ExpiresAt == nil:
		return ReasonRecommended, fmt.Sprintf("policy %s only recommends it", rem.Spec.PolicyName)
	}
	return ReasonApprovalAwaited, fmt.Sprintf("a person can approve it until %s: pharos remediation approve %s, or deny",
		rem.Spec.ExpiresAt.UTC().Format(time.RFC3339), rem.Name)
}

// answerTold is for how long after a repair has ended somebody is told that an answer
// to it came too late.
const answerTold = 24 * time.Hour

// LateAnswer is an answer of a person that does nothing.
type LateAnswer struct {
	// Name of the repair.
	Name    string
	Message string
}

// lateAnswers finds the answers that came when there was nothing to answer any more.
func (r *run) lateAnswers() []LateAnswer {
	var found []LateAnswer
	for i := range r.ix.snapshot.Remediations {
		rem := &r.ix.snapshot.Remediations[i]
		if len(rem.Annotations) == 0 || phase(rem).Final() && r.now.Sub(endedAt(rem, r.now)) > answerTold {
			continue
		}
		if message := r.tooLate(rem); message != "" {
			found = append(found, LateAnswer{rem.Name, clip(message, 1024)})
		}
	}
	slices.SortFunc(found, func(a, b LateAnswer) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

func (r *run) tooLate(rem *api.Remediation) string {
	no, yes := denial(rem, r.now), approval(rem, r.now)
	switch ended := phase(rem).Final(); {
	case no != nil && ended && rem.Status.Denial == nil:
		return fmt.Sprintf("the denial by %s does nothing: it has ended as %s (%s)", named(no), phase(rem), rem.Status.Reason)
	case no != nil && !ended && r.runs(rem):
		return fmt.Sprintf("the denial by %s does nothing: the node operator has begun, and what runs is not interrupted", named(no))
	case yes != nil && ended && rem.Status.Approval == nil && rem.Spec.Mode.Proposes():
		return fmt.Sprintf("the approval by %s does nothing: it has ended as %s (%s)", named(yes), phase(rem), rem.Status.Reason)
	}
	return ""
}

// runs says whether the node operator has begun a repair.
func (r *run) runs(rem *api.Remediation) bool {
	p, seen := r.ix.byUID[rem.Spec.Target.MachineUID]
	return phase(rem) == api.RemediationVerifying || seen && p.machine.Response != nil && p.machine.Response.ID == rem.Name
}
