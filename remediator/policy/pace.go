package policy

import (
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// slowStartWindow is how long what was verified speaks for the next repair.
const slowStartWindow = time.Hour

// occupants are the repairs in a domain that are not over, each once, by name.
type occupants struct {
	// begun are those asked for, running or verifying, whoever asked.
	begun []string
	// pending are those written down and not asked for. In a cluster and a pool
	// the first of them has the place before anything new, and the others wait for
	// it. Elsewhere they have none until they are begun: one that waits for a cell
	// that cannot be reached would stop the fleet.
	pending []string
}

func insert(names *[]string, name string) {
	if at, there := slices.BinarySearch(*names, name); !there {
		*names = slices.Insert(*names, at, name)
	}
}

// before counts the repairs that have a place before the given one, and names
// the first.
func (o occupants) before(own string) (int, string) {
	n, first := 0, ""
	count := func(name string) {
		if n++; first == "" {
			first = name
		}
	}
	for _, name := range o.begun {
		if name != own {
			count(name)
		}
	}
	for _, name := range o.pending {
		if name == own {
			break
		}
		count(name)
	}
	return n, first
}

// occupy finds, for each domain, what is open, asked for or running in it. A Job
// that outlives its record counts for as long as it runs.
func (ix *index) occupy(now time.Time) map[domain]occupants {
	busy := map[domain]occupants{}
	for i := range ix.snapshot.Remediations {
		rem := &ix.snapshot.Remediations[i]
		if phase(rem).Final() {
			continue
		}
		for _, d := range ix.domains(rem.Spec.Target) {
			o := busy[d]
			if phase(rem) != api.RemediationPending {
				insert(&o.begun, rem.Name)
			} else if d.level == api.BudgetPool || d.level == api.BudgetCluster {
				insert(&o.pending, rem.Name)
			}
			busy[d] = o
		}
	}
	for _, p := range ix.machines {
		if p.machine.Request != nil {
			begin(busy, p.domains(), p.machine.Request.ID)
		}
		if p.machine.running() {
			begin(busy, p.domains(), p.machine.Response.ID)
		}
	}
	ix.reserve(busy, now)
	return busy
}

func begin(busy map[domain]occupants, domains [5]domain, name string) {
	for _, d := range domains {
		o := busy[d]
		insert(&o.begun, name)
		busy[d] = o
	}
}

// pace asks whether there is room for the repair now.
func (r *run) pace(s subject, p place) (Reason, string) {
	for _, d := range p.domains() {
		if reason, message := r.room(s, d); reason != "" {
			return reason, message
		}
	}
	if s.settings.observe {
		return ReasonObserveOnly, fmt.Sprintf("policy %s only observes; it would %s", s.settings.name, s.settings.action)
	}
	if first := r.begins[s.ref.Cell]; first != "" && !s.standing {
		return ReasonInFlight, fmt.Sprintf("%s is begun first, one at a time in cell %s", first, s.ref.Cell)
	}
	return "", ""
}

// room says what occupies a domain. A policy that only observes counts what it
// would have begun, and knows no slow start: nothing of it is ever verified.
func (r *run) room(s subject, d domain) (Reason, string) {
	l := r.limits(d)
	n, first := r.busy[d].before(r.own(s))
	most := l.inFlight
	if s.settings.observe {
		would := r.observed[d]
		if n += len(would); first == "" && len(would) > 0 {
			first = would[0]
		}
	} else {
		most = r.mostInFlight(d, l)
	}
	if most.set() && n >= most.n {
		return ReasonInFlight, full(n, first, d, most, l.inFlight)
	}
	wait := r.begunLast(d, l).Add(time.Duration(l.interval.n) * time.Second).Sub(r.now)
	if l.interval.set() && wait > 0 && !s.standing {
		return ReasonInFlight, fmt.Sprintf("the last repair in %s began less than %d s ago; the next may in %s (%s)",
			d, l.interval.n, wait.Round(time.Second), l.interval.source())
	}
	return "", ""
}

// full says what is in the way, and whether it is slow start alone.
func full(n int, first string, d domain, most, inFlight figure) string {
	switch {
	case most.n == 1 && inFlight.n > 1:
		return fmt.Sprintf("%s is open in %s, where one goes first and more when it is verified", first, d)
	case most.n == 1:
		return fmt.Sprintf("%s is open in %s, one at a time", first, d)
	}
	return fmt.Sprintf("%d repairs are open in %s, %d at a time (%s)", n, d, most.n, most.source())
}

// own is the name under which the machine's repair has, or would have, its places.
func (r *run) own(s subject) string {
	if s.pending == "" && len(r.ix.snapshot.Reservations) > 0 {
		return r.name(s)
	}
	return s.pending
}

// mostInFlight is the bound of a domain as slow start allows it now.
func (r *run) mostInFlight(d domain, l limits) figure {
	if l.doubling && l.inFlight.set() {
		l.inFlight.n = min(l.inFlight.n, wave(r.verifiedLast(d)))
	}
	return l.inFlight
}

// wave is how many may be in flight after n that were verified: one at first, then
// two, and twice as many each time that as many were verified.
func wave(verified int) int {
	size := 1
	for verified >= size {
		verified -= size
		size *= 2
	}
	return size
}

// verifiedLast counts the repairs of a domain that were verified within the
// window, since the last one that failed.
func (r *run) verifiedLast(d domain) int {
	if n, known := r.verified[d]; known {
		return n
	}
	since := r.now.Add(-slowStartWindow)
	for _, rem := range r.ix.closed {
		if rem.Status.Phase == api.RemediationFailed && r.ix.inside(rem.Spec.Target, d) {
			if at := endOf(rem, r.now); at.After(since) {
				since = at
			}
		}
	}
	n := 0
	for _, rem := range r.ix.closed {
		if rem.Status.Phase == api.RemediationSucceeded && endOf(rem, r.now).After(since) && r.ix.inside(rem.Spec.Target, d) {
			n++
		}
	}
	r.verified[d] = n
	return n
}

// begunLast is when a repair of the domain was asked for last.
func (r *run) begunLast(d domain, l limits) time.Time {
	if !l.interval.set() {
		return time.Time{}
	}
	last := time.Time{}
	if r.begun[d] {
		last = r.now
	}
	for i := range r.ix.snapshot.Remediations {
		rem := &r.ix.snapshot.Remediations[i]
		if at := rem.Status.ActedAt; at != nil && at.After(last) && r.ix.inside(rem.Spec.Target, d) {
			last = at.Time
		}
	}
	return last
}

// take occupies the places that a repair needs.
func (r *run) take(s subject, p place, name string) {
	begin(r.busy, p.domains(), name)
	if s.standing {
		return
	}
	r.begins[s.ref.Cell] = name
	for _, d := range p.domains() {
		r.begun[d] = true
	}
}

// wouldTake occupies the places that a repair would need if its policy acted.
func (r *run) wouldTake(p place) {
	for _, d := range p.domains() {
		r.observed[d] = append(r.observed[d], "the repair of "+p.machine.Name+", which would come first,")
	}
}
