package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// emptying is a fleet of one machine whose node is drained before it is rebooted, in ten
// minutes at most.
func emptying() *world {
	w := lemon(api.EscalationStep{Action: api.ActionReboot, Drain: &api.DrainStep{TimeoutSeconds: ptr.To(int32(600))}})
	w.Cells[0].DrainableClusters = []string{"shop-0"}
	return w
}

// draining is the same a while after it began, with so many pods left.
func draining(ago time.Duration, left int32) (*world, *api.Remediation) {
	w := emptying()
	d := w.decide().Decisions[0]
	rem := api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: d.Spec, Status: api.RemediationStatus{
		Phase: api.RemediationDraining, Reason: string(policy.ReasonDraining),
		Drain: &api.DrainRecord{StartedAt: metav1.NewTime(now.Add(-ago)), CordonedAt: ptr.To(metav1.NewTime(now.Add(-ago))), Left: left,
			Blocked: []api.BlockedPod{{Namespace: "web", Pod: "db-0", Reason: "The disruption budget db needs 1"}}},
	}}
	rem.Spec.Deadline = metav1.NewTime(now.Add(40*time.Minute - ago))
	w.Remediations = append(w.Remediations, rem)
	w.node(sick).Unschedulable, w.node(sick).CordonedBy = true, d.Name
	return w, &w.Remediations[len(w.Remediations)-1]
}

func TestADrainIsPartOfTheStep(t *testing.T) {
	w := emptying()
	d := w.decide().Decisions[0]
	require.Equal(t, policy.Act, d.Verdict)
	require.EqualValues(t, 600, *d.Spec.Drain.TimeoutSeconds)
	require.Equal(t, now.Add(40*time.Minute), d.Spec.Deadline.Time, "the step has its own time after the drain")
	require.True(t, policy.ToDrain(&api.Remediation{Spec: d.Spec}))

	w.Cells[0].DrainableClusters = nil
	require.Equal(t, []string{sick + " Hold DrainUnavailable"}, verdicts(w.decide()))
}

// Case C20: what is over, and what is waited for.
func TestHowFarADrainIs(t *testing.T) {
	for name, c := range map[string]struct {
		found policy.DrainFound
		ready string
		ago   time.Duration
		ended bool
	}{
		"nothing is left":                      {policy.DrainFound{}, "False", time.Minute, true},
		"one may not go":                       {policy.DrainFound{Left: 1}, "Unknown", time.Minute, false},
		"one may not go, and the time is over": {policy.DrainFound{Left: 1}, "Unknown", time.Hour, false},
		"a kubelet ends them":                  {policy.DrainFound{Leaving: 2}, "False", time.Minute, false},
		"it does not in time":                  {policy.DrainFound{Leaving: 2}, "False", 10 * time.Minute, true},
		"a silent one cannot":                  {policy.DrainFound{Leaving: 2}, "Unknown", time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, rem := draining(c.ago, 3)
			u := policy.DrainGoesOn(rem, c.found, c.ready, now)
			require.Equal(t, c.ended, u.Drain.EndedAt != nil)
			require.EqualValues(t, c.found.Left, u.Drain.Left)
			require.EqualValues(t, c.found.Leaving, u.Drain.Leaving)
			require.Equal(t, api.RemediationDraining, u.Phase)
		})
	}
}

// What becomes of a drain by what is known meanwhile.
func TestADrainThatGoesOnOrEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(w *world, rem *api.Remediation)
		update    string // of the record
		act       bool
		uncordons bool
	}{
		"nothing has changed": {nil, "", true, false},
		"it is drained":       {func(_ *world, rem *api.Remediation) { rem.Status.Drain.EndedAt = ptr.To(metav1.NewTime(now)) }, "", true, false},
		"its time is over":    {func(_ *world, rem *api.Remediation) { late(rem) }, "Failed DrainBlocked", false, false},
		"those left are going": {func(_ *world, rem *api.Remediation) {
			late(rem)
			rem.Status.Drain.Left, rem.Status.Drain.Leaving = 0, 2
		}, "", true, false},
		"nothing was left": {func(_ *world, rem *api.Remediation) { late(rem); rem.Status.Drain.Left = 0 }, "", true, false},
		"a stop": {func(w *world, _ *api.Remediation) {
			w.bound("stop", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "x"})
		}, "Draining Frozen", false, false},
		"a pause":             {func(w *world, _ *api.Remediation) { w.machine(sick).Paused = true }, "Draining Paused", false, false},
		"a central is silent": {func(w *world, _ *api.Remediation) { w.Centrals[0].Err = "x" }, "Draining EvidenceMissing", false, false},
		"it recovers":         {func(w *world, _ *api.Remediation) { w.heal(sick, false) }, "Draining Uncordoning", false, true},
		"it has rebooted":     {func(w *world, _ *api.Remediation) { w.node(sick).BootID = "boot-2" }, "Draining Uncordoning", false, true},
		"and somebody uncordons it": {func(w *world, _ *api.Remediation) {
			w.heal(sick, false)
			w.node(sick).Unschedulable, w.node(sick).CordonedBy = false, ""
		}, "Cancelled Uncordoned", false, false},
		"and we have uncordoned it": {func(w *world, rem *api.Remediation) {
			w.heal(sick, false)
			w.node(sick).Unschedulable, w.node(sick).CordonedBy, rem.Status.Reason = false, "", string(policy.ReasonUncordoning)
		}, "Cancelled Recovered", false, false},
		"a pause for long": {func(w *world, rem *api.Remediation) {
			w.machine(sick).Paused = true
			rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second))
		}, "Cancelled DeadlinePassed", false, false},
		"somebody uncordoned it": {func(w *world, _ *api.Remediation) { w.node(sick).Unschedulable, w.node(sick).CordonedBy = false, "" }, "Cancelled Uncordoned", false, false},
		"denied": {func(_ *world, rem *api.Remediation) {
			rem.Annotations = map[string]string{api.AnnotationDeniedBy: "me"}
		}, "Draining Uncordoning", false, true},
		"by no policy any more": {func(w *world, _ *api.Remediation) {
			w.policies[0].Spec.MatchAll, w.policies[0].Spec.Pools = "", []string{"x"}
		}, "Draining Uncordoning", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, rem := draining(time.Minute, 1)
			if c.change != nil {
				c.change(w, rem)
			}
			plan := w.decide()
			want := []string{}
			if c.update != "" {
				want = []string{rem.Name + " " + c.update}
			}
			require.Equal(t, want, updates(plan))
			require.Equal(t, c.act, len(acts(plan)) == 1, "%v", verdicts(plan))
			require.Equal(t, c.uncordons, len(plan.Uncordons) == 1)
		})
	}
}

// late lets the time of the drain be over, and not that of the step.
func late(rem *api.Remediation) {
	rem.Status.Drain.StartedAt = metav1.NewTime(now.Add(-10 * time.Minute))
}

// Case C21: nothing but a fresh observation of that very hardware, from after the drain
// began, is proof that it is off.
func TestOffIsProven(t *testing.T) {
	off := api.PowerStatus{State: api.PowerOff, ObservedAt: metav1.NewTime(now.Add(-10 * time.Second)), HardwareID: "hw-" + sick}
	for name, c := range map[string]struct {
		change func(p *api.PowerStatus)
		proven bool
	}{
		"off":                  {func(*api.PowerStatus) {}, true},
		"on":                   {func(p *api.PowerStatus) { p.State = api.PowerOn }, false},
		"a word of no meaning": {func(p *api.PowerStatus) { p.State = "Asleep" }, false},
		"other hardware":       {func(p *api.PowerStatus) { p.HardwareID = "hw-x" }, false},
		"no hardware":          {func(p *api.PowerStatus) { p.HardwareID = "" }, false},
		"old":                  {func(p *api.PowerStatus) { p.ObservedAt = metav1.NewTime(now.Add(-2 * time.Minute)) }, false},
		"before it began":      {func(p *api.PowerStatus) { p.ObservedAt = metav1.NewTime(now.Add(-11 * time.Minute)) }, false},
		"in the future":        {func(p *api.PowerStatus) { p.ObservedAt = metav1.NewTime(now.Add(time.Minute)) }, false},
		"never":                {func(p *api.PowerStatus) { p.ObservedAt = metav1.Time{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, rem := draining(time.Minute, 1)
			late(rem)
			seen := off
			c.change(&seen)
			w.machine(sick).PowerSeen = &seen
			plan := w.decide()
			if !c.proven {
				require.Equal(t, []string{rem.Name + " Failed DrainBlocked"}, updates(plan))
				require.Empty(t, acts(plan))
				return
			}
			require.Len(t, acts(plan), 1)
			require.True(t, plan.Decisions[0].Fences())
		})
	}
	w, rem := draining(time.Minute, 1)
	late(rem)
	w.machine(sick).PowerSeen = &off
	w.node(sick).Ready, w.lease(sick).Renewed = "False", now.Add(-time.Second)
	require.Equal(t, []string{rem.Name + " Failed DrainBlocked"}, updates(w.decide()), "its kubelet lives, whatever the provider says")

	w, _ = draining(time.Minute, 1)
	w.machine(sick).PowerSeen = &off
	require.False(t, w.decide().Decisions[0].Fences(), "while budgets may still let the pods go, they are asked")
}

// Case C20: what could not be drained is for people, with the budget that was in the way.
func TestWhatCannotBeDrainedIsHandedToPeople(t *testing.T) {
	w := emptying()
	rem := w.tried(api.ActionReboot, api.RemediationFailed, policy.ReasonDrainBlocked, time.Minute)
	rem.Status.RepairedAt, rem.Status.Message = nil, "1 pods are left; blocked are web/db-0: The disruption budget db needs 1"
	w.node(sick).Unschedulable, w.node(sick).CordonedBy = true, rem.Name
	d := w.decide().Decisions[0]
	require.Equal(t, policy.Escalate, d.Verdict)
	require.Contains(t, d.Spec.Reason, "its node could not be drained for Reboot of "+rem.Name+": 1 pods are left; blocked are web/db-0: The disruption budget db")
}

// Case C27: what a repair has left cordoned is used again once it is well, unless somebody
// has to look at it, or works on it.
func TestANodeThatWasLeftCordoned(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, rem *api.Remediation)
		want   bool
	}{
		"well":               {nil, true},
		"not well":           {func(w *world, _ *api.Remediation) { w.node(sick).Ready = "False" }, false},
		"a central lists it": {func(w *world, _ *api.Remediation) { w.fail(sick); w.node(sick).Ready = "True" }, false},
		"nobody knows":       {func(w *world, _ *api.Remediation) { w.Centrals[0].Err = "x" }, false},
		"paused":             {func(w *world, _ *api.Remediation) { w.machine(sick).Paused = true }, false},
		"frozen": {func(w *world, _ *api.Remediation) {
			w.bound("stop", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "x"})
		}, false},
		"observed only":          {func(w *world, _ *api.Remediation) { w.policies[0].Spec.Mode = api.ModeObserve }, false},
		"cordoned by a person":   {func(w *world, _ *api.Remediation) { w.node(sick).CordonedBy = "" }, false},
		"by another of ours":     {func(w *world, _ *api.Remediation) { w.node(sick).CordonedBy = "x" }, false},
		"another repair is open": {func(w *world, _ *api.Remediation) { w.open(sick, api.RemediationActing) }, false},
		"left to people": {func(w *world, _ *api.Remediation) {
			w.tried(api.ActionEscalate, api.RemediationEscalated, policy.ReasonEscalated, time.Minute)
		}, false},
		"who have looked": {func(w *world, _ *api.Remediation) {
			look(w.tried(api.ActionEscalate, api.RemediationEscalated, policy.ReasonEscalated, time.Minute))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, rem := draining(time.Minute, 1)
			rem.Status.Phase, rem.Status.Reason, rem.Status.EndedAt = api.RemediationFailed, string(policy.ReasonRepairFailed), ptr.To(metav1.NewTime(now.Add(-time.Hour)))
			w.heal(sick, true)
			if c.change != nil {
				c.change(w, rem)
			}
			require.Contains(t, policy.Suspects(w.policies, w.Snapshot), policy.NodeRef{Cell: "cell-0", Cluster: "shop-0", Node: sick})
			require.Equal(t, c.want, len(w.decide().Uncordons) == 1)
		})
	}
}

// A drain is a disruption like the repair that it precedes.
func TestADrainHasItsPlaces(t *testing.T) {
	w, rem := draining(time.Minute, 1)
	w.Remediations = w.Remediations[:0]
	w.addCell(1, 4, 5)
	w.Cells[1].DrainableClusters = []string{"shop-1"}
	w.fail("shop-1-03")
	w.Remediations = append(w.Remediations, *rem)
	plan := w.decide()
	require.Equal(t, []string{sick + " Act Unhealthy", "shop-1-03 Defer InFlight"}, verdicts(plan), "one at first in the fleet")
}

// A node is used again before its repair counts as done.
func TestUncordonedBeforeItIsVerified(t *testing.T) {
	w := emptying()
	rem := w.open(sick, api.RemediationVerifying)
	w.asked(rem, api.RepairSucceeded)
	w.heal(sick, true)
	w.node(sick).Unschedulable, w.node(sick).CordonedBy = true, rem.Name
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Verifying Uncordoning"}, updates(plan))
	require.Equal(t, []policy.Uncordon{{Remediation: rem.Name, Target: rem.Spec.Target}}, plan.Uncordons)
	w.node(sick).Unschedulable, w.node(sick).CordonedBy = false, ""
	require.Equal(t, []string{rem.Name + " Succeeded Verified"}, updates(w.decide()))
}

// Case C27: a cordon that nobody of ours made holds, as ever.
func TestACordonOfSomebodyElseHolds(t *testing.T) {
	w := emptying()
	w.node(sick).Unschedulable = true
	require.Equal(t, []string{sick + " Hold Cordoned"}, verdicts(w.decide()))
	w.node(sick).CordonedBy = "an-earlier-one"
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(w.decide()))
}
