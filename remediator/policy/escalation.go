package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// defaultAttempts is how often a step may succeed on the same hardware in a window.
	defaultAttempts = 3
	// defaultWindow is in seconds.
	defaultWindow = 24 * 60 * 60
)

// severity orders actions from the mildest to the most destructive.
var severity = []api.RemediationAction{api.ActionRestartComponent, api.ActionReboot, api.ActionReinstall, api.ActionReplace}

// step is one step of a policy's escalation with its defaults resolved.
type step struct {
	action   api.RemediationAction
	timeout  time.Duration
	attempts int
	// sparePool is the one of which a spare is taken; empty means the machine's own.
	sparePool string
	drain     *api.DrainStep
}

func (s step) drainTime() time.Duration {
	if s.drain == nil {
		return 0
	}
	return seconds(s.drain.TimeoutSeconds, 0)
}

// ladder is a policy's escalation. What comes after its last step is not in it, since it
// is always the same.
func ladder(spec *api.RemediationPolicySpec) []step {
	declared := spec.Escalation
	if len(declared) == 0 {
		declared = []api.EscalationStep{{Action: api.ActionReboot}}
	}
	timeout := seconds(spec.TimeoutSeconds, 1800)
	steps := make([]step, 0, len(declared))
	for _, d := range declared {
		one := step{action: d.Action, timeout: timeout, attempts: defaultAttempts, sparePool: d.SparePool, drain: d.Drain}
		if d.TimeoutSeconds != nil {
			one.timeout = seconds(d.TimeoutSeconds, 0)
		}
		if d.Attempts != nil {
			one.attempts = int(*d.Attempts)
		}
		steps = append(steps, one)
	}
	return steps
}

// tries are what the records tell of one hardware, whichever Machine it was then, and
// whichever policy repaired it.
type tries struct {
	// escalated is the record by which it was handed to people, which nobody has
	// acknowledged; nil if there is none.
	escalated *api.Remediation
	// unverified is one of which nobody could see whether it helped.
	unverified *api.Remediation
	// failed is the most destructive repair that failed, and unproven one of which it is
	// not known that it has ended, or that ended for a reason which is no answer to
	// whether it helps.
	failed, unproven *api.Remediation
	// latest is the one of them that ended last.
	latest *api.Remediation
	// overdue is one that failed by its deadline and is said to run still.
	overdue *api.Remediation
	// helped counts, for each action, those that succeeded within the window, or of which
	// nobody could see that they did not.
	helped map[api.RemediationAction]int
}

// triesOf leaves out what people acknowledged, and all before it: a machine that they
// looked at begins anew. A failure that a later success made up for counts for as long
// as the window alone.
func (ix *index) triesOf(key string, window time.Duration) tries {
	t, l := tries{helped: map[api.RemediationAction]int{}}, looks{}
	for _, rem := range ix.past[key] {
		l.add(rem, ix.now)
	}
	for _, rem := range ix.past[key] {
		at := endedAt(rem, ix.now)
		recent := at.After(ix.now.Add(-window))
		switch p := phase(rem); {
		case l.covers(rem, at):
		case p == api.RemediationEscalated:
			t.escalated = rem
		case p == api.RemediationSucceeded && recent:
			t.helped[rem.Spec.Action]++
		case p == api.RemediationFailed && (recent || !at.Before(l.mended)):
			t.fail(rem, ix)
		}
	}
	return t
}

func acknowledged(rem *api.Remediation) bool {
	return rem.Annotations[AnnotationAcknowledged] == "true"
}

// looks are, of one hardware, when something failed first of which nobody has said that
// he has looked, when something has helped last, and when somebody has looked last.
type looks struct{ failed, mended, lookedAt time.Time }

func (l *looks) add(rem *api.Remediation, now time.Time) {
	at, p := endedAt(rem, now), phase(rem)
	switch {
	case acknowledged(rem):
		l.lookedAt = later(l.lookedAt, at)
	case p == api.RemediationFailed, p == api.RemediationEscalated:
		if l.failed.IsZero() || at.Before(l.failed) {
			l.failed = at
		}
	}
	if p == api.RemediationSucceeded {
		l.mended = later(l.mended, at)
	}
}

// covers says whether somebody has looked at it, or at what came after.
func (l looks) covers(rem *api.Remediation, at time.Time) bool {
	return acknowledged(rem) || !at.IsZero() && !at.After(l.lookedAt)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (t *tries) fail(rem *api.Remediation, ix *index) {
	if t.latest == nil || endedAt(rem, ix.now).After(endedAt(t.latest, ix.now)) {
		t.latest = rem
	}
	switch concluded, runs := ix.concluded(rem); {
	case runs:
		t.overdue = rem
	case !concluded:
		t.unproven = rem
	case Reason(rem.Status.Reason) == ReasonUnverified:
		t.unverified = rem
		t.helped[rem.Spec.Action]++
	case t.failed == nil || rank(rem.Spec.Action) > rank(t.failed.Spec.Action):
		t.failed = rem
	}
}

// rank has what is not known above everything: nothing milder is done after it.
func rank(action api.RemediationAction) int {
	if at := slices.Index(severity, action); at >= 0 {
		return at
	}
	return len(severity)
}

// concluded says whether a repair that failed is known to have ended and not to have
// helped. Only then may another follow: one that is cut short by the next, or that was
// done to other hardware, is for people. A Job may end after the deadline of its repair,
// when the record is closed: while it runs nobody has to look yet.
func (ix *index) concluded(rem *api.Remediation) (concluded, runs bool) {
	switch Reason(rem.Status.Reason) {
	case ReasonRepairFailed, ReasonDeadlinePassed, ReasonUnverified, ReasonNodeCheckFailed, ReasonNodeCheckTimedOut:
	default:
		return false, false
	}
	if rem.Status.RepairedAt != nil {
		return true, false
	}
	p, seen := ix.byUID[rem.Spec.Target.MachineUID]
	if !seen || p.machine.Response == nil || p.machine.Response.ID != rem.Name {
		return false, false
	}
	if p.machine.running() {
		return false, p.machine.runs(ix.now)
	}
	// An answer without an end is of work that disappeared: it may go on unseen.
	return p.machine.Response.Phase != api.RepairRefused && p.machine.Response.FinishedAt != nil, false
}

// follows says whether the next step follows the named repair, without a pause.
func (t tries) follows(name string) bool { return t.latest != nil && t.latest.Name == name }

// next is the step that is due, or why none is.
func (t tries) next(steps []step) (due step, exhausted string) {
	if t.unproven != nil && Reason(t.unproven.Status.Reason) == ReasonDrainBlocked {
		return steps[0], fmt.Sprintf("its node could not be drained for %s of %s: %s", t.unproven.Spec.Action, t.unproven.Name, t.unproven.Status.Message)
	}
	if t.unproven != nil {
		return steps[0], fmt.Sprintf("%s of %s ended as %s, so that it is not known what it did, and nothing may follow it",
			t.unproven.Spec.Action, t.unproven.Name, t.unproven.Status.Reason)
	}
	for _, one := range steps {
		beyond := t.failed != nil && rank(t.failed.Spec.Action) >= rank(one.action)
		if !beyond && t.helped[one.action] < one.attempts {
			return one, ""
		}
	}
	return steps[0], "no step of the escalation is left: " + t.history(steps)
}

// history says what was tried in vain.
func (t tries) history(steps []step) string {
	var said []string
	for _, one := range steps {
		if n := t.helped[one.action]; n > 0 {
			said = append(said, fmt.Sprintf("%s helped %d times and not for long", one.action, n))
		}
		if t.unverified != nil && t.unverified.Spec.Action == one.action {
			said = append(said, fmt.Sprintf("of %s nobody could see whether it did", t.unverified.Name))
		}
	}
	if t.failed != nil {
		said = append(said, fmt.Sprintf("%s of %s failed: %s: %s", t.failed.Spec.Action, t.failed.Name, t.failed.Status.Reason, clip(t.failed.Status.Message, 200)))
	}
	return strings.Join(said, "; ")
}

// escalate chooses the subject's step by what was tried on its hardware.
func (r *run) escalate(s *subject) {
	s.tries = r.ix.triesOf(identity(s.machine.HardwareID, s.machine.UID), s.settings.window)
	s.choose()
}

// choose takes the step that is due.
func (s *subject) choose() { s.step, s.exhausted = s.tries.next(s.settings.steps) }

// rollOut leaves nodes alone that a roll-out is about to replace, or has broken. Since when
// it goes on nobody writes down, so that nothing is concluded from its length.
func (s subject) rollOut() (Reason, string) {
	if s.upgrade == "" {
		return "", ""
	}
	return ReasonRollOut, fmt.Sprintf("cluster %s is on its way from %s; the node waits for that, or for people if it is what the roll-out waits for", s.ref.Cluster, s.upgrade)
}

// escalated says why a machine is left to people.
func (s subject) escalated() (Reason, string) {
	if rem := s.tries.escalated; rem != nil {
		return ReasonEscalated, fmt.Sprintf("%s handed it to people: %s; mend or replace the machine, then let it be repaired again: kubectl annotate remediation %s %s=true",
			rem.Name, clip(rem.Spec.Reason, 250), rem.Name, AnnotationAcknowledged)
	}
	if rem := s.tries.overdue; rem != nil {
		return ReasonInFlight, fmt.Sprintf("%s has failed by its deadline, and the node operator says that it runs still", rem.Name)
	}
	if s.exhausted != "" {
		return ReasonEscalated, s.exhausted
	}
	return "", ""
}

// hand is the verdict on a machine that nothing more is to be tried on.
func (r *run) hand(d *Decision, s subject, p place) {
	d.Verdict = Escalate
	switch {
	case s.tries.escalated != nil:
		d.Name, d.Spec, d.Recorded = s.tries.escalated.Name, s.tries.escalated.Spec, true
	case s.settings.observe:
		d.Verdict, d.Reason = Observe, ReasonObserveOnly
		d.Message = clip(fmt.Sprintf("policy %s only observes; it would hand the machine to people: %s", s.settings.name, s.exhausted), 512)
	default:
		d.Name, d.Spec = r.name(s), r.spec(s, p)
		d.Spec.Replacement, d.Spec.Drain = nil, nil
		d.Spec.Action, d.Spec.Reason, d.Spec.Verification = api.ActionEscalate, clip(s.exhausted+"; "+s.wrong(), 1024), api.Verification{}
	}
}

// left counts the hardware that people have to look at. Of one that is in no Machine any
// more nobody has to, once all cells are known.
func (ix *index) left() int {
	all := true
	for _, c := range ix.cells {
		all = all && c.Err == ""
	}
	n := 0
	for _, rem := range ix.people {
		t := rem.Spec.Target
		_, there := ix.byUID[t.MachineUID]
		if t.HardwareID != "" {
			there = ix.hardware[t.HardwareID] > 0
		}
		if there || !all {
			n++
		}
	}
	return n
}

// escalationTold finishes a record by which a machine was handed to people, and which a
// crash left without its phase.
func (r *run) escalationTold(rem *api.Remediation) {
	if rem.Status.Phase == "" {
		r.plan.Updates = append(r.plan.Updates, EscalationOf(rem))
	}
}

// EscalationOf is what is written on a record by which a machine is handed to people.
func EscalationOf(rem *api.Remediation) Update {
	return Update{Name: rem.Name, Target: rem.Spec.Target, Phase: api.RemediationEscalated, Reason: ReasonEscalated, Message: rem.Spec.Reason}
}
