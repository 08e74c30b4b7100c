package scenario_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// remediator carries decisions out: it does what it is told, and nothing of its
// own. All it knows from one round to the next stands in the fleet, so that it may
// be killed between any two writes.
type remediator struct {
	decide  func([]api.RemediationPolicy, policy.Snapshot, time.Time) policy.Plan
	confirm func(policy.Decision, policy.Fresh, time.Time) policy.Confirmation
	// writes is how many it has left until it is killed; negative means that it is not.
	writes int
	// meanwhile happens between the next record and the last look.
	meanwhile []string
	// asked is when each request was written.
	asked []time.Time
	// told is the last verdict on each machine and policy, for the transcript only.
	told map[string]string
}

func newRemediator() remediator {
	return remediator{decide: policy.Decide, confirm: policy.Confirm, writes: -1, told: map[string]string{}}
}

// round reads, decides and acts once.
func (f *fleet) round() {
	s := f.snapshot()
	s.Clusters = f.live(policy.Suspects(f.policies, s))
	plan := f.decide(f.policies, s, f.clock())
	f.tell(plan)
	for _, u := range plan.Updates {
		f.update(u)
	}
	for _, w := range plan.Withdrawals {
		f.withdraw(w)
	}
	for _, u := range plan.Uncordons {
		f.uncordon(u)
	}
	for _, h := range plan.Handovers {
		f.handOver(h)
	}
	f.writeIncidents(plan)
	for _, d := range plan.Decisions {
		f.carryOut(d)
	}
	if f.writes == 0 {
		f.say("the remediator is killed and started anew")
		for _, m := range f.machines {
			m.seen = nil
		}
		f.writes = -1
	}
	f.judgeStanding()
}

func (f *fleet) carryOut(d policy.Decision) {
	switch {
	case d.Verdict == policy.Act:
		f.act(d)
	case d.Verdict == policy.Escalate && !d.Recorded && f.write(func() { f.keep(d) }):
		f.update(policy.EscalationOf(f.record(d.Name)))
	case d.Verdict == policy.Propose && !d.Recorded && f.record(d.Name) == nil:
		f.write(func() { f.keep(d) })
	}
}

// write is false when the remediator is dead.
func (f *fleet) write(change func()) bool {
	if f.writes == 0 {
		return false
	}
	if f.writes > 0 {
		f.writes--
	}
	change()
	return true
}

// reserve keeps a place that the repair has already for no longer than it was.
func (f *fleet) reserve(d policy.Decision) {
	one := policy.Reservation{Name: d.Name, Target: d.Spec.Target, Place: d.Spec.Place, At: f.clock()}
	f.places = slices.DeleteFunc(f.places, func(o policy.Reservation) bool {
		if o.Name == one.Name && !o.Over(one.At) {
			one.At = o.At
		}
		return o.Name == one.Name || o.Over(one.At)
	})
	f.places = append(f.places, one)
}

func (f *fleet) release(name string) {
	f.places = slices.DeleteFunc(f.places, func(o policy.Reservation) bool { return o.Name == name })
}

// act takes a place, writes the record, looks once more, asks, and writes down that it asked.
func (f *fleet) act(d policy.Decision) {
	m := f.machine(d.Machine.Name)
	if !f.write(func() { f.reserve(d) }) {
		return
	}
	if !d.Recorded && f.record(d.Name) == nil && !f.write(func() { f.keep(d) }) {
		return
	}
	happens := f.meanwhile
	f.meanwhile = nil
	for _, line := range happens {
		f.must(line)
	}
	seen := f.confirm(d, f.fresh(m, d), f.clock())
	if rem := f.record(d.Name); seen.Reason != "" && rem != nil {
		f.update(policy.Withheld(rem, seen.Reason, seen.Message, f.clock()))
		f.write(func() { f.release(d.Name) })
		return
	}
	f.begin(m, d, seen)
}

// begin drains the node first, where the repair says so.
func (f *fleet) begin(m *machine, d policy.Decision, seen policy.Confirmation) {
	if rem := f.record(d.Name); rem != nil && policy.ToDrain(rem) {
		f.drain(m, d)
		return
	}
	if f.claim(d) && f.write(func() { f.ask(m, d, seen.StartBefore) }) {
		f.update(policy.Update{
			Name: d.Name, Phase: api.RemediationActing, Reason: policy.ReasonRequested, Acted: true, Confirmation: seen.Signals,
		})
	}
}

func (f *fleet) keep(d policy.Decision) {
	f.records = append(f.records, &api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: d.Spec})
	if d.Verdict == policy.Propose {
		f.say("%s is proposed for %s", f.alias(d.Name), d.Machine.Name)
		return
	}
	f.say("%s is recorded for %s", f.alias(d.Name), d.Machine.Name)
}

func (f *fleet) fresh(m *machine, d policy.Decision) policy.Fresh {
	return policy.Fresh{
		Policy: &f.policies[0], Record: f.record(d.Name), Budgets: slices.Clone(f.budgets), CellPaused: f.state["cell "+m.cell] == "paused", ClusterPaused: f.state["cluster "+m.Cluster] == "paused",
		Machine: m.Machine, Live: f.read(m.cell, m.Cluster, d.Nodes()),
	}
}

// ask writes the request on the machine, right or wrong.
func (f *fleet) ask(m *machine, d policy.Decision, startBefore time.Time) {
	f.judge(m, d)
	f.asked = append(f.asked, f.now)
	m.touched = f.now
	m.Request = &api.RemediationRequest{
		ID: d.Name, Action: d.Spec.Action, StartBefore: metav1.NewTime(startBefore), Deadline: d.Spec.Deadline, HardwareID: d.Spec.Target.HardwareID,
	}
	if by := d.Spec.Replacement; by != nil {
		m.Request.Spare = &api.SpareReference{Name: by.Machine, UID: by.MachineUID}
	}
	f.say("%s is asked of %s", f.alias(d.Name), m.Name)
}

func (f *fleet) withdraw(w policy.Withdrawal) {
	m := f.machine(w.Machine)
	if m.Request == nil || m.Request.ID != w.ID || w.Then != nil && m.Response != nil && m.Response.ID == w.ID {
		return
	}
	if w.Then != nil && !w.Marked {
		f.update(w.Withdrawing())
	}
	if f.write(func() { m.Request = nil }) && w.Then != nil {
		f.update(*w.Then)
	}
}

// update leaves out what would only reword a record that waits.
func (f *fleet) update(u policy.Update) {
	rem := f.record(u.Name)
	if rem == nil || rem.Status.Phase.Final() || u.Reworded || u.From != "" && phase(rem) != u.From {
		return
	}
	f.write(func() {
		before := fmt.Sprint(phase(rem), " ", rem.Status.Reason)
		apply(&rem.Status, u, metav1.NewTime(f.clock()))
		if after := fmt.Sprint(phase(rem), " ", rem.Status.Reason); after != before {
			f.say("%s %s", f.alias(u.Name), after)
		}
	})
}

func apply(s *api.RemediationStatus, u policy.Update, now metav1.Time) {
	s.Phase, s.Reason, s.Message = u.Phase, string(u.Reason), u.Message
	if s.Approval == nil && u.Approval != nil {
		s.Approval, s.Deadline = u.Approval, &metav1.Time{Time: u.Deadline}
	}
	if s.Denial == nil {
		s.Denial = u.Denial
	}
	if s.ActedAt == nil && u.Acted {
		s.ActedAt = &now
	}
	if len(s.Confirmation) == 0 {
		s.Confirmation = u.Confirmation
	}
	if s.RepairedAt == nil && !u.RepairedAt.IsZero() {
		s.RepairedAt = &metav1.Time{Time: u.RepairedAt}
	}
	if u.Phase.Final() {
		s.EndedAt = &now
	}
	s.Drain = cmp.Or(u.Drain, s.Drain)
	if u.Phase == api.RemediationSucceeded {
		s.VerifiedAt, s.Verification = &now, u.Verification
	}
}

// alias is a short name for a record, by the order of writing.
func (f *fleet) alias(name string) string {
	return fmt.Sprintf("repair-%d", 1+slices.IndexFunc(f.records, func(r *api.Remediation) bool { return r.Name == name }))
}

// tell adds to the transcript what is decided otherwise than in the round before.
func (f *fleet) tell(plan policy.Plan) {
	now, names := map[string]string{}, slices.Collect(maps.Keys(f.told))
	for _, d := range plan.Decisions {
		now[d.Machine.Name] = fmt.Sprintf("%s: %s %s", d.Machine.Name, d.Verdict, d.Reason)
	}
	for _, p := range plan.Policies {
		now[p.Name] = fmt.Sprintf("policy %s: allowed %s, %s", p.Name, p.Allowed, p.Reason)
	}
	names = slices.AppendSeq(names, maps.Keys(now))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		switch now[name] {
		case f.told[name]:
		case "":
			f.say("%s: nothing to decide", name)
		default:
			f.say("%s", now[name])
		}
	}
	f.told = now
}
