package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// How long a record that the hub refused is not tried again: at first, doubled each
// time, and at most.
const (
	refusalFirst = 10 * time.Second
	refusalMost  = 5 * time.Minute
)

// refusals are the machines whose records the hub refuses. They are kept in memory
// alone: there is nowhere that they could be written down, and a restart tries at once.
type refusals map[string]*refusal

type refusal struct {
	policy.Refusal
	wait time.Duration
}

func (all refusals) add(d policy.Decision, err error, now time.Time) {
	r := all[d.Machine.UID]
	if r == nil {
		r = &refusal{wait: refusalFirst / 2}
		all[d.Machine.UID] = r
	}
	r.wait = min(2*r.wait, refusalMost)
	r.Refusal = policy.Refusal{MachineUID: d.Machine.UID, At: now, Until: now.Add(r.wait), Message: tried(d.Spec, err)}
}

// message says when what was refused is tried again.
func (all refusals) message(d policy.Decision, err error) string {
	if r := all[d.Machine.UID]; r != nil {
		return r.String()
	}
	return tried(d.Spec, err)
}

// current forgets what was not tried again for long after it could be: the machine is
// well, or held for another reason.
func (all refusals) current(now time.Time) []policy.Refusal {
	var out []policy.Refusal
	for uid, r := range all {
		if now.Sub(r.Until) > refusalMost {
			delete(all, uid)
			continue
		}
		out = append(out, r.Refusal)
	}
	slices.SortFunc(out, func(a, b policy.Refusal) int { return cmp.Compare(a.MachineUID, b.MachineUID) })
	return out
}
