package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// limited is a fleet of one sick node in each cell, whose policy may begin so many
// repairs a day, and where nothing else is in the way of that many at once.
func limited(cells int, perDay int32) *world {
	w := newWorld(cells, 20, 5)
	for c := range cells {
		w.fail(fmt.Sprintf("shop-%d-00", c))
	}
	w.policies[0].Spec.Mode, w.policies[0].Spec.Limit.PerDay = api.ModeActLimited, ptr.To(perDay)
	w.eager()
	return w
}

func TestALimitedPolicyBeginsNoMoreInADay(t *testing.T) {
	w := limited(3, 2)
	require.Equal(t, []string{"shop-0-00 Act Unhealthy", "shop-1-00 Act Unhealthy", "shop-2-00 Hold LimitReached"}, verdicts(w.decide()),
		"those of one round count")
	w.ended("shop-2-30", api.RemediationSucceeded, 23*time.Hour)
	w.ended("shop-2-31", api.RemediationFailed, 22*time.Hour)
	plan := w.decide()
	require.Equal(t, []string{"shop-0-00 Hold LimitReached", "shop-1-00 Hold LimitReached", "shop-2-00 Hold LimitReached"}, verdicts(plan),
		"whatever came of them counts")
	next := w.Remediations[0].Status.ActedAt.Add(24 * time.Hour)
	require.Equal(t, "policy nodes has begun 2 repairs in the last 24 hours and may begin 2, the next at "+next.UTC().Format(time.RFC3339)+
		"; look at them, then wait or raise spec.limit.perDay", plan.Decisions[0].Message)
	require.Equal(t, next, plan.NextCheck, "waiting alone frees a place")

	w.Remediations[0].Status.ActedAt = ptr.To(metav1.NewTime(now.Add(-24 * time.Hour)))
	require.Len(t, acts(w.decide()), 1, "what began a day ago does not count any more")
	w.Remediations[1].Spec.PolicyName = "another"
	require.Len(t, acts(w.decide()), 2, "nor does what another policy began")
	w.policies[0].Spec.Limit = api.PolicyLimit{}
	require.Empty(t, acts(w.decide()), "no limit is not any number")
}

// A machine that another policy had a repair written down for is not begun with: that one
// would be counted by nobody.
func TestALimitedPolicyBeginsNothingOfAnother(t *testing.T) {
	w := limited(1, 1)
	d := w.decide().Decisions[0]
	rem := api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))}, Spec: d.Spec}
	w.Remediations = append(w.Remediations, rem)
	require.Equal(t, []string{"shop-0-00 Act Unhealthy"}, verdicts(w.decide()), "its own goes on")
	w.Remediations[0].Spec.PolicyName = "another"
	plan := w.decide()
	require.Equal(t, []string{"shop-0-00 Hold LimitReached"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, d.Name+" is written down by policy another")
}

// Case C23: what may have begun counts.
// What may stand on a machine though nobody could write it down counts.
func TestALimitCountsWhatMayHaveBegun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, rem *api.Remediation)
		want   int
	}{
		"written down only": {func(*world, *api.Remediation) {}, 1},
		"tried in vain": {func(_ *world, rem *api.Remediation) {
			rem.Status.TriedAt = ptr.To(metav1.NewTime(now.Add(-time.Minute)))
		}, 0},
		"asked for, and not written down": {func(w *world, rem *api.Remediation) {
			w.asked(rem, "")
			rem.Status.ActedAt = nil
		}, 0},
		"answered, and not written down": {func(w *world, rem *api.Remediation) {
			w.asked(rem, api.RepairSucceeded)
			w.machine("shop-1-00").Request = nil
			rem.Status.ActedAt = nil
		}, 0},
		"on a machine that cannot be seen": {func(w *world, _ *api.Remediation) { w.Cells[1].Err = "away"; w.Cells[1].Machines = nil }, 0},
		"about to be asked for by another": {func(w *world, rem *api.Remediation) {
			w.Reservations = append(w.Reservations, policy.Reservation{Name: rem.Name, Target: rem.Spec.Target, At: now.Add(-time.Minute)})
		}, 0},
		"about to be written down by another": {func(w *world, rem *api.Remediation) {
			w.Reservations = append(w.Reservations, policy.Reservation{Name: "theirs", Target: rem.Spec.Target, At: now.Add(-time.Minute)})
		}, 0},
		"given up by another": {func(w *world, rem *api.Remediation) {
			w.Reservations = append(w.Reservations, policy.Reservation{Name: rem.Name, Target: rem.Spec.Target, At: now.Add(-time.Hour)})
		}, 1},
		"cancelled before it began": {func(_ *world, rem *api.Remediation) {
			rem.Status.Phase = api.RemediationCancelled
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := limited(2, 1)
			w.heal("shop-1-00", false)
			w.fail("shop-1-40")
			w.lease("shop-1-40").Renewed = now // held, so that it takes no place in this round
			c.change(w, w.open("shop-1-40", api.RemediationPending))
			require.Len(t, acts(w.decide()), c.want)
		})
	}
}

// A repair's own record is not in its way, nor is a limit that was lowered later.
func TestALimitDoesNotCountTheRepairItself(t *testing.T) {
	w := limited(1, 1)
	name := acts(w.decide())[0].Name
	rem := w.open("shop-0-00", api.RemediationPending)
	rem.Name = name
	rem.Status.TriedAt = ptr.To(metav1.NewTime(now.Add(-4 * time.Minute)))
	require.Equal(t, []string{"shop-0-00 Act Unhealthy"}, verdicts(w.decide()))
	w.ended("shop-0-30", api.RemediationSucceeded, 2*time.Hour)
	plan := w.decide()
	require.Equal(t, []string{name + " Cancelled LimitReached"}, updates(plan), "what has not begun is given up")
	w.asked(&w.Remediations[0], "")
	require.Empty(t, w.decide().Withdrawals, "what stands was counted when it was asked for")
}

func TestTheLastLookKeepsToTheLimit(t *testing.T) {
	w := newWorld(1, 20, 5)
	w.fail(sick)
	w.policies[0].Spec.Mode, w.policies[0].Spec.Limit.PerDay = api.ModeActLimited, ptr.To(int32(2))
	w.ended("shop-0-30", api.RemediationSucceeded, 2*time.Hour)
	d := acts(w.decide())[0]
	p := w.policies[0].DeepCopy()
	f := again(w, p, now)
	require.Empty(t, policy.Confirm(d, f, now).Reason)
	p.Spec.Limit.PerDay = ptr.To(int32(1))
	require.Equal(t, policy.ReasonLimitReached, policy.Confirm(d, f, now).Reason)
}

// A limited policy goes up its escalation as far as it may, and holds what is due for more.
func TestALimitedPolicyDoesNothingHarsher(t *testing.T) {
	w := lemon(threeSteps()...)
	w.policies[0].Spec.Mode = api.ModeActLimited
	w.policies[0].Spec.Limit = api.PolicyLimit{PerDay: ptr.To(int32(5)), Action: api.ActionReboot}
	w.failedStep(api.ActionRestartComponent, time.Minute)
	d := acts(w.decide())[0]
	require.Equal(t, api.ActionReboot, d.Spec.Action)
	w.failedStep(api.ActionReboot, 2*time.Minute)
	plan := w.decide()
	require.Equal(t, []string{sick + " Hold LimitReached"}, verdicts(plan))
	require.Equal(t, "policy nodes may do nothing harsher than Reboot, and Reinstall is due; look at the machine, or raise spec.limit.action", plan.Decisions[0].Message)

	// What is asked for already is taken back when the limit becomes less.
	w = lemon()
	name := acts(w.decide())[0].Name
	rem := w.open(sick, api.RemediationActing)
	rem.Name = name
	w.asked(rem, "")
	w.policies[0].Spec.Mode = api.ModeActLimited
	w.policies[0].Spec.Limit = api.PolicyLimit{PerDay: ptr.To(int32(5)), Action: api.ActionRestartComponent}
	require.Equal(t, []string{rem.Name + " Cancelled LimitReached"}, withdrawals(w.decide()))
}
