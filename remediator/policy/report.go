package policy

import (
	"fmt"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// report sums up the decisions for each policy.
func (r *run) report() {
	unhealthy, holds := r.countUnhealthy(), map[string][]Decision{}
	for _, d := range r.plan.Decisions {
		if d.Verdict != Act {
			holds[d.Policy] = append(holds[d.Policy], d)
		}
	}
	for _, p := range r.policies {
		report := Report{Name: p.Name, Unhealthy: unhealthy[p.Name], Holds: holds[p.Name]}
		report.Reason, report.Message = r.allowed(resolve(p))
		report.Allowed = report.Reason == ReasonAllowed
		r.plan.Policies = append(r.plan.Policies, report)
	}
}

// countUnhealthy counts, by policy, the machines that stand in a decision or under repair.
func (r *run) countUnhealthy() map[string]int {
	count := map[string]int{}
	for _, d := range r.plan.Decisions {
		count[d.Policy]++
	}
	for uid, rem := range r.ix.open {
		p, ok := r.ix.byUID[uid]
		if !ok || (phase(rem) == api.RemediationPending && !standing(rem, p.machine)) {
			continue
		}
		if speaks := r.policyFor(p); speaks != nil {
			count[speaks.Name]++
		}
	}
	return count
}

// allowed says whether a policy may act on anything at all.
func (r *run) allowed(s settings) (Reason, string) {
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
	if s.observe {
		return ReasonObserveOnly, "the policy only observes"
	}
	return ReasonAllowed, "every central answers" + r.unlisted()
}

// unlisted names the first cell whose machines are not known: none of them shows
// up among the holds.
func (r *run) unlisted() string {
	first, count := "", 0
	for name, cell := range r.ix.cells {
		if cell.Err == "" {
			continue
		}
		count++
		if first == "" || name < first {
			first = name
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("; the machines of %d cells cannot be listed and are left alone, %s: %s", count, first, clip(r.ix.cells[first].Err, 512))
}
