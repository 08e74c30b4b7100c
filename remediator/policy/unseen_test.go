package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Case C02: a cell that vanishes is not well.
// Each case darkens the first of two cells in which every machine is well as far
// as anyone says.
func TestCellThatIsNotSeenIsNoHealthyCell(t *testing.T) {
	for name, tc := range map[string]struct {
		darken  func(w *world)
		status  metav1.ConditionStatus
		reason  policy.Reason
		message string
	}{
		"no heartbeat at one central": {func(w *world) { w.Centrals[1].Heartbeats = w.Centrals[1].Heartbeats[1:] },
			metav1.ConditionUnknown, policy.ReasonEvidenceMissing,
			"1 of 2 cells are held, cell cell-0: central-b has no heartbeat of it; the other cells go on being repaired"},
		"heartbeat stale": {func(w *world) { w.Centrals[0].Heartbeats[0].At = now.Add(-2 * time.Minute) },
			metav1.ConditionUnknown, policy.ReasonEvidenceStale,
			"1 of 2 cells are held, cell cell-0: central-a: heartbeat of the cell is 2m0s old, allowed are 1m0s; the other cells go on being repaired"},
		"heartbeat in the future": {func(w *world) { w.Centrals[0].Heartbeats[0].At = now.Add(time.Minute) },
			metav1.ConditionUnknown, policy.ReasonEvidenceStale,
			"1 of 2 cells are held, cell cell-0: central-a: heartbeat of the cell is 1m0s in the future; clocks disagree; the other cells go on being repaired"},
		"machines cannot be listed": {func(w *world) { w.Cells[0].Err = "connection refused" },
			metav1.ConditionUnknown, policy.ReasonInventoryUnknown,
			"1 of 2 cells are held, cell cell-0: listing its machines: connection refused; the other cells go on being repaired"},
		"no cell is seen": {func(w *world) { w.Centrals[1].Heartbeats = nil },
			metav1.ConditionFalse, policy.ReasonEvidenceMissing,
			"2 of 2 cells are held, cell cell-0: central-b has no heartbeat of it; cell cell-1: central-b has no heartbeat of it"},
		"the policy's own age": {func(w *world) {
			age := int32(3)
			w.policies[0].Spec.MaxEvidenceAgeSeconds, w.policies[0].Spec.MatchAll, w.policies[0].Spec.Cells = &age, "", []string{"cell-0"}
		}, metav1.ConditionFalse, policy.ReasonEvidenceStale,
			"1 of 1 cells are held, cell cell-0: central-a: heartbeat of the cell is 4s old, allowed are 3s"},
		"central down": {func(w *world) { w.Centrals[1] = policy.Central{Name: "central-b", Err: "away"} },
			metav1.ConditionFalse, policy.ReasonEvidenceMissing, "central-b did not answer: away"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2, 4, 5)
			tc.darken(w)
			require.Equal(t, []policy.Report{{Name: "nodes", Allowed: tc.status, Reason: tc.reason, Message: tc.message}}, w.decide().Policies)
		})
	}
}

func TestOtherCellsAreRepairedBesideOneThatIsNotSeen(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.fail("shop-1-03")
	w.Centrals[0].Heartbeats = w.Centrals[0].Heartbeats[1:]
	plan := w.decide()
	require.Equal(t, []string{"shop-1-03 Act Unhealthy"}, verdicts(plan))
	require.Equal(t, metav1.ConditionUnknown, plan.Policies[0].Allowed)
}

// Only the policies that may speak for a machine of the dark cell are limited.
func TestPolicyForOtherMachinesIsNotLimitedByACellThatIsNotSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		spec   api.RemediationPolicySpec
		listed bool
		status metav1.ConditionStatus
	}{
		"everything":                   {api.RemediationPolicySpec{MatchAll: api.MatchAllMachines}, true, metav1.ConditionUnknown},
		"the cell":                     {api.RemediationPolicySpec{Cells: []string{"cell-0"}}, true, metav1.ConditionFalse},
		"another cell":                 {api.RemediationPolicySpec{Cells: []string{"cell-1"}}, true, metav1.ConditionTrue},
		"its pool":                     {api.RemediationPolicySpec{Pools: []string{"workers"}}, true, metav1.ConditionUnknown},
		"a pool that it does not have": {api.RemediationPolicySpec{Pools: []string{"gpu"}}, true, metav1.ConditionTrue},
		"a pool that it may have":      {api.RemediationPolicySpec{Pools: []string{"gpu"}}, false, metav1.ConditionFalse},
		"another cell's pool":          {api.RemediationPolicySpec{Cells: []string{"cell-1"}, Pools: []string{"workers"}}, false, metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2, 4, 5)
			w.Centrals[1].Heartbeats = w.Centrals[1].Heartbeats[1:]
			if !tc.listed {
				w.Cells[0].Err, w.Cells[0].Machines = "away", nil
			}
			tc.spec.Mode = api.ModeAct
			w.policies[0].Spec = tc.spec
			require.Equal(t, tc.status, w.decide().Policies[0].Allowed)
		})
	}
}

func TestMessageNamesTheFirstOfManyCells(t *testing.T) {
	w := newWorld(15, 1, 1)
	w.Centrals[0].Heartbeats = w.Centrals[0].Heartbeats[12:]
	message := w.decide().Policies[0].Message
	require.Contains(t, message, "12 of 15 cells are held, cell cell-0: ")
	require.Contains(t, message, "; and 2 more; the other cells go on being repaired")
	w.Cells[0].Err = fmt.Sprintf("%04096d", 1)
	require.Less(t, len(w.decide().Policies[0].Message), 4096)
}

// Whoever counts what has healed asks which cells are silent because nobody sees them.
func TestCellsThatAreNotSeenAreNamed(t *testing.T) {
	w := newWorld(3, 4, 5)
	require.Empty(t, w.decide().Unseen)
	w.Centrals[1].Heartbeats[2].At = now.Add(-2 * time.Minute)
	w.Cells[0].Err = "connection refused"
	require.Equal(t, []string{"cell-0", "cell-2"}, w.decide().Unseen)
	w.Centrals[0] = policy.Central{Name: "central-a", Err: "away"}
	require.Len(t, w.decide().Unseen, 3)
}
