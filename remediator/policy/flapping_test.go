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

// flapper is a fleet with one node that went down a minute ago, and was down for so long of
// the last half hour, by each of the centrals and its API server.
func flapper(long ...time.Duration) *world {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	w.node(sick).Since = now.Add(-time.Minute)
	for i := range w.Centrals {
		w.Centrals[i].Unhealthy[0].Unready.Duration = long[min(i, len(long)-1)]
	}
	w.node(sick).Unready.Duration = long[len(long)-1]
	return w
}

// Case C08: a node that is never down for long at a time is repaired by what it was down
// for in sum.
func TestC08_ANodeThatFlapsIsRepaired(t *testing.T) {
	plan := flapper(9 * time.Minute).decide()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Spec.Reason, "of the last 30m0s it was not ready for 9m0s")
}

// Case C08: what is not known of a node that flaps, and what explains it, holds.
func TestC08_AFlappingNodeThatIsLeftAlone(t *testing.T) {
	repaired := func(w *world, phase api.RemediationPhase, reason policy.Reason) {
		w.policies[0].Spec.CooldownSeconds = ptr.To(int32(60))
		rem := w.open(sick, phase)
		at := metav1.NewTime(now.Add(-20 * time.Minute))
		rem.Status.Reason, rem.Status.ActedAt, rem.Status.RepairedAt, rem.Status.EndedAt = string(reason), &at, &at, &at
		rem.Spec.Deadline = at
	}
	for name, c := range map[string]struct {
		long   []time.Duration
		change func(w *world)
		want   string
	}{
		"not for a third of the time": {[]time.Duration{8*time.Minute + 59*time.Second}, nil, "Defer NotLongEnough"},
		"by one central alone":        {[]time.Duration{20 * time.Minute, 0}, nil, "Defer NotLongEnough"},
		"less by one central":         {[]time.Duration{20 * time.Minute, 8 * time.Minute}, nil, "Defer NotLongEnough"},
		"not by its API server":       {[]time.Duration{20 * time.Minute, 20 * time.Minute, 0}, nil, "Defer NotLongEnough"},
		"not for long in sum": {[]time.Duration{14 * time.Minute}, func(w *world) {
			w.policies[0].Spec.UnhealthySeconds = ptr.To(int32(900))
		}, "Defer NotLongEnough"},
		"the policy wants it never": {[]time.Duration{29 * time.Minute}, func(w *world) {
			w.policies[0].Spec.FlappingPercent = ptr.To(int32(100))
		}, "Defer NotLongEnough"},
		"well at this moment": {[]time.Duration{20 * time.Minute}, func(w *world) { w.node(sick).Ready = "True" }, "Hold LiveStateContradicts"},
		"listed by one alone": {[]time.Duration{20 * time.Minute}, func(w *world) { w.Centrals[1].Unhealthy = nil }, "Hold EvidenceConflict"},
		"repaired in that time": {[]time.Duration{20 * time.Minute}, func(w *world) {
			repaired(w, api.RemediationSucceeded, policy.ReasonVerified)
		}, "Hold Cooldown"},
		"a repair failed in that time": {[]time.Duration{20 * time.Minute}, func(w *world) {
			w.policies[0].Spec.Escalation = threeSteps()
			repaired(w, api.RemediationFailed, policy.ReasonRepairFailed)
		}, "Hold Cooldown"},
	} {
		t.Run(name, func(t *testing.T) {
			w := flapper(c.long...)
			if c.change != nil {
				c.change(w)
			}
			require.Equal(t, []string{sick + " " + c.want}, verdicts(w.decide()))
		})
	}
}

// Case C08 after a storm, as in case C16: what it was down for was the storm.
func TestC08_AStormIsNoFlapping(t *testing.T) {
	s := newStorm(t, 10, 5)
	s.policies[0].Spec.UnhealthySeconds = ptr.To(int32(600))
	s.down(nodes(0, 5)...)
	s.pass(0)
	s.up(nodes(0, 4)...)
	s.pass(5 * time.Second)
	s.pass(300 * time.Second)
	s.up("shop-0-04")
	s.pass(5 * time.Second)
	s.down("shop-0-04")
	s.node("shop-0-04").Since = s.at
	for i := range s.Centrals {
		s.Centrals[i].Unhealthy[0].Unready.Duration = 20 * time.Minute
	}
	s.node("shop-0-04").Unready.Duration = 20 * time.Minute
	plan := s.pass(5 * time.Second)
	require.Equal(t, []string{"shop-0-04 Defer NotLongEnough"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "required are 30m0s")
}
