package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// recorded is a world in which a repair of the sick machine is written down and
// the machine is not touched yet, as after a crash.
func recorded(t *testing.T) (*world, *api.Remediation) {
	t.Helper()
	w := newWorld(1, 4, 5)
	w.fail(sick)
	d := acts(w.decide())[0]
	w.Remediations = append(w.Remediations, api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: d.Spec})
	return w, &w.Remediations[0]
}

// Case C24: a record is taken up after a restart.
func TestRecordedRepairIsTakenUpUnderItsName(t *testing.T) {
	w, rem := recorded(t)
	w.fail("shop-0-01") // would come first by name
	w.policies[0].Spec.MaxUnhealthyPercent = new(int32)
	*w.policies[0].Spec.MaxUnhealthyPercent = 50
	plan := w.decide()
	require.Equal(t, []string{"shop-0-01 Defer InFlight", sick + " Act Unhealthy"}, verdicts(plan))
	d := acts(plan)[0]
	require.Equal(t, rem.Name, d.Name)
	require.Equal(t, rem.Spec, d.Spec)
	require.True(t, d.Recorded)
	require.Empty(t, plan.Updates)
}

// Case C02: what is not known lets a record wait.
// Case C24: a record is judged by what is known now; one of a machine that is gone has ended.
// Case C29: a node that has recovered is not repaired.
func TestRecordedRepairIsSettledByCurrentEvidence(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world, rem *api.Remediation)
		phase  api.RemediationPhase
		reason policy.Reason
	}{
		"recovered":           {func(w *world, _ *api.Remediation) { w.heal(sick, false) }, api.RemediationCancelled, policy.ReasonRecovered},
		"live node recovered": {func(w *world, _ *api.Remediation) { w.node(sick).Ready = "True" }, api.RemediationCancelled, policy.ReasonRecovered},
		"ready in between":    {func(w *world, _ *api.Remediation) { w.node(sick).Since = now.Add(-6 * time.Minute) }, api.RemediationCancelled, policy.ReasonRecovered},
		"paused":              {func(w *world, _ *api.Remediation) { w.machine(sick).Paused = true }, api.RemediationCancelled, policy.ReasonPaused},
		"policy gone":         {func(w *world, _ *api.Remediation) { w.policies = nil }, api.RemediationCancelled, policy.ReasonNoPolicy},
		"policy observes":     {func(w *world, _ *api.Remediation) { w.policies[0].Spec.Mode = api.ModeObserve }, api.RemediationCancelled, policy.ReasonObserveOnly},
		"rack went down":      {func(w *world, _ *api.Remediation) { w.fail("shop-0-04"); w.lease("shop-0-04").Renewed = now }, api.RemediationCancelled, policy.ReasonCorrelatedFailure},
		"foreign request":     {func(w *world, _ *api.Remediation) { w.machine(sick).Request = &api.RemediationRequest{ID: "by-hand"} }, api.RemediationCancelled, policy.ReasonForeignRemediation},
		"machine gone":        {func(w *world, _ *api.Remediation) { w.machine(sick).UID = "another" }, api.RemediationCancelled, policy.ReasonTargetGone},
		"too little time": {func(_ *world, rem *api.Remediation) {
			rem.Spec.Deadline = metav1.NewTime(now.Add(15*time.Minute - time.Second))
		}, api.RemediationCancelled, policy.ReasonTooLittleTime},
		"hardware swapped": {func(w *world, _ *api.Remediation) { w.machine(sick).HardwareID = "hw-new" }, api.RemediationCancelled, policy.ReasonTargetChanged},
		"provider id changed": {func(w *world, _ *api.Remediation) {
			w.machine(sick).ProviderID, w.node(sick).ProviderID = "kwok://new", "kwok://new"
		}, api.RemediationCancelled, policy.ReasonTargetChanged},
		"rebooted":           {func(w *world, _ *api.Remediation) { w.node(sick).BootID = "boot-2" }, api.RemediationCancelled, policy.ReasonRecovered},
		"deadline passed":    {func(_ *world, rem *api.Remediation) { rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second)) }, api.RemediationCancelled, policy.ReasonDeadlinePassed},
		"central silent":     {func(w *world, _ *api.Remediation) { w.Centrals[0] = policy.Central{Name: "central-a", Err: "away"} }, api.RemediationPending, policy.ReasonEvidenceMissing},
		"centrals disagree":  {func(w *world, _ *api.Remediation) { w.Centrals[0].Unhealthy = nil }, api.RemediationPending, policy.ReasonEvidenceConflict},
		"cluster unreadable": {func(w *world, _ *api.Remediation) { w.Clusters[0].Err = "away" }, api.RemediationPending, policy.ReasonLiveUnknown},
		"cell unreachable":   {func(w *world, _ *api.Remediation) { w.Cells[0].Err = "away" }, api.RemediationPending, policy.ReasonInventoryUnknown},
		"cell unlisted":      {func(w *world, _ *api.Remediation) { w.Cells = nil }, api.RemediationPending, policy.ReasonInventoryUnknown},
		"patched before crash": {func(w *world, rem *api.Remediation) {
			w.machine(sick).Request = &api.RemediationRequest{ID: rem.Name, StartBefore: metav1.NewTime(now)}
		}, api.RemediationActing, policy.ReasonRequested},
	} {
		t.Run(name, func(t *testing.T) {
			w, rem := recorded(t)
			tc.change(w, rem)
			plan := w.decide()
			require.Empty(t, acts(plan))
			require.Equal(t, []string{rem.Name + " " + string(tc.phase) + " " + string(tc.reason)}, updates(plan))
			for _, d := range plan.Decisions {
				require.NotEqual(t, policy.ReasonRecovered, d.Reason, "a machine that is well is no hold")
			}
		})
	}
}

func TestEndedRepairGivesItsNameToNoOther(t *testing.T) {
	w, rem := recorded(t)
	first := rem.Name
	rem.Status.Phase = api.RemediationCancelled
	second := acts(w.decide())[0].Name
	require.NotEqual(t, first, second)
	require.Equal(t, second, acts(w.decide())[0].Name, "the same for the same inputs")
}

func TestRepairOnItsWay(t *testing.T) {
	for name, tc := range map[string]struct {
		phase  api.RemediationPhase
		answer api.RepairPhase
		change func(w *world, rem *api.Remediation)
		want   string
	}{
		"running":           {api.RemediationActing, api.RepairRunning, nil, "Acting RepairRunning"},
		"failed":            {api.RemediationActing, api.RepairFailed, nil, "Failed RepairFailed"},
		"refused":           {api.RemediationActing, api.RepairRefused, nil, "Cancelled RepairRefused"},
		"still listed":      {api.RemediationActing, api.RepairSucceeded, nil, "Verifying AwaitingVerification"},
		"request withdrawn": {api.RemediationActing, "", func(w *world, _ *api.Remediation) { w.machine(sick).Request = nil }, "Failed RequestWithdrawn"},
		"another's request": {api.RemediationActing, "", func(w *world, _ *api.Remediation) { w.machine(sick).Request.ID = "by-hand" }, "Failed RequestWithdrawn"},
		"answered for other hardware": {api.RemediationActing, api.RepairSucceeded, func(w *world, _ *api.Remediation) {
			w.heal(sick, true)
			w.machine(sick).HardwareID = "hw-new"
		}, "Failed TargetChanged"},
		"node is another": {api.RemediationVerifying, api.RepairSucceeded, func(w *world, _ *api.Remediation) {
			w.heal(sick, true)
			w.node(sick).ProviderID = "kwok://other"
		}, "Failed TargetChanged"},
		"machine gone":     {api.RemediationVerifying, api.RepairSucceeded, func(w *world, _ *api.Remediation) { w.Cells[0].Machines = slices.Delete(w.Cells[0].Machines, 3, 4) }, "Failed TargetGone"},
		"cell unreachable": {api.RemediationActing, api.RepairSucceeded, func(w *world, _ *api.Remediation) { w.Cells[0].Err = "away" }, "Acting InventoryUnknown"},
		"cell away past time": {api.RemediationActing, "", func(w *world, rem *api.Remediation) {
			w.Cells[0].Err = "away"
			rem.Spec.Deadline = metav1.NewTime(now.Add(-1))
		}, "Failed DeadlinePassed"},
		"not verified in time": {api.RemediationVerifying, api.RepairSucceeded, func(_ *world, rem *api.Remediation) { rem.Spec.Deadline = metav1.NewTime(now.Add(-1)) }, "Failed DeadlinePassed"},
		"well":                 {api.RemediationVerifying, api.RepairSucceeded, func(w *world, _ *api.Remediation) { w.heal(sick, true) }, "Succeeded Verified"},
		"well, straight away":  {api.RemediationActing, api.RepairSucceeded, func(w *world, _ *api.Remediation) { w.heal(sick, true) }, "Succeeded Verified"},
		"well, old samples":    {api.RemediationVerifying, api.RepairSucceeded, func(w *world, _ *api.Remediation) { listedLongAgo(w); w.wellNode(sick) }, "Succeeded Verified"},
		"well, policy gone":    {api.RemediationVerifying, api.RepairSucceeded, func(w *world, _ *api.Remediation) { w.heal(sick, true); w.policies = nil }, "Succeeded Verified"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 4, 5)
			w.fail(sick)
			rem := w.open(sick, tc.phase)
			w.asked(rem, tc.answer)
			if tc.change != nil {
				tc.change(w, rem)
			}
			plan := w.decide()
			require.Equal(t, []string{rem.Name + " " + tc.want}, updates(plan))
			require.Empty(t, acts(plan))
			require.Empty(t, plan.Decisions, "a machine under repair is not held")
			if plan.Updates[0].Phase == api.RemediationSucceeded {
				require.Len(t, plan.Updates[0].Verification, 4)
			}
		})
	}
}

func listedLongAgo(w *world) {
	for i := range w.Centrals {
		w.Centrals[i].Unhealthy[0].At = now.Add(-40 * time.Second)
	}
}

// wellNode heals the live node only.
func (w *world) wellNode(name string) {
	n := w.node(name)
	n.Ready, n.BootID = "True", "boot-2"
	w.lease(name).Renewed = now
}

// Case C02: what is not known verifies nothing.
// Each case takes away one thing that verification needs.
func TestVerificationNeedsEverything(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(w *world)
		missing string
	}{
		"not rebooted":       {func(w *world) { w.node(sick).BootID = "boot-1" }, "the boot id has not changed"},
		"not ready":          {func(w *world) { w.node(sick).Ready = "False" }, `the live Node's Ready condition is "False"`},
		"no provider id":     {func(w *world) { w.node(sick).ProviderID = "" }, "the Node has no provider id"},
		"central's clock":    {func(w *world) { w.Centrals[0].ClockSkew.Duration = -time.Minute }, "agreement of the centrals (EvidenceStale)"},
		"node absent":        {func(w *world) { w.node(sick).Absent = true }, "no such Node"},
		"lease old":          {func(w *world) { w.lease(sick).Renewed = now.Add(-time.Minute) }, "Lease is not renewed"},
		"cluster unreadable": {func(w *world) { w.Clusters[0].Err = "away" }, "the live Node and Lease cannot be read"},
		"central silent":     {func(w *world) { w.Centrals[0] = policy.Central{Name: "central-a", Err: "away"} }, "agreement of the centrals (EvidenceMissing)"},
		"central warns":      {func(w *world) { w.Centrals[0].Warnings = []string{"partial"} }, "agreement of the centrals (EvidencePartial)"},
		"cell silent":        {func(w *world) { w.Centrals[0].Heartbeats[0].At = now.Add(-5 * time.Minute) }, "agreement of the centrals (EvidenceStale)"},
		"cluster not seen":   {func(w *world) { w.Centrals[1].ClustersUp[0].Up = false }, "agreement of the centrals (ClusterUnreachable)"},
		"still listed by one": {func(w *world) {
			w.Centrals[1].Unhealthy = []policy.NodeSample{{Cell: "cell-0", Cluster: "shop-0", Node: sick, At: now.Add(-4 * time.Second)}}
		}, "agreement of the centrals (EvidenceConflict)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 4, 5)
			w.fail(sick)
			w.heal(sick, true)
			rem := w.open(sick, api.RemediationVerifying)
			w.asked(rem, api.RepairSucceeded)
			require.Equal(t, []string{rem.Name + " Succeeded Verified"}, updates(w.decide()))
			tc.change(w)
			plan := w.decide()
			require.Equal(t, []string{rem.Name + " Verifying AwaitingVerification"}, updates(plan))
			require.Contains(t, plan.Updates[0].Message, tc.missing)
			require.Equal(t, now.Add(-time.Minute), plan.Updates[0].RepairedAt)

			rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second))
			plan = w.decide()
			late := "DeadlinePassed"
			if strings.HasPrefix(tc.missing, "agreement of") || strings.HasSuffix(tc.missing, "cannot be read") {
				late = "Unverified" // nothing that is known speaks against it
			}
			require.Equal(t, []string{rem.Name + " Failed " + late}, updates(plan))
			require.Contains(t, plan.Updates[0].Message, tc.missing)
		})
	}
}

func TestWaitingRewritesNothing(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	rem := w.open(sick, api.RemediationActing)
	w.asked(rem, api.RepairSucceeded)
	u := w.decide().Updates[0]
	rem.Status.Phase, rem.Status.Reason, rem.Status.Message = u.Phase, string(u.Reason), u.Message
	require.Empty(t, w.decide().Updates)
	later := policy.Decide(w.policies, w.Snapshot, now.Add(3*time.Second))
	require.Empty(t, later.Updates)
	require.Equal(t, rem.Spec.Deadline.Time, later.NextCheck)
}

func TestRequestOfAnEndedRepairIsWithdrawn(t *testing.T) {
	w := newWorld(1, 4, 5)
	rem := w.open(sick, api.RemediationSucceeded)
	w.asked(rem, api.RepairSucceeded)
	w.machine("shop-0-01").Request = &api.RemediationRequest{ID: "by-hand"}
	require.Equal(t, []policy.Withdrawal{{Cell: "cell-0", Namespace: "fleet", Machine: sick, UID: "uid-" + sick, ID: rem.Name}}, w.decide().Withdrawals)
}

// A request that we take away is no doing of somebody else, whatever keeps that from being
// written down.
func TestARequestThatWeTookAway(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	name := acts(w.decide())[0].Name
	rem := w.open(sick, api.RemediationActing)
	rem.Name = name
	w.asked(rem, "")
	w.machine(sick).Paused = true
	taken := w.decide().Withdrawals[0]
	require.False(t, taken.Marked)
	u := taken.Withdrawing()
	require.Equal(t, api.RemediationActing, u.Phase)
	rem.Status.Reason, rem.Status.Message = string(u.Reason), u.Message
	require.True(t, w.decide().Withdrawals[0].Marked)

	// The cell cannot be read for a while, and then the request is gone.
	w.Cells[0].Err = "away"
	require.Empty(t, updates(w.decide()), "what is written down stays")
	w.Cells[0].Err = ""
	w.machine(sick).Request = nil
	plan := w.decide()
	require.Equal(t, []string{name + " Cancelled Withdrawn"}, updates(plan))
	require.Equal(t, "Paused: machine "+sick+" is paused or being deleted", plan.Updates[0].Message)
	rem.Status.Reason = string(policy.ReasonRequested)
	require.Equal(t, []string{name + " Failed RequestWithdrawn"}, updates(w.decide()))
}
