package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// requested is a world in which the request for a repair stands on the sick
// machine and the node operator has not answered.
func requested(t *testing.T) (*world, *api.Remediation) {
	t.Helper()
	w, rem := recorded(t)
	rem.Status.Phase = api.RemediationActing
	w.asked(rem, "")
	return w, rem
}

func TestRequestStandsForAsLongAsItIsRight(t *testing.T) {
	w, rem := requested(t)
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Acting Requested"}, updates(plan))
	require.Empty(t, plan.Withdrawals)
	require.Empty(t, plan.Decisions, "neither asked for again nor held")
	require.Equal(t, 1, plan.Policies[0].Unhealthy)
	require.Equal(t, now.Add(36*time.Second), plan.NextCheck, "just after it has lapsed")

	running("old")(w.machine(sick))
	w.machine(sick).Response.Phase = api.RepairSucceeded
	require.Equal(t, []string{rem.Name + " Acting Requested"}, updates(w.decide()), "the answer to another request is none")

	rem.Status.Phase = ""
	require.Equal(t, []string{rem.Name + " Acting Requested"}, updates(w.decide()), "a crash before the status was written")
	require.Equal(t, 1, w.decide().Policies[0].Unhealthy)
}

// Case C27: a request that a person speaks against is taken back.
// Case C29: so is that of a node which has recovered.
// Each case takes away one thing that justifies a request that stands.
func TestRequestIsWithdrawnWhenNothingJustifiesIt(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		reason policy.Reason
	}{
		"recovered":          {func(w *world) { w.heal(sick, false) }, policy.ReasonRecovered},
		"live node is Ready": {func(w *world) { w.node(sick).Ready = "True" }, policy.ReasonRecovered},
		"rebooted by hand":   {func(w *world) { w.node(sick).BootID = "boot-2" }, policy.ReasonRecovered},
		"ready in between":   {func(w *world) { w.node(sick).Since = now.Add(-6 * time.Minute) }, policy.ReasonRecovered},
		"machine paused":     {func(w *world) { w.machine(sick).Paused = true }, policy.ReasonPaused},
		"cluster paused":     {func(w *world) { w.Cells[0].PausedClusters = []string{"shop-0"} }, policy.ReasonPaused},
		"policy observes":    {func(w *world) { w.policies[0].Spec.Mode = api.ModeObserve }, policy.ReasonObserveOnly},
		"policy gone":        {func(w *world) { w.policies = nil }, policy.ReasonNoPolicy},
		"cordoned":           {func(w *world) { w.node(sick).Unschedulable = true }, policy.ReasonCordoned},
		"made a spare":       {func(w *world) { w.machine(sick).InUse = false }, policy.ReasonNotInUse},
		"hardware swapped":   {func(w *world) { w.machine(sick).HardwareID = "hw-new" }, policy.ReasonTargetChanged},
		"rack went down":     {func(w *world) { w.fail("shop-0-04"); w.lease("shop-0-04").Renewed = now }, policy.ReasonCorrelatedFailure},
		"many Leases old":    {func(w *world) { w.fail("shop-0-05"); w.fail("shop-0-10"); w.fail("shop-0-15") }, policy.ReasonControlPathSuspected},
		"central silent":     {func(w *world) { w.Centrals[0] = policy.Central{Name: "central-a", Err: "away"} }, policy.ReasonEvidenceMissing},
		"centrals disagree":  {func(w *world) { w.Centrals[0].Unhealthy = nil }, policy.ReasonEvidenceConflict},
		"cluster unreadable": {func(w *world) { w.Clusters[0].Err = "away" }, policy.ReasonLiveUnknown},
		"a Job runs beside":  {func(w *world) { running("old")(w.machine("shop-0-11")) }, policy.ReasonInFlight},
		"lapsed":             {func(w *world) { w.machine(sick).Request.StartBefore = metav1.NewTime(now.Add(-6 * time.Second)) }, policy.ReasonNotStarted},
		"never was to start": {func(w *world) { w.machine(sick).Request.StartBefore = metav1.Time{} }, policy.ReasonNotStarted},
	} {
		t.Run(name, func(t *testing.T) {
			w, rem := requested(t)
			tc.change(w)
			plan := w.decide()
			require.Equal(t, []string{rem.Name + " Cancelled " + string(tc.reason)}, withdrawals(plan))
			require.NotEmpty(t, plan.Withdrawals[0].Then.Message)
			require.True(t, plan.Withdrawals[0].Then.Acted)
			require.Empty(t, plan.Updates, "the record says so only when the request is away")
			require.Empty(t, acts(plan))
		})
	}
}

// An answer may be on its way at the moment at which the request lapses.
func TestLapsedRequestHasAMomentOfGrace(t *testing.T) {
	w, rem := requested(t)
	w.machine(sick).Request.StartBefore = metav1.NewTime(now.Add(-5 * time.Second))
	require.Equal(t, []string{rem.Name + " Acting Requested"}, updates(w.decide()))
}

func TestAnsweredRequestIsNotWithdrawn(t *testing.T) {
	w, rem := requested(t)
	w.asked(rem, api.RepairRunning)
	w.machine(sick).Paused = true
	w.machine(sick).Request.StartBefore = metav1.NewTime(now.Add(-time.Hour))
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Acting RepairRunning"}, updates(plan))
	require.Empty(t, plan.Withdrawals)
}

// The request of a cell that cannot be read stands until it lapses; nobody knows more.
func TestRequestInAnUnreadableCellWaits(t *testing.T) {
	w, rem := requested(t)
	w.Cells[0].Err = "away"
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Acting InventoryUnknown"}, updates(plan))
	require.Empty(t, plan.Withdrawals)
}
