package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// BudgetReport sums up one FleetDisruptionBudget.
type BudgetReport struct {
	Name string
	// Tightest is, of all that the budget covers, what has the least room left;
	// nil if it covers nothing.
	Tightest *api.BudgetRecord
	// Allowed is False if the budget lets nothing begin in some domain, and Unknown if
	// it covers nothing.
	Allowed metav1.ConditionStatus
	Reason  Reason
	Message string
	// FrozenSince is when it was first seen to be frozen without an end; nil if it is not.
	FrozenSince *metav1.Time
}

// reportBudgets says how much of each budget is used.
func (r *run) reportBudgets() {
	if len(r.budgets) == 0 {
		return
	}
	maxAge := r.reportAge()
	all := r.allDomains(maxAge)
	for _, b := range r.budgets {
		r.plan.Budgets = append(r.plan.Budgets, r.reportBudget(b, all[b.Spec.Level], maxAge))
	}
}

// reportAge is the age at which no policy counts an observation any more: what any of
// them may act on is part of what is reported, and of what fails together.
func (r *run) reportAge() time.Duration {
	age := time.Duration(0)
	for _, p := range r.policies {
		age = max(age, evidenceAge(p))
	}
	return cmp.Or(age, seconds(nil, defaultEvidenceAge))
}

// allDomains are those of every machine in use, by level. All but pools were counted
// for the gate.
func (r *run) allDomains(maxAge time.Duration) map[api.BudgetLevel][]domain {
	all, g := map[api.BudgetLevel][]domain{}, r.gate(maxAge)
	for d := range g.known {
		all[d.level] = append(all[d.level], d)
	}
	if slices.ContainsFunc(r.budgets, func(b *api.FleetDisruptionBudget) bool { return b.Spec.Level == api.BudgetPool }) {
		for ref := range g.clusters {
			for _, t := range g.poolsOf(r.ix, ref) {
				all[api.BudgetPool] = append(all[api.BudgetPool], domain{level: api.BudgetPool, cell: ref.cell, cluster: ref.cluster, name: t.name})
			}
		}
	}
	return all
}

func (r *run) reportBudget(b *api.FleetDisruptionBudget, all []domain, maxAge time.Duration) BudgetReport {
	report := BudgetReport{Name: b.Name, FrozenSince: r.frozenSince(b)}
	tightest, least := -1, 0
	for i, d := range all {
		if !d.coveredBy(b) {
			continue
		}
		room := r.roomOf(d, maxAge)
		if tightest < 0 || cmp.Or(cmp.Compare(room, least), d.compare(all[tightest])) < 0 {
			tightest, least = i, room
		}
	}
	if tightest >= 0 {
		record := r.budgetRecord(all[tightest], maxAge)
		report.Tightest = &record
	}
	report.Allowed, report.Reason, report.Message = r.state(b, report.Tightest)
	return report
}

// frozenSince is what is written down, unless the freeze is new.
func (r *run) frozenSince(b *api.FleetDisruptionBudget) *metav1.Time {
	switch {
	case b.Spec.Freeze != api.Now:
		return nil
	case b.Status.FrozenSince != nil:
		return b.Status.FrozenSince
	}
	return &metav1.Time{Time: r.now}
}

// state is what a person should know of a budget, given what of it is the tightest.
func (r *run) state(b *api.FleetDisruptionBudget, t *api.BudgetRecord) (metav1.ConditionStatus, Reason, string) {
	f := (freeze{}).or(b, r.now)
	switch {
	case t == nil:
		return metav1.ConditionUnknown, ReasonNoTargets, "it covers no machine in use: is a name misspelt?"
	case f.set():
		return metav1.ConditionFalse, ReasonFrozen, f.String()
	case t.MaxUnavailable != nil && *t.MaxUnavailable == 0:
		return metav1.ConditionFalse, ReasonBudgetExceeded, fmt.Sprintf("it allows no repair in %s, ever: of %d machines none may be unavailable", t.Domain, t.Machines)
	case roomIn(*t) < 0:
		return metav1.ConditionFalse, ReasonBudgetExceeded,
			fmt.Sprintf("%d of %d machines of %s are unavailable, at most %d may be", t.Unavailable, t.Machines, t.Domain, *t.MaxUnavailable)
	}
	return metav1.ConditionTrue, ReasonAllowed, "there is room in everything that it covers"
}

// roomOf is what roomIn tells of the record of a domain, without making one for each of the
// fleet's pools.
func (r *run) roomOf(d domain, maxAge time.Duration) int {
	t := r.known(d, maxAge)
	most, bounded := r.limitsOf(d).mostUnavailable(t.machines)
	if !bounded {
		return t.machines
	}
	return max(0, most.n) - t.unhealthy
}

// roomIn is how many machines more may become unavailable, and less than nothing
// if too many are. What has no such bound has all the room there is.
func roomIn(b api.BudgetRecord) int {
	if b.MaxUnavailable == nil {
		return int(b.Machines)
	}
	return int(*b.MaxUnavailable - b.Unavailable)
}
