package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// behind has the clocks of centrals behind ours.
func (w *world) behind(by ...time.Duration) {
	for i := range w.Centrals {
		w.Centrals[i].ClockSkew.Duration = -by[i]
	}
}

// A clock of ours that jumped ahead ends no repair: neither its deadline is over by it,
// nor the time of its check.
func TestClockThatIsAheadEndsNothing(t *testing.T) {
	for name, phase := range map[string]api.RepairPhase{"runs": api.RepairRunning, "to be verified": api.RepairSucceeded} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 2, 5)
			w.fail(sick)
			rem := w.open(sick, api.RemediationActing)
			w.asked(rem, phase)
			rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second))
			failed := []string{rem.Name + " Failed DeadlinePassed"}
			require.Equal(t, failed, updates(w.decide()))
			w.behind(time.Hour, 2*time.Hour)
			plan := w.decide()
			require.Len(t, plan.Updates, 1)
			require.False(t, plan.Updates[0].Phase.Final(), "%v", plan.Updates[0])
			require.Contains(t, plan.Updates[0].Message, "; its deadline is over by the remediator's clock alone, which is ahead of every central's, and does not count")
			w.behind(time.Hour, 0)
			require.Equal(t, failed, updates(w.decide()), "one that agrees is enough")
			w.behind(-time.Hour, -time.Hour)
			require.Equal(t, failed, updates(w.decide()), "a clock of ours that is behind makes nothing late")
			w.Centrals[0].Err, w.Centrals[1].Err = "away", "away"
			require.Equal(t, failed, updates(w.decide()), "nobody says that ours is wrong")
		})
	}
	w, rem := repaired()
	rem.Status.NodeCheck = checkRecord(api.NodeCheckRunning, 91*time.Second)
	w.NodeChecks = []policy.NodeChecks{{Remediation: rem.Name, Pods: []policy.CheckPod{checkPod(api.NodeCheckRunning, 91*time.Second)}}}
	require.Equal(t, []string{rem.Name + " Failed NodeCheckTimedOut"}, updates(w.decide()))
	w.behind(time.Hour, time.Hour)
	require.Equal(t, []string{rem.Name + " Verifying AwaitingVerification"}, updates(w.decide()))
}
