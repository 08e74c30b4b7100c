package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Each case changes one thing between the decision and the last look.
func TestConfirm(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(f *policy.Fresh)
		reason  policy.Reason
		settled bool
	}{
		"nothing changed":    {func(*policy.Fresh) {}, "", true},
		"node recovered":     {func(f *policy.Fresh) { f.Live.Nodes[0].Ready = "True" }, policy.ReasonRecovered, true},
		"node rebooted":      {func(f *policy.Fresh) { f.Live.Nodes[0].BootID = "boot-2" }, policy.ReasonRecovered, true},
		"node cordoned":      {func(f *policy.Fresh) { f.Live.Nodes[0].Unschedulable = true }, policy.ReasonCordoned, true},
		"lease renewed":      {func(f *policy.Fresh) { f.Live.Leases[0].Renewed = now }, policy.ReasonLiveStateContradicts, true},
		"lease gone":         {func(f *policy.Fresh) { f.Live.Leases = nil }, policy.ReasonLiveUnknown, false},
		"cluster silent":     {func(f *policy.Fresh) { f.Live = policy.LiveCluster{Err: "away"} }, policy.ReasonLiveUnknown, false},
		"another node read":  {func(f *policy.Fresh) { f.Live.Nodes[0].Name = "other" }, policy.ReasonLiveUnknown, false},
		"policy paused":      {func(f *policy.Fresh) { f.Policy.Annotations = map[string]string{policy.AnnotationPaused: "yes"} }, policy.ReasonPaused, true},
		"policy observes":    {func(f *policy.Fresh) { f.Policy.Spec.Mode = api.ModeObserve }, policy.ReasonObserveOnly, true},
		"policy selects not": {func(f *policy.Fresh) { f.Policy.Spec.MatchAll = "" }, policy.ReasonNoPolicy, true},
		"cell paused":        {func(f *policy.Fresh) { f.CellPaused = true }, policy.ReasonPaused, true},
		"cluster paused":     {func(f *policy.Fresh) { f.ClusterPaused = true }, policy.ReasonPaused, true},
		"machine paused":     {func(f *policy.Fresh) { f.Machine.Paused = true }, policy.ReasonPaused, true},
		"machine deleting":   {func(f *policy.Fresh) { f.Machine.Deleting = true }, policy.ReasonDeleting, true},
		"machine replaced":   {func(f *policy.Fresh) { f.Machine.UID = "another" }, policy.ReasonTargetGone, true},
		"machine moved":      {func(f *policy.Fresh) { f.Machine.Node = "another" }, policy.ReasonTargetGone, true},
		"foreign request":    {func(f *policy.Fresh) { f.Machine.Request = &api.RemediationRequest{ID: "by-hand"} }, policy.ReasonForeignRemediation, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 4, 5)
			w.fail(sick)
			d := acts(w.decide())[0]
			p := acting("nodes")
			f := policy.Fresh{Policy: &p, Machine: *w.machine(sick), Live: policy.LiveCluster{
				ReadAt: now, Nodes: []policy.LiveNode{*w.node(sick)}, Leases: []policy.Lease{*w.lease(sick)}}}
			tc.change(&f)
			reason, message := policy.Confirm(d, f, now)
			require.Equal(t, tc.reason, reason, message)
			require.Equal(t, tc.settled, policy.Settled(reason))
		})
	}
}

func TestConfirmSeesEvidenceAge(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	d := acts(w.decide())[0]
	p := acting("nodes")
	at := now.Add(57 * time.Second) // samples were 4 s old, 60 s are allowed
	f := policy.Fresh{Policy: &p, Machine: *w.machine(sick), Live: policy.LiveCluster{
		ReadAt: at, Nodes: []policy.LiveNode{*w.node(sick)}, Leases: []policy.Lease{*w.lease(sick)}}}
	reason, _ := policy.Confirm(d, f, at)
	require.Equal(t, policy.ReasonEvidenceStale, reason)

	d.Spec.Deadline = metav1.NewTime(now)
	reason, _ = policy.Confirm(d, f, at)
	require.Equal(t, policy.ReasonDeadlinePassed, reason)
}
