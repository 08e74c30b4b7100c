package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// fewest unhealthy machines make a suspect; in what has fewMachines at most, two do.
	fewest      = 3
	fewMachines = 5
	// timesElsewhere is how many times the share of the rest that of a suspect must be.
	timesElsewhere = 5
	// explains is the share of another suspect's machines, in percent, with which one
	// suspect stands for both.
	explains = 90
)

// Suspect is what many unhealthy machines share and few others do.
type Suspect struct {
	Spec api.IncidentSpec
	// Affected machines are unhealthy by the agreement of all centrals. Unseen ones may be,
	// but nobody sees them, or sources contradict each other.
	Affected, Unseen, Machines int
	// ElsewhereAffected of Elsewhere machines are unhealthy in the rest of Parent.
	ElsewhereAffected, Elsewhere int
	Parent                       string
	// Clusters that have affected machines, as CELL/CLUSTER.
	Clusters []string
}

func (s Suspect) shared() shared { return sharedOf(&s.Spec) }

// String says what is suspected, with the numbers.
func (s Suspect) String() string {
	return fmt.Sprintf("%s: %d of %d machines are unhealthy there, %d of %d elsewhere in %s",
		s.shared(), s.Affected, s.Machines, s.ElsewhereAffected, s.Elsewhere, s.Parent)
}

// census counts the machines of something shared.
type census struct {
	shared, parent shared
	// sick machines are agreed to be unhealthy, unseen ones may be.
	sick, unseen, machines int
	// down means that no cell sees the cluster any more. Then the path to all of its
	// machines is affected, and nothing is known of any.
	down bool
	// followed means that it has an incident that is not closed.
	followed bool
	// percent is the least that a policy allows which speaks for a sick machine.
	percent int
	// cells are sorted.
	cells    []string
	clusters map[string]bool
}

func (n *census) affected() int {
	if n.down {
		return n.machines
	}
	return n.sick
}

// mayBe counts those that are or may be affected.
func (n *census) mayBe() int { return min(n.machines, n.affected()+n.unseen) }

// correlation is what unhealthy machines share.
type correlation struct {
	counts map[shared]*census
	// common counts the sick machines that two of those have in common.
	common map[[2]shared]int
	// suspects are in the order of compareShared.
	suspects []Suspect
	of       map[shared]*Suspect
}

// correlate counts once what is shared by sick machines, and by those of incidents
// that are not closed.
func (r *run) correlate() *correlation {
	if r.correlation != nil {
		return r.correlation
	}
	c := &correlation{counts: map[shared]*census{}, common: map[[2]shared]int{}, of: map[shared]*Suspect{}}
	r.correlation = c
	sick := r.sick()
	for m := range sick {
		r.accuse(c, sick[m])
	}
	r.accuseDown(c)
	for _, in := range r.open() {
		c.count(sharedOf(&in.Spec)).followed = true
		c.count(r.parentOf(&in.Spec))
	}
	if len(c.counts) > 0 {
		r.takeCensus(c, sick)
		c.choose(r.oneCell, sick)
	}
	return c
}

func (c *correlation) count(s shared) *census {
	n := c.counts[s]
	if n == nil {
		n = &census{shared: s}
		c.counts[s] = n
	}
	return n
}

// sick are the machines in use that every central calls unhealthy, freshly, and of which
// the cluster's own API server does not say that they are well.
func (r *run) sick() map[*Machine]place {
	found, age := map[*Machine]place{}, r.reportAge()
	for i := range r.ix.centrals {
		for ref := range r.ix.centrals[i].unhealthy {
			on := r.ix.on(ref)
			if len(on) == 0 || found[on[0].machine].machine != nil || r.ix.liveReady(ref) {
				continue
			}
			if f, _, _ := agree(r.ix.facts(ref), ref, age, r.now); f != findingUnhealthy {
				continue
			}
			for _, p := range on {
				if p.machine.serves() {
					found[p.machine] = p
				}
			}
		}
	}
	return found
}

// accuse counts a sick machine in all that it shares.
func (r *run) accuse(c *correlation, p place) {
	percent, cluster := defaultUnhealthyPercent, p.cell.Name+"/"+p.machine.Cluster
	if speaks := r.policyFor(p); speaks != nil {
		percent = unhealthyPercent(speaks)
	}
	for _, s := range p.shares() {
		if s.name != "" {
			n := c.count(s)
			n.sick++
			n.accused(cluster, percent)
		}
	}
}

func (n *census) accused(cluster string, percent int) {
	if n.clusters == nil {
		n.clusters, n.percent = map[string]bool{}, percent
	}
	n.percent = min(n.percent, percent)
	n.clusters[cluster] = true
}

// accuseDown accuses the path to clusters of which every central freshly says that
// their own cell does not see them.
func (r *run) accuseDown(c *correlation) {
	age := r.reportAge()
	for ref := range r.gate(age).dark {
		if places := r.ix.clusters[ref].places; len(places) > 0 && r.down(ref, age) {
			n := c.count(places[0].shares()[pathShare])
			n.down = true
			c.count(places[0].shares().parent(pathShare))
			n.accused(ref.cell+"/"+ref.cluster, defaultUnhealthyPercent)
		}
	}
}

func (r *run) down(ref clusterRef, age time.Duration) bool {
	node := NodeRef{Cell: ref.cell, Cluster: ref.cluster}
	for _, f := range r.ix.facts(node) {
		if reason, _ := f.silent(node); reason != "" || f.stale(age, r.now) != "" || f.up.Up {
			return false
		}
	}
	return len(r.ix.centrals) >= quorum
}

// takeCensus counts the machines of all that is accused, and of all that it is compared
// with, in one pass.
func (r *run) takeCensus(c *correlation, sick map[*Machine]place) {
	g := r.gate(r.reportAge())
	var at standpoint
	for _, p := range r.ix.machines {
		if !p.machine.serves() {
			continue
		}
		if !at.same(p) {
			at.move(c, p, g.dark[clusterRef{p.cell.Name, p.machine.Cluster}])
		}
		unseen := at.dark || g.bad[p.machine]
		if unseen {
			_, isSick := sick[p.machine]
			unseen = !isSick
		}
		for _, n := range at.counts {
			if n != nil {
				n.add(unseen)
			}
		}
	}
}

// standpoint is where a machine is. The next one of its cluster shares most with it.
type standpoint struct {
	place
	dark   bool
	shares shares
	counts [suspectable + 1]*census
}

func (at *standpoint) same(p place) bool {
	if at.cell != p.cell {
		return false
	}
	a, b := at.machine, p.machine
	return a.Rack == b.Rack && a.Cluster == b.Cluster && a.Pool == b.Pool && a.Switch == b.Switch && a.Power == b.Power && a.Zone == b.Zone
}

func (at *standpoint) move(c *correlation, p place, dark bool) {
	all := p.shares()
	for i, s := range all {
		if s == at.shares[i] && at.cell == p.cell {
			continue
		}
		at.counts[i] = c.counts[s]
		if n := at.counts[i]; n != nil {
			n.parent = all.parent(i)
			n.spans(p.cell.Name)
		}
	}
	at.place, at.dark, at.shares = p, dark, all
}

func (n *census) add(unseen bool) {
	n.machines++
	if unseen {
		n.unseen++
	}
}

func (n *census) spans(cell string) {
	if i, found := slices.BinarySearch(n.cells, cell); !found {
		n.cells = slices.Insert(n.cells, i, cell)
	}
}

// rest is what the parent has beside it.
func (c *correlation) rest(n *census) tally {
	all := c.counts[n.parent]
	if all == nil {
		return tally{}
	}
	return tally{all.sick - n.sick, all.machines - n.machines}
}

// suspicious says whether so many are unhealthy in it, and so few elsewhere in what
// it is part of, that it is to be suspected.
func (c *correlation) suspicious(n *census) bool {
	least := fewest
	if n.machines <= fewMachines {
		least = 2
	}
	in, out := n.affected(), c.rest(n)
	return in >= least && tally{in, n.machines}.exceeds(n.percent) && in*out.machines >= timesElsewhere*out.unhealthy*n.machines
}

// choose finds the suspects. Of two of which one has nearly all the sick machines of the
// other, the smaller stands for both if it explains the larger, else the larger. In a last
// look that sees one cell nothing is known of what wider things are compared with.
func (c *correlation) choose(oneCell bool, sick map[*Machine]place) {
	left := map[shared]*census{}
	for s, n := range c.counts {
		if s.kind != fleetKind && (!oneCell || !n.hidden()) && c.suspicious(n) {
			left[s] = n
		}
	}
	c.pair(sick, func(s shared) bool { return left[s] != nil || c.counts[s].followed })
	c.drop(left, func(small, large *census) *census {
		if c.within(large, small) {
			return large
		}
		return nil
	})
	c.drop(left, func(small, large *census) *census {
		if c.within(small, large) {
			return small
		}
		return nil
	})
	for _, n := range left {
		c.suspects = append(c.suspects, c.suspect(n))
	}
	slices.SortFunc(c.suspects, func(a, b Suspect) int { return compareShared(a.shared(), b.shared()) })
	for i := range c.suspects {
		c.of[c.suspects[i].shared()] = &c.suspects[i]
	}
}

// hidden says whether more than one cell has to be seen to tell.
func (n *census) hidden() bool {
	return n.shared.wide() || n.parent.kind == api.IncidentZone && n.parent.region != ""
}

// drop leaves out, at once, what loses against another with which it has sick machines in common.
func (c *correlation) drop(from map[shared]*census, loser func(small, large *census) *census) {
	lost := map[shared]bool{}
	for pair := range c.common {
		a, b := from[pair[0]], from[pair[1]]
		if a == nil || b == nil || !smaller(a, b) {
			continue
		}
		if n := loser(a, b); n != nil {
			lost[n.shared] = true
		}
	}
	maps.DeleteFunc(from, func(s shared, _ *census) bool { return lost[s] })
}

// pair counts, for any two of some things, the sick machines that they have in common.
func (c *correlation) pair(sick map[*Machine]place, among func(shared) bool) {
	for _, p := range sick {
		all := p.shares()
		in := slices.DeleteFunc(all[:], func(s shared) bool { return s.name == "" || !among(s) })
		for _, a := range in {
			for _, b := range in {
				if a != b {
					c.common[[2]shared{a, b}]++
				}
			}
		}
	}
}

// within says whether nearly all sick machines of a are in b.
func (c *correlation) within(a, b *census) bool {
	return a.sick > 0 && 100*c.common[[2]shared{a.shared, b.shared}] >= explains*a.sick
}

// smaller orders suspects by their machines, and those of as many by kind and name.
func smaller(a, b *census) bool {
	return cmp.Or(cmp.Compare(a.machines, b.machines), compareShared(a.shared, b.shared)) < 0
}

func compareShared(a, b shared) int {
	order := IncidentKinds()
	return cmp.Or(cmp.Compare(slices.Index(order, a.kind), slices.Index(order, b.kind)), cmp.Compare(a.cell, b.cell), cmp.Compare(a.region, b.region),
		cmp.Compare(a.zone, b.zone), cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.name, b.name))
}

func (c *correlation) suspect(n *census) Suspect {
	out := c.rest(n)
	return Suspect{
		Spec:     n.shared.spec(n.cells, n.percent),
		Affected: n.affected(), Unseen: n.mayBe() - n.affected(), Machines: n.machines,
		ElsewhereAffected: out.unhealthy, Elsewhere: out.machines, Parent: n.parent.String(),
		Clusters: slices.Sorted(maps.Keys(n.clusters)),
	}
}

// suspected names what is suspected of a machine's surroundings.
func (r *run) suspected(p place) *Suspect {
	c := r.correlate()
	for _, s := range p.shares() {
		if found := c.of[s]; found != nil {
			return found
		}
	}
	return nil
}

// correlated says why the surroundings of a machine forbid its repair, and what is suspected.
func (r *run) correlated(s subject, p place) (Reason, string) {
	reason, message := r.gate(s.settings.evidenceAge).blocks(r.ix, p, s.settings.percent)
	suspect := r.suspected(p)
	switch {
	case suspect == nil:
		return reason, message
	case reason == ReasonCorrelatedFailure:
		return reason, message + "; suspect " + suspect.String()
	}
	return ReasonCorrelatedFailure, "suspect " + suspect.String()
}
