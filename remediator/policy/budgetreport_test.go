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

// A policy all of whose machines are held by freezes and budgets says so; one that
// repairs something, or waits for something else, does not.
func TestAPolicyThatBudgetsHoldSaysSo(t *testing.T) {
	w := newWorld(3, 20, 5)
	w.fail("shop-1-00")
	w.bound("move", api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, Names: []string{"cell-1"}, Freeze: api.Now, Reason: "move"})
	report := w.decide().Policies[0]
	require.Equal(t, metav1.ConditionUnknown, report.Allowed)
	require.Equal(t, policy.ReasonFrozen, report.Reason)
	require.Contains(t, report.Message, "all 1 machines that wait are held by a freeze or a budget, machine shop-1-00 in cell cell-1: ")
	require.Contains(t, report.Message, "(move)")

	w.fail("shop-2-00")
	plan := w.decide()
	require.Len(t, acts(plan), 1)
	require.Equal(t, metav1.ConditionTrue, plan.Policies[0].Allowed, "it repairs the other")

	w.bound("none", api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, Names: []string{"cell-2"}, MinAvailable: ptr.To(int32(1000))})
	report = w.decide().Policies[0]
	require.Equal(t, metav1.ConditionUnknown, report.Allowed)
	require.Contains(t, report.Message, "all 2 machines")
}

func TestReportsOfBudgets(t *testing.T) {
	for name, c := range map[string]struct {
		spec     api.FleetDisruptionBudgetSpec
		want     string
		tightest string
	}{
		"room":       {api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, MaxUnavailable: ptr.To(int32(2))}, "True Allowed", "cell cell-1"},
		"exceeded":   {api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, MaxUnavailable: ptr.To(int32(1))}, "False BudgetExceeded", "cell cell-1"},
		"misspelt":   {api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, Names: []string{"cel-1"}, Freeze: api.Now, Reason: "move"}, "Unknown NoTargets", ""},
		"impossible": {api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, MinAvailable: ptr.To(int32(1000))}, "False BudgetExceeded", "cell cell-1"},
		"frozen":     {api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "storm"}, "False Frozen", "the fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(3, 20, 5)
			w.fail("shop-1-00")
			w.fail("shop-1-50")
			w.fail("shop-2-50")
			w.bound("b", c.spec)
			report := w.decide().Budgets[0]
			require.Equal(t, c.want, fmt.Sprintf("%s %s", report.Allowed, report.Reason), report.Message)
			if c.tightest == "" {
				require.Nil(t, report.Tightest)
			} else {
				require.Equal(t, c.tightest, report.Tightest.Domain)
			}
		})
	}
}

// Of several freezes the one that lasts the longest is told.
func TestTheLongestFreezeIsTold(t *testing.T) {
	w := newWorld(1, 20, 5)
	w.fail("shop-0-00")
	w.bound("a-sale", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freezes: []api.FreezeWindow{
		{From: metav1.NewTime(now.Add(-time.Hour)), Until: metav1.NewTime(now.Add(time.Minute)), Reason: "sale"}}})
	w.bound("stop", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "storm"})
	require.Contains(t, w.decide().Decisions[0].Message, "budget stop freezes repairs, until somebody takes away its spec.freeze (storm)")
}
