package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// notBegun begins the message of a record that waits.
const notBegun = "not begun: "

// because is a reason with its message, for a text that already has another reason.
func because(reason Reason, message string) string { return string(reason) + ": " + message }

// Withheld is what becomes of a record when the last look speaks against it: it is
// cancelled for what is known, and stays written down for what is not.
func Withheld(rem *api.Remediation, reason Reason, message string, now time.Time) Update {
	u := Update{Name: rem.Name, Target: rem.Spec.Target, Phase: api.RemediationCancelled, Reason: reason, Message: clip(message, 1024), Tried: true, Denial: denial(rem, now)}
	if !Settled(reason) || phase(rem) == api.RemediationDraining {
		u.Phase, u.Denial, u.Message = phase(rem), nil, clip(notBegun+because(reason, message), 1024)
		u.Reworded = rewords(rem, u)
	}
	return u
}

// rewords says whether an update of a record that waits changes nothing but words.
// Messages bear ages and errors, which would rewrite the record every few seconds.
func rewords(rem *api.Remediation, u Update) bool {
	waits := u.Phase == api.RemediationPending || u.Phase == api.RemediationDraining && u.Drain == nil || u.Phase == api.RemediationProposed || u.Reason == ReasonNodeCheckUnavailable
	return waits && u.Phase == rem.Status.Phase && string(u.Reason) == rem.Status.Reason
}

// why says what has kept a record from being begun: what withholds it now, or
// else what was written down when it was last tried.
func why(rem *api.Remediation, d *Decision) string {
	switch {
	case d == nil:
		return because(ReasonNoPolicy, "no policy selects the machine any more")
	case d.Verdict != Act:
		return because(d.Reason, d.Message)
	case rem.Status.Message != "":
		return strings.TrimPrefix(rem.Status.Message, notBegun)
	}
	return "the remediator did not come to it"
}

// Withdrawing is what is written down before a request is taken away, so that it is known
// afterwards who took it.
func (w Withdrawal) Withdrawing() Update {
	u := *w.Then
	u.Phase, u.Reason, u.Message = api.RemediationActing, ReasonWithdrawing, clip(because(w.Then.Reason, w.Then.Message), 1024)
	return u
}

// Unwithdrawn is what is written down of a request that stands though it should not.
func (w Withdrawal) Unwithdrawn(err string) Update {
	u := w.Withdrawing()
	u.Reworded = w.Marked
	u.Message = clip("the request is to be withdrawn: "+clip(u.Message, 256)+"; it lapses by itself, since withdrawing it fails: "+err, 1024)
	return u
}

func neverBegun(why string) string { return "the deadline passed; the repair was never begun: " + why }

// Failure is a decision to act that could not be carried out.
type Failure struct {
	// Name of the repair.
	Name string
	// Message says what was tried, and the error.
	Message string
}

// Failed is the plan as it turned out: decisions that could not be carried out are
// holds like any other, and limit their policy.
func (p Plan) Failed(failures []Failure) Plan {
	if len(failures) == 0 {
		return p
	}
	messages := map[string]string{}
	for _, f := range failures {
		messages[f.Name] = f.Message
	}
	failed := map[string][]*Decision{}
	p.Decisions, p.Policies = slices.Clone(p.Decisions), slices.Clone(p.Policies)
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if message, ok := messages[d.Name]; ok && d.Verdict == Act {
			d.Verdict, d.Reason, d.Message = Hold, ReasonRequestFailed, clip(message, 512)
			failed[d.Policy] = append(failed[d.Policy], d)
		}
	}
	holds := holdsOf(p.Decisions)
	for i := range p.Policies {
		r := &p.Policies[i]
		r.Holds = holds[r.Name]
		r.limit(failed[r.Name])
	}
	return p
}

// limit leaves the reason of a policy that is limited already.
func (r *Report) limit(failed []*Decision) {
	if len(failed) == 0 {
		return
	}
	first := failed[0]
	message := fmt.Sprintf("%d repairs could not be begun, machine %s in cell %s: %s", len(failed), first.Machine.Name, first.Cell, first.Message)
	if r.Allowed != metav1.ConditionTrue {
		r.Message += "; " + message
		return
	}
	r.Allowed, r.Reason, r.Message = metav1.ConditionUnknown, ReasonRequestFailed, message
}

// holdsOf sorts by policy whatever is not acted on.
func holdsOf(decisions []Decision) map[string][]*Decision {
	holds := map[string][]*Decision{}
	for i := range decisions {
		if d := &decisions[i]; d.Verdict != Act {
			holds[d.Policy] = append(holds[d.Policy], d)
		}
	}
	return holds
}
