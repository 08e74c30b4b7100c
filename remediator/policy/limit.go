package policy

import (
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// limitWindow is what the limit of a policy in mode ActLimited counts over.
const limitWindow = 24 * time.Hour

// limit asks whether the policy may do what is due, and has begun as many repairs as it
// may in a day. For the number a request that stands was counted when it was made, and is not taken back for a lower limit.
func (r *run) limit(s subject) (Reason, string) {
	if upTo := s.settings.upTo; upTo != "" && rank(s.step.action) > rank(upTo) {
		return ReasonLimitReached, fmt.Sprintf("policy %s may do nothing harsher than %s, and %s is due; look at the machine, or raise spec.limit.action",
			s.settings.name, upTo, s.step.action)
	}
	if s.settings.perDay == nil || s.standing {
		return "", ""
	}
	if rem := r.ix.open[s.machine.UID]; rem != nil && rem.Name == s.pending && rem.Spec.PolicyName != s.settings.name {
		return ReasonLimitReached, fmt.Sprintf("%s is written down by policy %s, which would have to count it; policy %s, which speaks for the machine now, waits until that is over",
			s.pending, rem.Spec.PolicyName, s.settings.name)
	}
	most := int(*s.settings.perDay)
	asked := r.askedFor(s.settings.name, r.own(s))
	n := len(asked) + r.taken[s.settings.name]
	if n < most {
		return "", ""
	}
	return ReasonLimitReached, fmt.Sprintf(
		"policy %s has begun %d repairs in the last 24 hours and may begin %d%s; look at them, then wait or raise spec.limit.perDay",
		s.settings.name, n, most, r.until(r.roomAt(asked, most)))
}

// asking is a repair that was asked for, or may have been.
type asking struct {
	name string
	at   time.Time
}

// askedFor is when each repair of a policy was asked for, save one, the longest ago
// first.
func (r *run) askedFor(policy, own string) []time.Time {
	var times []time.Time
	for _, a := range r.asking(policy) {
		if a.name != own {
			times = append(times, a.at)
		}
	}
	return times
}

// asking are the repairs of a policy within limitWindow, looked for once in a decision.
// What was tried counts, since nobody may have been able to write down that the request
// stands. So do a record on a machine that cannot be seen, and a place that another
// remediator took and may be about to use, whichever policy it did so for.
func (r *run) asking(policy string) []asking {
	if known, is := r.asked[policy]; is {
		return known
	}
	var all []asking
	reserved := r.reserved()
	for i := range r.ix.snapshot.Remediations {
		rem := &r.ix.snapshot.Remediations[i]
		at := tried(rem)
		if at.IsZero() && (reserved[rem.Name] || r.mayStand(rem)) {
			at = r.now
		}
		delete(reserved, rem.Name)
		if rem.Spec.PolicyName == policy && at.After(r.now.Add(-limitWindow)) {
			all = append(all, asking{rem.Name, at})
		}
	}
	for name := range reserved {
		all = append(all, asking{name, r.now})
	}
	slices.SortFunc(all, func(a, b asking) int { return a.at.Compare(b.at) })
	r.asked[policy] = all
	return all
}

// reserved names the repairs for which a place is kept.
func (r *run) reserved() map[string]bool {
	names := map[string]bool{}
	for _, one := range r.ix.snapshot.Reservations {
		if !one.Over(r.now) {
			names[one.Name] = true
		}
	}
	return names
}

// mayStand says whether a record of which nobody said that it was asked for may have
// been.
func (r *run) mayStand(rem *api.Remediation) bool {
	if phase(rem).Final() {
		return false
	}
	p, seen := r.ix.byUID[rem.Spec.Target.MachineUID]
	if seen && p.machine.Response != nil && p.machine.Response.ID == rem.Name {
		return true
	}
	return !seen || phase(rem) != api.RemediationPending || standing(rem, p.machine)
}

// roomAt is when enough of what was asked for is a day old; zero if that is not known,
// because this round alone begins as many, or nobody knows when one was asked for.
func (r *run) roomAt(asked []time.Time, most int) time.Time {
	if over := len(asked) - most; over >= 0 && asked[over].Before(r.now) {
		return asked[over].Add(limitWindow)
	}
	return time.Time{}
}

// until brings the next check forward to the given time, and names it.
func (r *run) until(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	r.lookAt(at)
	return ", the next at " + at.UTC().Format(time.RFC3339)
}
