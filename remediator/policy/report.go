package policy

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// report sums up the decisions for each policy.
func (r *run) report() {
	unhealthy, holds := r.countUnhealthy(), holdsOf(r.plan.Decisions)
	for _, p := range r.policies {
		report := Report{Name: p.Name, Unhealthy: unhealthy[p.Name], Holds: holds[p.Name]}
		report.Allowed, report.Reason, report.Message = r.allowed(p)
		if acting := unhealthy[p.Name] > len(report.Holds); report.Allowed == metav1.ConditionTrue && !acting {
			report.bounded()
		}
		report.limit(pick(report.Holds, func(d *Decision) bool { return d.Reason == ReasonRequestFailed }))
		r.plan.Policies = append(r.plan.Policies, report)
	}
	for name, cell := range r.ix.cells {
		if reason, _ := r.ix.unseenFor(cell, defaultEvidenceAge*time.Second, r.now); reason != "" {
			r.plan.Unseen = append(r.plan.Unseen, name)
		}
	}
	slices.Sort(r.plan.Unseen)
}

// bounded says so where a freeze or a budget holds everything that waits: somebody who
// looks at the policy would take it for one that repairs. It goes on repairing what
// they do not cover, so that it is Unknown whether it may act. A repair that waits for
// another to end is the ordinary pace, and no news.
func (r *Report) bounded() {
	if len(r.Holds) == 0 || slices.ContainsFunc(r.Holds, func(d *Decision) bool {
		return d.Reason != ReasonFrozen && d.Reason != ReasonBudgetExceeded
	}) {
		return
	}
	first := r.Holds[0]
	r.Allowed, r.Reason = metav1.ConditionUnknown, first.Reason
	r.Message = fmt.Sprintf("all %d machines that wait are held by a freeze or a budget, machine %s in cell %s: %s",
		len(r.Holds), first.Machine.Name, first.Cell, first.Message)
}

// countUnhealthy counts, by policy, the machines that stand in a decision or under repair.
func (r *run) countUnhealthy() map[string]int {
	count := map[string]int{}
	for _, d := range r.plan.Decisions {
		count[d.Policy]++
	}
	for uid, rem := range r.ix.open {
		p, ok := r.ix.byUID[uid]
		if !ok || (unbegun(rem) && !standing(rem, p.machine)) {
			continue
		}
		if speaks := r.policyFor(p); speaks != nil {
			count[speaks.Name]++
		}
	}
	return count
}

// allowed says whether a policy may act: True on every cell that it selects,
// Unknown on some of them only, False on none.
func (r *run) allowed(p *api.RemediationPolicy) (metav1.ConditionStatus, Reason, string) {
	if reason, message := r.stopped(resolve(p)); reason != "" {
		return metav1.ConditionFalse, reason, message
	}
	if dark := r.unseenBy(p); len(dark) > 0 {
		return r.limited(p, dark)
	}
	return metav1.ConditionTrue, ReasonAllowed, "every central answers and sees every cell"
}

// stopped says why a policy may not act on anything at all.
func (r *run) stopped(s settings) (Reason, string) {
	if s.paused {
		return ReasonPaused, "the policy is paused"
	}
	if len(r.ix.centrals) < quorum {
		return ReasonEvidenceMissing, fmt.Sprintf("%d centrals are configured, %d must agree", len(r.ix.centrals), quorum)
	}
	for i := range r.ix.centrals {
		if reason, message := r.ix.centrals[i].trouble(); reason != "" {
			return reason, message
		}
	}
	if check := s.verification.NodeCheck; check != nil && tooLong(check, s.steps[0].timeout) != "" {
		return ReasonNodeCheckUnavailable, "no repair could be verified: " + tooLong(check, s.steps[0].timeout)
	}
	if why := r.ix.snapshot.BudgetsErr; why != "" {
		return ReasonEvidenceMissing, "whether somebody stopped repairs is not known: " + why
	}
	if f := r.limits(domain{level: api.BudgetFleet}).freeze; f.set() {
		return ReasonFrozen, f.String()
	}
	if s.observe {
		return ReasonObserveOnly, "the policy only observes"
	}
	if s.mode == api.ModeRecommend {
		return ReasonRecommended, "the policy only recommends"
	}
	return "", ""
}
