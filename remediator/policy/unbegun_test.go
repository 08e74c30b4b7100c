package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const refusedMessage = "not begun: RequestFailed: asking for Reboot of machine fleet/shop-0-03 in cell cell-0: forbidden"

// A record that is not begun says what withholds it, and in the end why it never was.
func TestRecordSaysWhyItIsNotBegun(t *testing.T) {
	refuse := func(_ *world, rem *api.Remediation) {
		rem.Status.Phase, rem.Status.Reason, rem.Status.Message = api.RemediationPending, "RequestFailed", refusedMessage
	}
	silent := func(w *world, _ *api.Remediation) { w.Centrals[0] = policy.Central{Name: "central-a", Err: "away"} }
	for name, tc := range map[string]struct {
		change func(w *world, rem *api.Remediation)
		left   time.Duration
		want   string
	}{
		"held": {silent, 20 * time.Minute, "Pending EvidenceMissing not begun: EvidenceMissing: central-a did not answer: away"},
		"held to the deadline": {silent, -time.Second,
			"Cancelled DeadlinePassed the deadline passed; the repair was never begun: EvidenceMissing: central-a did not answer: away"},
		"refused to the deadline": {refuse, -time.Second,
			"Cancelled DeadlinePassed the deadline passed; the repair was never begun: RequestFailed: asking for Reboot of machine fleet/shop-0-03 in cell cell-0: forbidden"},
		"refused for half the time": {refuse, 10 * time.Minute,
			"Cancelled TooLittleTime less than half of the 30m0s that the policy allows is left, and the repair was not begun: " +
				"RequestFailed: asking for Reboot of machine fleet/shop-0-03 in cell cell-0: forbidden; it is evaluated anew"},
		"nobody was there": {func(*world, *api.Remediation) {}, -time.Second,
			"Cancelled DeadlinePassed the deadline passed; the repair was never begun: the remediator did not come to it"},
		"policy gone": {func(w *world, _ *api.Remediation) { w.policies = nil }, -time.Second,
			"Cancelled DeadlinePassed the deadline passed; the repair was never begun: NoPolicy: no policy selects the machine any more"},
		"cell away": {func(w *world, _ *api.Remediation) { w.Cells[0].Err = "refused" }, 20 * time.Minute,
			"Pending InventoryUnknown not begun: InventoryUnknown: the machines of cell cell-0 cannot be listed: refused"},
		"cell away to the deadline": {func(w *world, _ *api.Remediation) { w.Cells[0].Err = "refused" }, -time.Second,
			"Cancelled DeadlinePassed the deadline passed; the repair was never begun: InventoryUnknown: the machines of cell cell-0 cannot be listed: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w, rem := recorded(t)
			tc.change(w, rem)
			rem.Spec.Deadline = metav1.NewTime(now.Add(tc.left))
			plan := w.decide()
			require.Empty(t, acts(plan))
			require.Len(t, plan.Updates, 1)
			u := plan.Updates[0]
			require.Equal(t, tc.want, string(u.Phase)+" "+string(u.Reason)+" "+u.Message)
		})
	}
}

// What was refused is tried again, and what it said stays until it turns out otherwise.
func TestRefusedRepairIsTriedAgain(t *testing.T) {
	w, rem := recorded(t)
	rem.Status.Phase, rem.Status.Reason, rem.Status.Message = api.RemediationPending, "RequestFailed", refusedMessage
	plan := w.decide()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(plan))
	require.Equal(t, rem.Name, acts(plan)[0].Name)
	require.Empty(t, plan.Updates)
}

// Ages in messages grow with every round; a record is not rewritten for that.
func TestOnlyWordsAreKnownAsSuch(t *testing.T) {
	w, rem := recorded(t)
	w.Centrals[0].Heartbeats[0].At = now.Add(-2 * time.Minute)
	first := w.decide().Updates[0]
	require.False(t, first.Reworded)
	rem.Status.Phase, rem.Status.Reason, rem.Status.Message = first.Phase, string(first.Reason), first.Message
	require.Empty(t, w.decide().Updates)
	w.Centrals[0].Heartbeats[0].At = now.Add(-3 * time.Minute)
	require.True(t, w.decide().Updates[0].Reworded)
	rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second))
	require.False(t, w.decide().Updates[0].Reworded, "its end is more than words")
}

func TestWithheldByTheLastLook(t *testing.T) {
	_, rem := recorded(t)
	u := policy.Withheld(rem, policy.ReasonLiveUnknown, "reading the Node: timeout", now)
	require.Equal(t, api.RemediationPending, u.Phase)
	require.Equal(t, "not begun: LiveUnknown: reading the Node: timeout", u.Message)
	u = policy.Withheld(rem, policy.ReasonPaused, "cell cell-0 is paused or being deleted", now)
	require.Equal(t, api.RemediationCancelled, u.Phase)
	require.Equal(t, "cell cell-0 is paused or being deleted", u.Message)
	require.LessOrEqual(t, len(policy.Withheld(rem, policy.ReasonRequestFailed, strings.Repeat("é", 4000), now).Message), 1024)
}

func TestWhatCouldNotBeCarriedOutIsAHold(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.eager()
	w.fail("shop-0-03")
	w.fail("shop-1-03")
	plan := w.decide()
	failed := plan.Failed([]policy.Failure{{Name: acts(plan)[0].Name, Message: "asking for it: " + strings.Repeat("x", 600)}})
	require.Equal(t, []string{"shop-0-03 Hold RequestFailed", "shop-1-03 Act Unhealthy"}, verdicts(failed))
	report := failed.Policies[0]
	require.Equal(t, metav1.ConditionUnknown, report.Allowed)
	require.Equal(t, policy.ReasonRequestFailed, report.Reason)
	require.Contains(t, report.Message, "1 repairs could not be begun, machine shop-0-03 in cell cell-0: asking for it: xxx")
	require.Len(t, report.Holds, 1)
	require.Len(t, report.Holds[0].Message, 512)
	require.Equal(t, 2, report.Unhealthy)
	require.Equal(t, []string{"shop-0-03 Act Unhealthy", "shop-1-03 Act Unhealthy"}, verdicts(plan), "the plan itself stands")
	require.Equal(t, verdicts(plan), verdicts(plan.Failed(nil)))

	w.Centrals[0].Heartbeats = w.Centrals[0].Heartbeats[1:]
	dark := w.decide()
	report = dark.Failed([]policy.Failure{{Name: acts(dark)[0].Name, Message: "forbidden"}}).Policies[0]
	require.Equal(t, policy.ReasonEvidenceMissing, report.Reason)
	require.Contains(t, report.Message, "the other cells go on being repaired; 1 repairs could not be begun, machine shop-1-03 in cell cell-1: forbidden")
}
