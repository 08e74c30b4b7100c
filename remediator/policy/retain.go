package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// remembered is how long a record counts of a repair that may have touched its
	// target. Nothing looks back farther: cooldownSeconds and
	// escalationWindowSeconds are a week at most, the
	// limit of a policy counts over a day, as do minIntervalSeconds at most and the
	// proof that the node operator keeps, and slow start over an hour.
	remembered = 8 * 24 * time.Hour
	// afterEnd is how long any record stays, for a place in a budget that bears its
	// name and for whoever saw it open.
	afterEnd = time.Hour
	// retireAtOnce is how many records go in one round at most.
	retireAtOnce = 20
)

// Retention bounds what is kept of repairs that are over. What a decision may still
// need is kept beyond it.
type Retention struct {
	Age     time.Duration
	Records int
}

// Validate refuses bounds that could not hold, or that nobody can have meant.
func (k Retention) Validate() error {
	if most := 3650 * 24 * time.Hour; k.Age < remembered || k.Age > most {
		return fmt.Errorf("records cannot be kept for %d days: decisions look back %d, and %d are the most",
			k.Age/(24*time.Hour), remembered/(24*time.Hour), most/(24*time.Hour))
	}
	if k.Records < 100 || k.Records > 20_000 {
		return fmt.Errorf("the number of records that are kept cannot be %d: from 100 to 20000, of some 4 KB each in the hub", k.Records)
	}
	return nil
}

// Retire lists the records to take away now, those that ended first before others.
// The snapshot must have every record.
func Retire(s Snapshot, keep Retention, now time.Time) []*api.Remediation {
	if !sameTime(s) {
		return nil
	}
	ended := over(s.Remediations, now)
	tooMany, old := len(ended)-keep.Records, now.Add(-keep.Age)
	if len(ended) == 0 || tooMany <= 0 && !endedAt(ended[0], now).Before(old) {
		return nil // spares the look at every machine
	}
	var out []*api.Remediation
	needed := newNeeds(s, now)
	for _, rem := range ended {
		if len(out) == retireAtOnce || tooMany <= len(out) && !endedAt(rem, now).Before(old) {
			break
		}
		if !needed.record(rem) {
			out = append(out, rem)
		}
	}
	return out
}

// sameTime says whether some central answers and all that do have our time. A clock that
// is years ahead would have everything be old, and what is taken away does not come back.
func sameTime(s Snapshot) bool {
	answered := false
	for i := range s.Centrals {
		c := &s.Centrals[i]
		if c.Err == "" && skewed(c.ClockSkew.Duration) {
			return false
		}
		answered = answered || c.Err == ""
	}
	return answered
}

// over are the records that have ended, the longest ago first.
func over(all []api.Remediation, now time.Time) []*api.Remediation {
	var ended []*api.Remediation
	for i := range all {
		if phase(&all[i]).Final() {
			ended = append(ended, &all[i])
		}
	}
	slices.SortFunc(ended, func(a, b *api.Remediation) int {
		return cmp.Or(endedAt(a, now).Compare(endedAt(b, now)), cmp.Compare(a.Name, b.Name))
	})
	return ended
}

// needs knows what a decision may still ask of a record: all that says so is here.
type needs struct {
	now time.Time
	// written are the names that stand on machines, as request or as answer.
	written map[string]bool
	// unread are the cells whose machines are not known.
	unread map[string]bool
	// pasts are by hardware.
	pasts map[string]*looks
}

func (n needs) looks(rem *api.Remediation) *looks {
	key := identity(rem.Spec.Target.HardwareID, rem.Spec.Target.MachineUID)
	if n.pasts[key] == nil {
		n.pasts[key] = &looks{}
	}
	return n.pasts[key]
}

func (n needs) add(rem *api.Remediation) {
	if answers(rem) {
		n.looks(rem).add(rem, n.now)
	}
}

// answers says whether a record says anything of its hardware.
func answers(rem *api.Remediation) bool {
	return phase(rem).Final() && phase(rem) != api.RemediationCancelled
}

// holds says whether a record speaks against its hardware for good, or is what makes up
// for one that would and is still there.
func (n needs) holds(rem *api.Remediation) bool {
	if !answers(rem) {
		return false
	}
	l, at := n.looks(rem), endedAt(rem, n.now)
	if acknowledged(rem) || phase(rem) == api.RemediationSucceeded {
		return !l.failed.IsZero() && !at.Before(l.failed)
	}
	return !l.covers(rem, at) && (phase(rem) == api.RemediationEscalated || phase(rem) == api.RemediationFailed && !at.Before(l.mended))
}

func newNeeds(s Snapshot, now time.Time) needs {
	n := needs{now, map[string]bool{}, map[string]bool{}, map[string]*looks{}}
	for i := range s.Remediations {
		n.add(&s.Remediations[i])
	}
	for i := range s.Cells {
		n.unread[s.Cells[i].Name] = s.Cells[i].Err != ""
		for j := range s.Cells[i].Machines {
			m := &s.Cells[i].Machines[j]
			n.written[m.ClaimedBy], n.written[m.Quarantined] = true, true
			if m.Request != nil {
				n.written[m.Request.ID] = true
			}
			if m.Response != nil {
				n.written[m.Response.ID] = true
			}
		}
	}
	return n
}

// record says whether a record may not be forgotten yet: one that is open, or holds its
// hardware or lets go of it; one whose name a machine bears,
// under which another would be taken for answered; one of a cell that is not seen; and
// one that limit, cooldown, denials, pace and the pods of its check may still ask for.
func (n needs) record(rem *api.Remediation) bool {
	if !phase(rem).Final() || n.holds(rem) || n.written[rem.Name] || n.unread[rem.Spec.Target.Cell] {
		return true
	}
	last := endedAt(rem, n.now)
	if rem.Status.Phase == api.RemediationCancelled && tried(rem).IsZero() && !keepsAway(rem) {
		return n.now.Sub(last) < afterEnd
	}
	for _, t := range []time.Time{tried(rem), rem.Spec.Deadline.Time} {
		if t.After(last) {
			last = t
		}
	}
	return n.now.Sub(last) < remembered
}
