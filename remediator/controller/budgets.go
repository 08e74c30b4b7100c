package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// budgets reads every budget. Without them nothing may begin: one of them may be
// the word of a person to stop.
func (c *Controller) budgets(ctx context.Context) ([]api.FleetDisruptionBudget, error) {
	var list api.FleetDisruptionBudgetList
	err := c.list(ctx, "disruption budgets", &list)
	return list.Items, err
}

// reportBudgets writes the status of every budget.
func (c *Controller) reportBudgets(ctx context.Context, budgets []api.FleetDisruptionBudget, reports []policy.BudgetReport) error {
	return each(ctx, "disruption budget", budgets, reports, func(r policy.BudgetReport) string { return r.Name }, c.reportBudget)
}

func (c *Controller) reportBudget(ctx context.Context, before *api.FleetDisruptionBudget, r policy.BudgetReport) error {
	after := before.DeepCopy()
	after.Status.ObservedGeneration, after.Status.Tightest, after.Status.FrozenSince = before.Generation, r.Tightest, r.FrozenSince
	meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: api.ConditionRemediationAllowed, Status: r.Allowed, Reason: string(r.Reason), Message: r.Message,
		ObservedGeneration: before.Generation, LastTransitionTime: metav1.NewTime(c.now()),
	})
	if equality.Semantic.DeepEqual(before.Status, after.Status) || c.onlyNumbers(before, after) {
		return nil
	}
	written, err := c.writeStatus(ctx, before, after)
	if written {
		c.counted[before.Name] = c.now()
		c.tellBudget(before, after, r)
	}
	return err
}

// tellBudget compares with the status that was read, so that a restart tells nothing
// twice. A new budget that holds back nothing is no news.
func (c *Controller) tellBudget(before, after *api.FleetDisruptionBudget, r policy.BudgetReport) {
	was := meta.FindStatusCondition(before.Status.Conditions, api.ConditionRemediationAllowed)
	switch {
	case was == nil && r.Allowed == metav1.ConditionTrue:
	case was == nil, was.Status != r.Allowed, was.Reason != string(r.Reason):
		c.bounded(after, r)
	}
}

// onlyNumbers spares the API server a write in every round for counts that move.
func (c *Controller) onlyNumbers(before, after *api.FleetDisruptionBudget) bool {
	was, is := meta.FindStatusCondition(before.Status.Conditions, api.ConditionRemediationAllowed),
		meta.FindStatusCondition(after.Status.Conditions, api.ConditionRemediationAllowed)
	return was != nil && was.Status == is.Status && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration &&
		c.now().Sub(c.counted[before.Name]) < refresh
}
