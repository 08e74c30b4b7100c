package policy

import (
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

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

// occupy finds, for each domain, what is open, asked for or running in it.
func (ix *index) occupy() map[domain]occupants {
	busy := map[domain]occupants{}
	for i := range ix.snapshot.Remediations {
		ix.occupyBy(busy, &ix.snapshot.Remediations[i])
	}
	for _, p := range ix.machines {
		if p.machine.Request != nil {
			begin(busy, p.occupies(p.machine.mayStart(ix.now)), p.machine.Request.ID)
		}
		if p.machine.running() {
			begin(busy, p.occupies(p.machine.runs(ix.now)), p.machine.Response.ID)
		}
	}
	ix.reserve(busy)
	return busy
}

// occupies are the domains in which what is written on a machine has a place: its
// cluster, in which nothing begins beside whatever is written there, and all others
// while it can have an effect.
func (p place) occupies(everywhere bool) []domain {
	all := p.domains()
	if everywhere {
		return all[:]
	}
	return within(all)
}

// occupyBy adds what a record has. One of a machine that cannot be seen any more may have
// been begun, and nobody could write down that it was.
func (ix *index) occupyBy(busy map[domain]occupants, rem *api.Remediation) {
	_, seen := ix.byUID[rem.Spec.Target.MachineUID]
	switch {
	case phase(rem).Final():
	case phase(rem) != api.RemediationPending, !seen:
		all := ix.domains(rem)
		begin(busy, all[:], rem.Name)
	default:
		for _, d := range within(ix.domains(rem)) {
			o := busy[d]
			insert(&o.pending, rem.Name)
			busy[d] = o
		}
	}
}

// mayStart says whether a request may yet be taken up.
func (m *Machine) mayStart(now time.Time) bool {
	answered := m.Response != nil && m.Response.ID == m.Request.ID
	return !answered && now.Before(m.Request.StartBefore.Add(maxSkew))
}

// overrun is for how long after its deadline a Job is believed to run. One that is
// said to run for longer, as by an operator that is dead, has its place in its
// cluster alone.
const overrun = time.Hour

func (m *Machine) runs(now time.Time) bool {
	r := m.Response
	if m.Request != nil && m.Request.ID == r.ID {
		return now.Before(m.Request.Deadline.Add(overrun))
	}
	return r.StartedAt == nil || now.Before(r.StartedAt.Add(24*time.Hour+overrun))
}

func begin(busy map[domain]occupants, domains []domain, name string) {
	for _, d := range domains {
		o := busy[d]
		insert(&o.begun, name)
		busy[d] = o
	}
}

// pace asks whether there is room for the repair now.
func (r *run) pace(s subject, p place) (Reason, string) {
	for _, d := range r.scope(p) {
		if reason, message := r.room(s, d); reason != "" {
			return reason, message
		}
	}
	if s.settings.observe {
		return ReasonObserveOnly, fmt.Sprintf("policy %s only observes; it would %s", s.settings.name, s.step.action)
	}
	if first := r.begins[s.ref.Cell]; first != "" && !s.standing && !s.draining {
		return ReasonInFlight, fmt.Sprintf("%s is begun first, one at a time in cell %s", first, s.ref.Cell)
	}
	return "", ""
}

// room says what occupies a domain. A policy that only observes counts what it
// would have begun, and knows no slow start: nothing of it is ever verified.
func (r *run) room(s subject, d domain) (Reason, string) {
	l := r.limits(d)
	n, first := r.busy[d].before(r.own(s))
	if at, stands := slices.BinarySearch(r.busy[d].begun, s.pending); stands && !d.narrow() {
		// Of what stands already the first ones stay where the bound has become less.
		n = at
	}
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
	wait := r.begunLast(d).Add(time.Duration(l.interval.n) * time.Second).Sub(r.now)
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
		l.inFlight.n = min(l.inFlight.n, wave(r.past().verified[d]))
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

// begunLast is when a repair of the domain was asked for last.
func (r *run) begunLast(d domain) time.Time {
	if r.begun[d] {
		return r.now
	}
	return r.past().began[d]
}

// take occupies the places that a repair needs.
func (r *run) take(s subject, p place, name string) {
	all := p.domains()
	begin(r.busy, all[:], name)
	if s.standing || s.draining {
		return
	}
	if s.replacement != nil {
		r.claimed[s.replacement.MachineUID] = name
	}
	r.begins[s.ref.Cell] = name
	r.taken[s.settings.name]++
	for _, d := range all {
		r.begun[d] = true
	}
}

// wouldTake occupies the places that a repair would need if its policy acted.
func (r *run) wouldTake(p place) {
	for _, d := range p.domains() {
		r.observed[d] = append(r.observed[d], "the repair of "+p.machine.Name+", which would come first,")
	}
}
