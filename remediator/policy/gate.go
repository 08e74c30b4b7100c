package policy

import (
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// tally counts machines and how many of them are unhealthy.
type tally struct{ unhealthy, machines int }

// exceeds says whether more is unhealthy than a share allows.
func (t tally) exceeds(percent int) bool { return t.unhealthy > t.allowed(percent) }

// allowed is a share, in percent, rounded down, and one machine at least, so that
// a small rack or cluster can be repaired. Of nothing, nothing is allowed.
func (t tally) allowed(percent int) int {
	if t.machines == 0 {
		return -1
	}
	return max(1, percent*t.machines/100)
}

func (t tally) String() string { return fmt.Sprintf("%d of %d", t.unhealthy, t.machines) }

// gate counts, for each cluster and each rack, machines in use and those that
// are unhealthy by any sign: listed by either central, old Lease, live node not
// ready, repair open, asked for or running, being deleted. Machines of a cluster
// that cannot be seen count, too: nobody knows that they are well, and a rack may
// be shared with one that can be seen.
type gate struct {
	clusters map[clusterRef]*tally
	racks    map[rackRef]*tally
	// known are the same for budgets, without machines of which nothing is known.
	known map[domain]*tally
	// unseen are all machines of a geography or the fleet, and how many are not seen.
	unseen map[domain]*tally
	// around are, by cell, what of known and unseen is wider than a cluster.
	around map[*Cell]*[3]wider
	// pools are those of the clusters that were asked for.
	pools map[clusterRef][]poolTally
	dark  map[clusterRef]bool
	bad   map[*Machine]bool
}

type wider struct{ known, unseen *tally }

// poolTally counts a pool as the gate does, and as budgets do.
type poolTally struct {
	name      string
	all, seen tally
}

func newGate(ix *index, maxAge time.Duration, now time.Time) gate {
	g := gate{
		clusters: make(map[clusterRef]*tally, len(ix.clusters)), racks: map[rackRef]*tally{},
		known: make(map[domain]*tally, len(ix.clusters)), unseen: map[domain]*tally{}, around: map[*Cell]*[3]wider{},
		pools: map[clusterRef][]poolTally{}, dark: map[clusterRef]bool{}, bad: ix.unwell(),
	}
	seeing := ix.seeing(maxAge, now)
	for ref, c := range ix.clusters {
		if ix.dark(c, seeing, maxAge, now) {
			g.dark[ref] = true
		}
		if of, seen, waiting := g.addCluster(ix, c); of.machines > 0 {
			g.clusters[ref] = &of
			g.addKnown(ix, c, seen, waiting)
		}
	}
	g.addUnmatched(ix)
	return g
}

// addCluster counts the machines of one cluster, each in its rack, too, those of which
// something is known, and of these the ones that wait for people.
func (g gate) addCluster(ix *index, c *cluster) (of, seen tally, waiting int) {
	rack, last := (*tally)(nil), rackRef{}
	for _, p := range c.places {
		if !p.machine.serves() {
			continue
		}
		if at := (rackRef{c.cell, p.machine.Zone, p.machine.Rack}); rack == nil || at != last {
			rack, last = counted(g.racks, at), at
		}
		dark := g.dark[c.clusterRef]
		bad := g.count(ix, p.machine, dark, &of, &seen)
		rack.add(bad || dark)
		if bad && ix.waits(p.machine) {
			waiting++
		}
	}
	return of, seen, waiting
}

// count adds a machine to all that there are, and to those of which something is
// known. It says whether there is a sign that the machine is unavailable.
func (g gate) count(ix *index, m *Machine, dark bool, all, seen *tally) (bad bool) {
	bad = g.bad[m] || ix.unavailable(m)
	all.add(bad || dark)
	if bad || !dark {
		seen.add(bad)
	}
	return bad
}

// addKnown adds what is known of a cluster to all that it is part of, outside of
// itself without those that wait for people.
func (g gate) addKnown(ix *index, c *cluster, seen tally, waiting int) {
	all := g.clusters[c.clusterRef].machines
	g.known[domain{level: api.BudgetCluster, cell: c.cell, cluster: c.cluster}] = &seen
	for _, w := range g.wider(ix.cells[c.cell]) {
		w.known.plus(tally{seen.unhealthy - waiting, seen.machines - waiting})
		w.unseen.plus(tally{all - seen.machines, all})
	}
}

// wider are the counts of a cell, its geography and the fleet.
func (g gate) wider(cell *Cell) *[3]wider {
	all := g.around[cell]
	if all == nil {
		all = &[3]wider{}
		wide := domains(cell, "", "")
		for i, d := range wide[2:] {
			all[i] = wider{counted(g.known, d), counted(g.unseen, d)}
		}
		g.around[cell] = all
	}
	return all
}

// counted is the count of something, which begins at nought.
func counted[K comparable](counts map[K]*tally, of K) *tally {
	t := counts[of]
	if t == nil {
		t = &tally{}
		counts[of] = t
	}
	return t
}

func (t *tally) plus(more tally) {
	t.unhealthy += more.unhealthy
	t.machines += more.machines
}

// waitsFor is how long a machine that was handed to people counts against the cell, the
// geography and the fleet; two in a hundred wait for people in any large fleet.
const waitsFor = 24 * time.Hour

// waits says whether a machine was handed to people long ago, and nobody acknowledged it.
func (ix *index) waits(m *Machine) bool {
	if len(ix.people) == 0 {
		return false
	}
	rem := ix.people[identity(m.HardwareID, m.UID)]
	return rem != nil && rem.Status.EndedAt != nil && ix.now.Sub(endedAt(rem, ix.now)) >= waitsFor
}

// pool counts the machines of one pool.
func (g gate) pool(ix *index, d domain) poolTally {
	for _, t := range g.poolsOf(ix, clusterRef{d.cell, d.cluster}) {
		if t.name == d.name {
			return t
		}
	}
	return poolTally{}
}

// poolsOf counts the machines of each pool of a cluster.
func (g gate) poolsOf(ix *index, ref clusterRef) []poolTally {
	pools, known := g.pools[ref]
	c := ix.clusters[ref]
	if known || c == nil {
		return pools
	}
	at := 0
	for _, p := range c.places {
		if !p.machine.serves() {
			continue
		}
		// The next machine is of the same pool as a rule.
		if at >= len(pools) || pools[at].name != p.machine.Pool {
			at = slices.IndexFunc(pools, func(t poolTally) bool { return t.name == p.machine.Pool })
		}
		if at < 0 {
			at, pools = len(pools), append(pools, poolTally{name: p.machine.Pool})
		}
		g.count(ix, p.machine, g.dark[ref], &pools[at].all, &pools[at].seen)
	}
	g.pools[ref] = pools
	return pools
}

// serves says whether a machine is one that a cluster can do with or without.
func (m *Machine) serves() bool { return m.InUse && m.Node != "" }

func (t *tally) add(bad bool) {
	t.machines++
	if bad {
		t.unhealthy++
	}
}

// seeing says, for each cell, whether every central can be relied on in what it says of
// the cell, now.
func (ix *index) seeing(maxAge time.Duration, now time.Time) map[string]bool {
	seen := make(map[string]bool, len(ix.cells))
	for name, cell := range ix.cells {
		reason, _ := ix.heard(cell, maxAge, now)
		seen[name] = reason == ""
	}
	return seen
}

// dark says whether some source does not see a cluster, now.
func (ix *index) dark(c *cluster, seeing map[string]bool, maxAge time.Duration, now time.Time) bool {
	if len(ix.centrals) < quorum || !seeing[c.cell] {
		return true
	}
	for i := range ix.centrals {
		if up := ix.centrals[i].up[c.clusterRef]; up == nil || !up.Up || !fresh(up.At, maxAge, now) {
			return true
		}
	}
	return c.read != nil && c.read.blind(maxAge, now) != ""
}

// addUnmatched counts unhealthy nodes that no machine bears: they raise the
// share without raising the denominator.
func (g gate) addUnmatched(ix *index) {
	for ref, s := range ix.unmatched() {
		if t := g.clusters[clusterRef{ref.Cell, ref.Cluster}]; t != nil {
			t.unhealthy++
		}
		if t := g.racks[rackRef{ref.Cell, s.Zone, s.Rack}]; t != nil {
			t.unhealthy++
		}
	}
}

// unmatched are the nodes that some central lists and no machine bears.
func (ix *index) unmatched() map[NodeRef]*NodeSample {
	found := map[NodeRef]*NodeSample{}
	for i := range ix.centrals {
		for ref, s := range ix.centrals[i].unhealthy {
			if len(ix.on(ref)) == 0 {
				found[ref] = s
			}
		}
	}
	return found
}

// unwell unites every sign that the node of a machine is not well. A sample that
// a central keeps though the live node is Ready is no such sign.
func (ix *index) unwell() map[*Machine]bool {
	bad := map[*Machine]bool{}
	for i := range ix.centrals {
		for ref := range ix.centrals[i].unhealthy {
			if on := ix.on(ref); len(on) > 0 && !ix.liveReady(ref) {
				mark(bad, on)
			}
		}
	}
	for _, c := range ix.clusters {
		c.unwell(bad)
	}
	return bad
}

// unwell marks the machines whose Node or Lease says that they are not well.
func (c *cluster) unwell(bad map[*Machine]bool) {
	for _, n := range c.nodes {
		if n.Ready != "True" || n.Unschedulable || n.Deleting {
			mark(bad, c.on(n.Name))
		}
	}
	for _, l := range c.leases {
		if !l.Beats(c.read.ReadAt) {
			mark(bad, c.on(l.Node))
		}
	}
}

func mark(bad map[*Machine]bool, places []place) {
	for _, p := range places {
		bad[p.machine] = true
	}
}

// liveReady says whether the node itself, just read, is Ready with a Lease in time.
func (ix *index) liveReady(ref NodeRef) bool {
	l := ix.liveFact(ref)
	return l.cluster != nil && l.well(time.Minute, l.cluster.ReadAt) == ""
}

// unavailable covers what counts against the budget though it may look well.
func (ix *index) unavailable(m *Machine) bool {
	return m.Deleting || m.Request != nil || m.running() || ix.open[m.UID] != nil
}

// running says whether the node operator works on the machine, for whatever
// request and whatever became of its record.
func (m *Machine) running() bool { return m.Response != nil && m.Response.Phase == api.RepairRunning }

// record is the gate as it is written down for one machine.
func (g gate) record(p place) api.GateRecord {
	cluster, rack := g.of(p)
	return api.GateRecord{
		ClusterMachines: int32(cluster.machines), ClusterUnhealthy: int32(cluster.unhealthy),
		RackMachines: int32(rack.machines), RackUnhealthy: int32(rack.unhealthy),
	}
}

func (g gate) of(p place) (cluster, rack tally) {
	if t := g.clusters[clusterRef{p.cell.Name, p.machine.Cluster}]; t != nil {
		cluster = *t
	}
	if t := g.racks[rackRef{p.cell.Name, p.machine.Zone, p.machine.Rack}]; t != nil {
		rack = *t
	}
	return cluster, rack
}

// blocks says why the surroundings of a machine forbid its repair.
func (g gate) blocks(ix *index, p place, percent int) (Reason, string) {
	cluster, rack := g.of(p)
	for _, around := range []struct {
		tally
		of string
	}{{rack, "rack " + p.machine.Rack}, {cluster, "cluster " + p.machine.Cluster}} {
		if around.exceeds(percent) {
			return ReasonCorrelatedFailure, fmt.Sprintf("%s machines of %s are unhealthy, at most %d may be (%d percent)",
				around.tally, around.of, max(0, around.allowed(percent)), percent)
		}
	}
	only := ""
	switch pool := p.domains()[0]; {
	case cluster.machines == 1:
		only = "cluster " + p.machine.Cluster
	case pool.name != "" && g.pool(ix, pool).all.machines == 1:
		only = pool.String()
	default:
		return "", ""
	}
	return ReasonLoneMachine, fmt.Sprintf("it is the only machine of %s: what a repair takes with it is for people to weigh", only)
}

// controlPath counts the cluster's nodes whose Lease is old or missing. Two
// or more that are a fifth of the cluster point at the path between kubelets
// and API server rather than at the machines.
func (ix *index) controlPath(ref clusterRef) tally {
	var t tally
	c := ix.clusters[ref]
	if c == nil || c.read == nil || c.read.Err != "" {
		return t
	}
	for i, p := range c.places {
		again := i > 0 && c.places[i-1].machine.Node == p.machine.Node
		if p.machine.Node == "" || again || !slices.ContainsFunc(c.on(p.machine.Node), func(p place) bool { return p.machine.InUse }) {
			continue
		}
		l := find(c.leases, p.machine.Node, nodeOfLease)
		t.add(l == nil || !l.Beats(c.read.ReadAt))
	}
	return t
}

func (t tally) suspect() bool { return t.unhealthy >= 2 && t.unhealthy*5 >= t.machines }

func (r *run) suspectPath(s subject) (Reason, string) {
	cluster := clusterRef{s.ref.Cell, s.ref.Cluster}
	t, known := r.paths[cluster]
	if !known {
		t = r.ix.controlPath(cluster)
		r.paths[cluster] = t
	}
	if t.suspect() {
		return ReasonControlPathSuspected, fmt.Sprintf("%s Leases of cluster %s are old: suspect the path to its API server", t, s.ref.Cluster)
	}
	return "", ""
}
