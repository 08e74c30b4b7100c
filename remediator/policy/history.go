package policy

import (
	"fmt"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// slowStartWindow is how long what was verified speaks for the next repair.
const slowStartWindow = time.Hour

// history is what the records tell of each domain.
type history struct {
	// began is when a repair was asked for last, or tried to be.
	began map[domain]time.Time
	// failed is when one failed last within the window, and verified counts those
	// that were verified since.
	failed   map[domain]time.Time
	verified map[domain]int
}

// past reads every record once, and those that were verified once more.
func (r *run) past() *history {
	if r.history != nil {
		return r.history
	}
	h := &history{map[domain]time.Time{}, map[domain]time.Time{}, map[domain]int{}}
	r.history = h
	since := r.now.Add(-slowStartWindow)
	var verified []*api.Remediation
	for i := range r.ix.snapshot.Remediations {
		rem := &r.ix.snapshot.Remediations[i]
		domains, ended := r.ix.domains(rem), endedAt(rem, r.now)
		latest(h.began, domains, tried(rem))
		switch {
		case !ended.After(since):
		case rem.Status.Phase == api.RemediationFailed:
			latest(h.failed, domains, ended)
		case rem.Status.Phase == api.RemediationSucceeded:
			verified = append(verified, rem)
		}
	}
	r.addFailing(h)
	for _, rem := range verified {
		for _, d := range r.ix.domains(rem) {
			if endedAt(rem, r.now).After(h.failed[d]) {
				h.verified[d]++
			}
		}
	}
	return h
}

// addFailing adds what this round finds to have failed: it is no success to go on from.
func (r *run) addFailing(h *history) {
	for _, u := range r.plan.Updates {
		if rem := r.ix.open[u.Target.MachineUID]; u.Phase == api.RemediationFailed && rem != nil && rem.Name == u.Name {
			latest(h.failed, r.ix.domains(rem), r.now)
		}
	}
}

func latest(of map[domain]time.Time, domains [5]domain, at time.Time) {
	for _, d := range domains {
		if at.After(of[d]) {
			of[d] = at
		}
	}
}

// tried is when a repair was asked for, or when that was tried last; a request may
// stand of which nobody could write down that it does.
func tried(rem *api.Remediation) time.Time {
	at := time.Time{}
	if t := rem.Status.TriedAt; t != nil {
		at = t.Time
	}
	if t := rem.Status.ActedAt; t != nil && t.After(at) {
		at = t.Time
	}
	return at
}

// endedAt is when it was written down how a repair ended. Records that do not say so
// were made before it was kept.
func endedAt(rem *api.Remediation, now time.Time) time.Time {
	if t := rem.Status.EndedAt; t != nil {
		return t.Time
	}
	return endOf(rem, now)
}

// withheldFor is how long a machine is left alone after the last look spoke against its
// repair. Should it and the decision ever disagree for good, no more than one record is
// written in a minute.
const withheldFor = time.Minute

// earlier asks what became of earlier repairs of the same hardware. One that failed
// is not repeated: what a reboot did not mend, another will not. The next step follows
// it at once, for the machine is no better than before.
func (r *run) earlier(s subject) (Reason, string) {
	if reason, message := s.escalated(); reason != "" {
		return reason, message
	}
	key := identity(s.machine.HardwareID, s.machine.UID)
	if w := r.ix.withheld[key]; r.now.Sub(w.at) < withheldFor {
		return ReasonCooldown, fmt.Sprintf("the last look spoke against %s a moment ago", w.name)
	}
	last := r.ix.lastEnd[key]
	cooldown := s.settings.cooldown
	if s.flapping(r.now) {
		cooldown = max(cooldown, UnreadyWindow)
	}
	left := last.at.Add(cooldown).Sub(r.now)
	switch {
	case last.at.IsZero() || left <= 0 || s.tries.follows(last.name) && !s.flapping(r.now):
		return "", ""
	case last.cancelled:
		return ReasonCooldown, fmt.Sprintf("asked for by %s, which was withdrawn; left alone for another %s", last.name, left.Round(time.Second))
	}
	return ReasonCooldown, fmt.Sprintf("repaired by %s, left alone for another %s", last.name, left.Round(time.Second))
}
