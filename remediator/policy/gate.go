package policy

import (
	"fmt"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// tally counts machines and how many of them are unhealthy.
type tally struct{ unhealthy, machines int }

// exceeds says whether strictly more than percent is unhealthy. Nothing is
// rounded. Of nothing, everything is too much.
func (t tally) exceeds(percent int) bool {
	return t.machines == 0 || t.unhealthy*100 > percent*t.machines
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
}

func newGate(ix *index, maxAge time.Duration, now time.Time) gate {
	g := gate{map[clusterRef]*tally{}, map[rackRef]*tally{}}
	bad, dark := ix.unhealthyRefs(), map[clusterRef]bool{}
	for ref, places := range ix.byNode {
		cluster := clusterRef{ref.Cell, ref.Cluster}
		unseen, known := dark[cluster]
		if !known {
			unseen = ix.dark(cluster, maxAge, now)
			dark[cluster] = unseen
		}
		for _, p := range places {
			if p.machine.InUse {
				g.add(ref, p.machine.Zone, p.machine.Rack, unseen || bad[ref] || ix.unavailable(p.machine))
			}
		}
	}
	g.addUnmatched(ix)
	return g
}

// dark says whether some source does not see a cluster, now.
func (ix *index) dark(cluster clusterRef, maxAge time.Duration, now time.Time) bool {
	ref := NodeRef{Cell: cluster.cell, Cluster: cluster.cluster}
	for i := range ix.centrals {
		f := ix.centrals[i].fact(ref)
		if reason, _ := f.silent(ref); reason != "" || f.stale(maxAge, now) != "" || !f.up.Up {
			return true
		}
	}
	read := ix.live[cluster]
	return len(ix.centrals) < quorum || (read != nil && read.blind(maxAge, now) != "")
}

func (g gate) add(ref NodeRef, zone, rack string, bad bool) {
	cluster, r := clusterRef{ref.Cell, ref.Cluster}, rackRef{ref.Cell, zone, rack}
	if g.clusters[cluster] == nil {
		g.clusters[cluster] = &tally{}
	}
	if g.racks[r] == nil {
		g.racks[r] = &tally{}
	}
	g.clusters[cluster].machines++
	g.racks[r].machines++
	if bad {
		g.clusters[cluster].unhealthy++
		g.racks[r].unhealthy++
	}
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
func (ix *index) unmatched() map[NodeRef]NodeSample {
	found := map[NodeRef]NodeSample{}
	for i := range ix.centrals {
		for ref, s := range ix.centrals[i].unhealthy {
			if len(ix.byNode[ref]) == 0 {
				found[ref] = s
			}
		}
	}
	return found
}

// unhealthyRefs unites every sign that a node is not well. A sample that a
// central keeps though the live node is Ready is no such sign.
func (ix *index) unhealthyRefs() map[NodeRef]bool {
	bad := map[NodeRef]bool{}
	for i := range ix.centrals {
		for ref := range ix.centrals[i].unhealthy {
			if !ix.liveReady(ref) {
				bad[ref] = true
			}
		}
	}
	for ref, n := range ix.liveNodes {
		if n.Ready != "True" || n.Unschedulable || n.Deleting {
			bad[ref] = true
		}
	}
	for ref, l := range ix.leases {
		if read := ix.live[clusterRef{ref.Cell, ref.Cluster}]; !l.beats(read.ReadAt) {
			bad[ref] = true
		}
	}
	return bad
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
func (g gate) blocks(p place, percent int) (Reason, string) {
	cluster, rack := g.of(p)
	if rack.exceeds(percent) {
		return ReasonCorrelatedFailure, fmt.Sprintf("%s machines of rack %s are unhealthy, allowed are %d percent", rack, p.machine.Rack, percent)
	}
	if cluster.exceeds(percent) {
		return ReasonCorrelatedFailure, fmt.Sprintf("%s machines of cluster %s are unhealthy, allowed are %d percent", cluster, p.machine.Cluster, percent)
	}
	return "", ""
}

// controlPath counts the cluster's machines whose Lease is old or missing. Two
// or more that are a fifth of the cluster point at the path between kubelets
// and API server rather than at the machines.
func (ix *index) controlPath() map[clusterRef]tally {
	old := map[clusterRef]tally{}
	for ref, places := range ix.byNode {
		cluster := clusterRef{ref.Cell, ref.Cluster}
		read := ix.live[cluster]
		if read == nil || read.Err != "" || !places[0].machine.InUse {
			continue
		}
		t := old[cluster]
		t.machines++
		if l := ix.leases[ref]; l == nil || !l.beats(read.ReadAt) {
			t.unhealthy++
		}
		old[cluster] = t
	}
	return old
}

func (t tally) suspect() bool { return t.unhealthy >= 2 && t.unhealthy*5 >= t.machines }
