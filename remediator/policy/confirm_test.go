package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Case C04: the live node may contradict until the very write.
// Case C17: kubelets may fall silent until then.
// Case C27: and people may say hands off.
// Case C29: and the node may recover.
// Each case changes one thing between the decision and the last look.
func TestConfirm(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(f *policy.Fresh)
		reason  policy.Reason
		settled bool
	}{
		"nothing changed":     {func(*policy.Fresh) {}, "", true},
		"node recovered":      {func(f *policy.Fresh) { f.Live.Nodes[0].Ready = "True" }, policy.ReasonRecovered, true},
		"node rebooted":       {func(f *policy.Fresh) { f.Live.Nodes[0].BootID = "boot-2" }, policy.ReasonRecovered, true},
		"node cordoned":       {func(f *policy.Fresh) { f.Live.Nodes[0].Unschedulable = true }, policy.ReasonCordoned, true},
		"lease renewed":       {func(f *policy.Fresh) { f.Live.Leases[3].Renewed = now }, policy.ReasonLiveStateContradicts, true},
		"lease gone":          {func(f *policy.Fresh) { f.Live.Leases[3].Node = "other" }, policy.ReasonLiveUnknown, false},
		"leases gone":         {func(f *policy.Fresh) { f.Live.Leases = f.Live.Leases[3:4] }, policy.ReasonControlPathSuspected, false},
		"rack falls silent":   {func(f *policy.Fresh) { f.Live.Leases[4].Renewed = now.Add(-time.Hour) }, policy.ReasonCorrelatedFailure, true},
		"neighbour not ready": {func(f *policy.Fresh) { f.Live.Nodes[1].Ready = "False" }, policy.ReasonCorrelatedFailure, true},
		"kubelets fall silent": {func(f *policy.Fresh) {
			for _, i := range []int{8, 13, 18} {
				f.Live.Leases[i].Renewed = now.Add(-time.Hour)
			}
		}, policy.ReasonControlPathSuspected, false},
		"cluster's clock":     {func(f *policy.Fresh) { f.Live.ClockSkew.Duration = time.Minute }, policy.ReasonEvidenceStale, false},
		"hardware swapped":    {func(f *policy.Fresh) { f.Machine.HardwareID = "hw-new" }, policy.ReasonTargetChanged, true},
		"provider id changed": {func(f *policy.Fresh) { f.Machine.ProviderID = "kwok://new" }, policy.ReasonTargetChanged, true},
		"node is another":     {func(f *policy.Fresh) { f.Live.Nodes[0].ProviderID = "kwok://new" }, policy.ReasonTargetChanged, true},
		"cluster silent":      {func(f *policy.Fresh) { f.Live = policy.LiveCluster{Err: "away"} }, policy.ReasonLiveUnknown, false},
		"another node read":   {func(f *policy.Fresh) { f.Live.Nodes[0].Name = "other" }, policy.ReasonLiveUnknown, false},
		"policy paused":       {func(f *policy.Fresh) { f.Policy.Annotations = map[string]string{api.AnnotationPaused: "yes"} }, policy.ReasonPaused, true},
		"policy observes":     {func(f *policy.Fresh) { f.Policy.Spec.Mode = api.ModeObserve }, policy.ReasonObserveOnly, true},
		"policy selects not":  {func(f *policy.Fresh) { f.Policy.Spec.MatchAll = "" }, policy.ReasonNoPolicy, true},
		"cell paused":         {func(f *policy.Fresh) { f.CellPaused = true }, policy.ReasonPaused, true},
		"cluster paused":      {func(f *policy.Fresh) { f.ClusterPaused = true }, policy.ReasonPaused, true},
		"machine paused":      {func(f *policy.Fresh) { f.Machine.Paused = true }, policy.ReasonPaused, true},
		"machine deleting":    {func(f *policy.Fresh) { f.Machine.Deleting = true }, policy.ReasonDeleting, true},
		"machine replaced":    {func(f *policy.Fresh) { f.Machine.UID = "another" }, policy.ReasonTargetGone, true},
		"machine moved":       {func(f *policy.Fresh) { f.Machine.Node = "another" }, policy.ReasonTargetGone, true},
		"foreign request":     {func(f *policy.Fresh) { f.Machine.Request = &api.RemediationRequest{ID: "by-hand"} }, policy.ReasonForeignRemediation, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 4, 5)
			w.fail(sick)
			d := acts(w.decide())[0]
			p := acting("nodes")
			f := again(w, &p, now)
			tc.change(&f)
			got := policy.Confirm(d, f, now)
			require.Equal(t, tc.reason, got.Reason, got.Message)
			require.Equal(t, tc.settled, policy.Settled(got.Reason))
		})
	}
}

// again is the sick machine's cluster read once more; nothing has changed.
func again(w *world, p *api.RemediationPolicy, at time.Time) policy.Fresh {
	return policy.Fresh{Policy: p, Record: &api.Remediation{}, Machine: *w.machine(sick), Live: policy.LiveCluster{
		ReadAt: at, Nodes: []policy.LiveNode{*w.node(sick), *w.node("shop-0-04")}, Leases: slices.Clone(w.Clusters[0].Leases)}}
}

func TestConfirmationBearsItsEvidenceAndLapses(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	d := acts(w.decide())[0]
	p := acting("nodes")
	at := now.Add(5 * time.Second)
	got := policy.Confirm(d, again(w, &p, at), at)
	require.Empty(t, got.Reason, got.Message)
	require.Equal(t, at.Add(time.Minute), got.StartBefore)
	require.Len(t, got.Signals, 4)

	d.Spec.Deadline = metav1.NewTime(at.Add(20 * time.Second))
	require.Equal(t, d.Spec.Deadline.Time, policy.Confirm(d, again(w, &p, at), at).StartBefore, "never after the deadline")
}

// What is read again is what was read: the suspects of the cluster, the target first.
func TestNodesToReadAgain(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.fail(sick)
	w.Clusters[0].Nodes = w.Clusters[0].Nodes[2:5]
	require.Equal(t, []string{sick, "shop-0-02", "shop-0-04"}, acts(w.decide())[0].Nodes())
}

// A rack that the machine shares with another cluster counts in the last look, too.
func TestConfirmKeepsTheRestOfTheCell(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.addCluster(0, "mall-0", 1, 5)
	w.fail(sick)
	d := acts(w.decide())[0]
	p := acting("nodes")
	require.Empty(t, policy.Confirm(d, again(w, &p, now), now).Reason)
	w.lease("mall-0-00").Renewed = now.Add(-time.Hour)
	w.lease("mall-0-01").Renewed = now.Add(-time.Hour)
	require.Equal(t, policy.ReasonCorrelatedFailure, policy.Confirm(d, again(w, &p, now), now).Reason)
}

func TestConfirmSeesEvidenceAge(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	d := acts(w.decide())[0]
	p := acting("nodes")
	at := now.Add(57 * time.Second) // samples were 4 s old, 60 s are allowed
	f := again(w, &p, at)
	require.Equal(t, policy.ReasonEvidenceStale, policy.Confirm(d, f, at).Reason)

	d.Spec.Deadline = metav1.NewTime(now)
	require.Equal(t, policy.ReasonDeadlinePassed, policy.Confirm(d, f, at).Reason)
}

// The last look decides as the decision did where nothing has changed, or a record would be
// written and cancelled in every round: other policies speak for machines of its rack, and
// its hardware was repaired in another cell.
func TestTheLastLookAgreesWithTheDecision(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"another policy beside it": func(w *world) {
			w.policies[0].Spec.MaxUnhealthyPercent = ptr.To(int32(50))
			other := acting("others")
			other.Spec.MatchAll, other.Spec.Pools, other.Spec.MaxUnhealthyPercent = "", []string{"others"}, ptr.To(int32(50))
			w.policies[0].Spec.MatchAll, w.policies[0].Spec.Pools = "", []string{w.machine(sick).Pool}
			w.policies = append(w.policies, other)
			for _, name := range []string{"shop-0-00", "shop-0-01"} {
				w.machine(name).Pool = "others"
				w.fail(name)
			}
		},
		"repaired in another cell": func(w *world) {
			rem := w.failedStep(api.ActionReboot, time.Hour)
			rem.Status.RepairedAt, rem.Spec.Target.MachineUID = nil, "uid-shop-1-00"
			w.policies[0].Spec.Escalation = threeSteps()
			w.machine("shop-1-00").Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairFailed, FinishedAt: rem.Status.EndedAt}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2, 4, 12)
			w.fail(sick)
			change(w)
			w.bound("wide", api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, MaxUnavailablePercent: ptr.To(int32(50))})
			all := acts(w.decide())
			require.Len(t, all, 1, "%v", verdicts(w.decide()))
			f := policy.Fresh{Policy: &w.policies[0], Budgets: w.Budgets, Machine: *w.machine(sick), Live: policy.LiveCluster{
				ReadAt: now, Nodes: w.Clusters[0].Nodes, Leases: w.Clusters[0].Leases}}
			for i := range w.policies {
				if w.policies[i].Name == all[0].Policy {
					f.Policy = &w.policies[i]
				}
			}
			f.Machine, f.Record = all[0].Machine, &api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: all[0].Name}, Spec: all[0].Spec}
			got := policy.Confirm(all[0], f, now)
			require.Empty(t, got.Reason, got.Message)
		})
	}
}
