package controller

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// TestRemediator shares one API server among all that happens to one fleet.
func TestRemediator(t *testing.T) {
	config := testkit.APIServer(t)
	for _, tc := range []struct {
		name string
		test func(t *testing.T, config *rest.Config)
	}{
		{"life of a repair", testLife},
		{"holds", testHolds},
		{"cell that a central does not see", testUnseen},
		{"two failures in a cluster", testOneAtATime},
		{"crash between record and patch", testCrashBeforePatch},
		{"crash between patch and status", testCrashBeforeStatus},
		{"recovery between record and patch", testRecoveryBeforePatch},
		{"pause between record and patch", testPauseBeforePatch},
		{"withdrawn by hand", testWithdrawnByHand},
		{"request that nothing justifies any more", testUnjustified},
		{"request that nobody takes up", testNotStarted},
		{"refused", testRefused},
		{"slow last look", testSlowLook},
		{"write that is refused", testRefusedWrite},
		{"record that is refused", testRefusedRecord},
		{"record that is refused again and again", testRefusedAgain},
		{"withdrawal that is refused", testRefusedWithdrawal},
		{"silence before the patch", testSilenceBeforePatch},
		{"node check that passes", testCheckPasses},
		{"node check that fails", testCheckFails},
		{"node check without its Secret", testCheckWithoutSecret},
		{"node check that cannot be made", testCheckCannotBeMade},
		{"node check that can be made no more", testCheckAccessIsLost},
		{"node check of another policy", testCheckOfAnotherPolicy},
		{"node check whose pod is deleted", testCheckDeleted},
		{"node check and another boot", testCheckOfAnotherBoot},
		{"node check whose pod is another's", testCheckForeign},
		{"node check and hands off", testCheckPaused},
		{"node check and a freeze", testCheckFrozen},
		{"node check and a crash", testCheckAndCrash},
		{"freeze", testFreeze},
		{"limit", testLimit},
		{"escalation", testEscalation},
		{"crash while it escalates", testEscalationAndCrash},
		{"escalation by one that leads no more", testEscalationOfAnother},
		{"drain", testDrain},
		{"drain that is blocked", testDrainThatIsBlocked},
		{"drain of what is off", testDrainOfWhatIsOff},
		{"drain and a person", testDrainAndAPerson},
		{"drain and a stop", testDrainAndAStop},
		{"drain and recovery", testDrainAndRecovery},
		{"drain without rights", testDrainWithoutRights},
		{"drain and a crash", testDrainAndCrash},
		{"replacement", testReplace},
		{"replacement without a spare", testReplaceWithoutASpare},
		{"replacement whose spare is taken in between", testSpareThatIsTakenInBetween},
		{"replacement and a crash", testReplaceAndCrash},
		{"replacement that fails", testReplaceThatFails},
		{"replacement that is refused", testReplaceThatIsRefused},
		{"recommendation", testRecommend},
		{"approval", testApprove},
		{"approval in vain", testApprovedInVain},
		{"denial", testDeny},
		{"denial between record and patch", testDenyBeforePatch},
		{"taken back", testTakenBack},
		{"crash after a proposal", testCrashAfterProposal},
		{"proposal that moved on", testProposalThatMovedOn},
		{"proposal that holds nobody", testProposalHoldsNobody},
		{"recorded", testRecord},
		{"freeze between record and patch", testFreezeBeforePatch},
		{"budget", testBudget},
		{"budgets that cannot be read", testBudgetsUnread},
		{"incident", testIncident},
		{"crash in the midst of an incident", testIncidentCrash},
		{"incidents that cannot be read", testIncidentsUnread},
		{"incidents that are forgotten", testIncidentsForgotten},
		{"place that was taken in between", testPlaceTaken},
		{"crash between place and record", testCrashAfterPlace},
		{"place that is given back", testPlaceGivenBack},
		{"write of a leader that was succeeded", testLateWrite},
		{"leader that is succeeded before the patch", testSucceeded},
		{"Lease that was made anew", testLeaseMadeAnew},
		{"records that are retired", testRetire},
		{"clock that jumps", testClockJumps},
		{"leading", testLeading},
		{"two remediators", testTwo},
		{"hint", testHint},
		{"observing", testObserving},
		{"effect", testEffect},
		{"repair that was not needed", testFalse},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, config) })
	}
}

func testLife(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	c := f.start()
	f.round(c)
	require.Empty(t, f.remediations())
	allowed := meta.FindStatusCondition(f.policy().Status.Conditions, api.ConditionRemediationAllowed)
	require.Equal(t, metav1.ConditionTrue, allowed.Status)

	f.fail(sick)
	f.round(c)
	rem, request := f.one(), f.machine(sick).Spec.Remediation
	require.Equal(t, api.RemediationActing, rem.Status.Phase)
	require.NotNil(t, rem.Status.ActedAt)
	require.Equal(t, rem.Name, request.ID)
	require.Equal(t, api.ActionReboot, request.Action)
	require.True(t, rem.Spec.Deadline.Equal(&request.Deadline))
	require.WithinDuration(t, rem.Status.ActedAt.Add(time.Minute), request.StartBefore.Time, 2*time.Second)
	require.Equal(t, "hw-"+sick, request.HardwareID)
	require.Equal(t, "kwok://"+sick, rem.Spec.Target.ProviderID)
	require.Len(t, rem.Status.Confirmation, 4)
	require.Len(t, rem.Spec.Evidence.Signals, 4)
	require.Equal(t, api.GateRecord{ClusterMachines: 20, ClusterUnhealthy: 1, RackMachines: 5, RackUnhealthy: 1}, rem.Spec.Gate)
	require.Equal(t, int32(1), f.policy().Status.Unhealthy)
	require.Zero(t, f.policy().Status.Held)

	f.answer(sick, api.RepairRunning)
	f.round(c)
	require.Equal(t, "RepairRunning", f.one().Status.Reason)

	f.answer(sick, api.RepairSucceeded)
	f.round(c)
	require.Equal(t, api.RemediationVerifying, f.one().Status.Phase)
	require.NotNil(t, f.one().Status.RepairedAt)
	require.Contains(t, f.one().Status.Message, "the boot id has not changed")

	f.reboot(sick)
	f.round(c)
	require.Equal(t, api.RemediationVerifying, f.one().Status.Phase, "the centrals still list the node")

	for _, answers := range f.centrals {
		answers.set(func(c *central) { c.listed = nil })
	}
	f.round(c)
	rem = f.one()
	require.Equal(t, api.RemediationSucceeded, rem.Status.Phase)
	require.NotNil(t, rem.Status.VerifiedAt)
	require.Len(t, rem.Status.Verification, 4)
	require.True(t, meta.IsStatusConditionTrue(rem.Status.Conditions, api.ConditionReady))

	f.round(c)
	require.Nil(t, f.machine(sick).Spec.Remediation, "the request is withdrawn when the repair has ended")
	f.requireEvents("Unhealthy", "Requested", "AwaitingVerification", "Verified")

	for _, answers := range f.centrals {
		answers.set(func(c *central) { c.listed = map[string]time.Duration{} })
	}
	f.fail(sick)
	f.round(c)
	require.Equal(t, sick+" Cooldown", f.hold())
	f.untouched()
}

// requireEvents waits for events on the one record; they are written beside the loop.
func (f *fleet) requireEvents(reasons ...string) {
	uid := f.one().UID
	require.EventuallyWithT(f.t, func(t *assert.CollectT) {
		var list corev1.EventList
		require.NoError(t, f.client.List(context.Background(), &list))
		seen := map[string]bool{}
		for _, e := range list.Items {
			if e.InvolvedObject.UID == uid {
				seen[e.Reason] = true
			}
		}
		for _, r := range reasons {
			require.True(t, seen[r], r)
		}
	}, 10*time.Second, 100*time.Millisecond)
}

// Case C01: real samples that are old.
// Case C03: centrals that disagree.
// Case C04: live nodes that contradict.
// Case C19: the machine of a control plane.
// Case C26: the node of another controller.
// Case C28: the cluster in a roll-out.
func testHolds(t *testing.T, config *rest.Config) {
	for name, tc := range map[string]struct {
		spoil func(f *fleet)
		want  policy.Reason
		// silent means that the round itself reports a failure.
		silent bool
	}{
		"centrals disagree": {spoil: func(f *fleet) { f.centrals["central-b"].set(func(c *central) { c.listed = nil }) }, want: policy.ReasonEvidenceConflict},
		"central down":      {spoil: func(f *fleet) { f.centrals["central-b"].set(func(c *central) { c.down = true }) }, want: policy.ReasonEvidenceMissing, silent: true},
		"sample stale": {spoil: func(f *fleet) {
			for _, c := range f.centrals {
				c.list(sick, 290*time.Second)
			}
		}, want: policy.ReasonEvidenceStale},
		"cell silent":           {spoil: func(f *fleet) { f.centrals["central-a"].set(func(c *central) { c.beat = 2 * time.Minute }) }, want: policy.ReasonEvidenceStale},
		"cluster not seen":      {spoil: func(f *fleet) { f.centrals["central-a"].set(func(c *central) { c.up = "0" }) }, want: policy.ReasonClusterUnreachable},
		"cluster half seen":     {spoil: func(f *fleet) { f.centrals["central-a"].set(func(c *central) { c.up = "0.5" }) }, want: policy.ReasonEvidencePartial},
		"a sample is no number": {spoil: func(f *fleet) { f.centrals["central-a"].set(func(c *central) { c.up = "NaN" }) }, want: policy.ReasonEvidencePartial},
		"one central twice":     {spoil: func(f *fleet) { f.centrals["central-b"].set(func(c *central) { c.replica = "a" }) }, want: policy.ReasonEvidenceMissing},
		"clocks differ":         {spoil: func(f *fleet) { f.centrals["central-b"].set(func(c *central) { c.clock = time.Minute }) }, want: policy.ReasonEvidenceStale},
		"node is Ready":         {spoil: func(f *fleet) { f.setNode(sick, corev1.ConditionTrue, time.Hour, "boot-1") }, want: policy.ReasonLiveStateContradicts},
		"lease is renewed":      {spoil: func(f *fleet) { f.renew(sick, time.Second) }, want: policy.ReasonLiveStateContradicts},
		"observer is locked out": {spoil: func(f *fleet) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cellNamespace, Name: "shop-observer"}}
			require.NoError(t, f.client.Delete(t.Context(), s))
		}, want: policy.ReasonLiveUnknown},
		"another controller works on it": {spoil: func(f *fleet) {
			var n corev1.Node
			require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Name: sick}, &n))
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectNoSchedule})
			require.NoError(f.t, f.client.Update(f.t.Context(), &n))
		}, want: policy.ReasonForeignOwner},
		"its cluster is upgraded": {spoil: func(f *fleet) {
			var c api.Cluster
			require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: cellNamespace, Name: clusterName}, &c))
			c.Spec.Version = "v1.38.0"
			require.NoError(f.t, f.client.Update(f.t.Context(), &c))
			c.Status.Version = "v1.37.2"
			require.NoError(f.t, f.client.Status().Update(f.t.Context(), &c))
		}, want: policy.ReasonRollOut},
		"machine of a control plane": {spoil: func(f *fleet) {
			m := f.machine(sick)
			m.Spec.Roles = []string{"control-plane"}
			require.NoError(f.t, f.client.Update(f.t.Context(), m))
		}, want: policy.ReasonControlPlane},
		"machine is paused": {spoil: func(f *fleet) { f.annotate(f.machine(sick), api.AnnotationPaused, "") }, want: policy.ReasonPaused},
		"policy is paused":  {spoil: func(f *fleet) { f.annotate(f.policy(), api.AnnotationPaused, "") }, want: policy.ReasonPaused},
		"policy observes": {spoil: func(f *fleet) {
			p := f.policy()
			p.Spec.Mode = api.ModeObserve
			require.NoError(t, f.client.Update(t.Context(), p))
		}, want: policy.ReasonObserveOnly},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, config)
			f.fail(sick)
			tc.spoil(f)
			c := f.start()
			for range 2 {
				_, err := c.round(t.Context())
				require.Equal(t, tc.silent, err != nil, "%v", err)
				c.finished(time.Now(), err)
			}
			require.Empty(t, f.remediations())
			f.untouched()
			require.Equal(t, sick+" "+string(tc.want), f.hold())
		})
	}
	t.Run("whole rack", func(t *testing.T) { testRack(t, config) })
	t.Run("cell unreachable", func(t *testing.T) { testUnreachable(t, config) })
}

// Case C10: a rack that is out.
func testRack(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	for _, name := range []string{"shop-node-05", "shop-node-06", sick, "shop-node-08", "shop-node-09"} {
		f.fail(name)
	}
	c := f.start()
	f.round(c)
	require.Empty(t, f.remediations())
	f.untouched()
	p := f.policy()
	require.Equal(t, int32(5), p.Status.Held)
	for _, h := range p.Status.Holds {
		require.Equal(t, string(policy.ReasonCorrelatedFailure), h.Reason)
	}
}

// Case C17: a cell that cannot be reached.
func testUnreachable(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: "asia-1-remediator"}}
	require.NoError(t, f.client.Delete(t.Context(), s))
	c := f.start()
	f.round(c)
	require.Empty(t, f.remediations())
	require.Empty(t, f.policy().Status.Holds, "without an inventory no machine is known")
	allowed := meta.FindStatusCondition(f.policy().Status.Conditions, api.ConditionRemediationAllowed)
	require.Equal(t, metav1.ConditionFalse, allowed.Status)
	require.Equal(t, string(policy.ReasonInventoryUnknown), allowed.Reason)
	require.Contains(t, allowed.Message, "1 of 1 cells are held, cell asia-1: listing its machines: reading the cell's kubeconfig")
	f.untouched()
}

// Case C02: nobody says anything of a cell.
// A cell that goes dark shows no unhealthy machine: the policy says that it is held.
func testUnseen(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	c := f.start()
	f.round(c)
	f.centrals["central-b"].set(func(c *central) { c.beat = 2 * time.Minute })
	f.round(c)
	allowed := meta.FindStatusCondition(f.policy().Status.Conditions, api.ConditionRemediationAllowed)
	require.Equal(t, metav1.ConditionFalse, allowed.Status)
	require.Equal(t, string(policy.ReasonEvidenceStale), allowed.Reason)
	require.Contains(t, allowed.Message, "1 of 1 cells are held, cell asia-1: central-b: heartbeat of the cell is 2m0s old, allowed are 1m0s")

	f.centrals["central-b"].set(func(c *central) { c.beat = 2 * time.Second })
	f.round(c)
	require.True(t, meta.IsStatusConditionTrue(f.policy().Status.Conditions, api.ConditionRemediationAllowed))
}

func testOneAtATime(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	c := f.start()
	f.fail(sick)
	f.fail("shop-node-12")
	f.round(c)
	f.round(c)
	first := f.one()
	require.Equal(t, sick, first.Spec.Target.Machine)
	require.Equal(t, "shop-node-12 InFlight", f.hold())
	require.Nil(t, f.machine("shop-node-12").Spec.Remediation)

	f.answer(sick, api.RepairSucceeded)
	f.reboot(sick)
	for _, answers := range f.centrals {
		answers.set(func(c *central) { delete(c.listed, sick) })
	}
	f.round(c) // verified
	f.round(c) // withdrawn
	f.round(c) // the next one
	require.Len(t, f.remediations(), 2)
	require.NotNil(t, f.machine("shop-node-12").Spec.Remediation)
	require.Nil(t, f.machine(sick).Spec.Remediation)
}

func get(t require.TestingT, url string) (int, string) {
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}
