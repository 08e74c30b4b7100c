package replay

import (
	"slices"

	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

// Doubt is why what is told of a machine may not have come about. All but NotRead mean
// that in an earlier look a repair was begun or ended otherwise than it would have been,
// of the machine itself or in a part of the fleet that shares a budget with it: later
// snapshots have the repairs that were done.
type Doubt string

// Doubts.
const (
	// Certain is none.
	Certain     Doubt = ""
	OfFleet     Doubt = "Fleet"
	OfGeography Doubt = "Geography"
	OfCell      Doubt = "Cell"
	OfCluster   Doubt = "Cluster"
	OfPool      Doubt = "Pool"
	OfMachine   Doubt = "Machine"
	// NotRead means that the machine is held because its node, or whether it can be
	// checked, was not read: no policy that was in force asked for it.
	NotRead Doubt = "NotRead"
)

// gravity is more for what is graver: the nearer, the graver.
func (d Doubt) gravity() int {
	return slices.Index([]Doubt{Certain, OfFleet, OfGeography, OfCell, OfCluster, OfPool, OfMachine, NotRead}, d)
}

// part is a part of the fleet in which a repair that differs casts a doubt.
type part struct {
	doubt         Doubt
	cell, cluster string
	name          string
}

// look is one snapshot, with the policies of then and those that are asked for.
type look struct {
	recorded, under snapshot.Snapshot
	// places is made when it is asked for.
	places map[machine]place
	// probes are the node checks that are asked for and were not tried.
	probes  map[part]bool
	probing bool
}

type place struct {
	geography string
	*policy.Machine
}

// place has no Machine if that is gone.
func (l *look) place(m machine) place {
	if l.places == nil {
		l.places = map[machine]place{}
		for _, c := range l.recorded.Cells {
			for i := range c.Machines {
				l.places[machine{c.Name, c.Machines[i].Namespace, c.Machines[i].Name}] = place{c.Geography, &c.Machines[i]}
			}
		}
	}
	return l.places[m]
}

// parts are those that have the machine, the narrowest first.
func (l *look) parts(m machine) []part {
	all := []part{{OfMachine, m.cell, m.namespace, m.name}}
	p := l.place(m)
	if p.Machine != nil {
		all = append(all, part{OfPool, m.cell, p.Cluster, p.Pool}, part{OfCluster, m.cell, p.Cluster, ""})
	}
	return append(all, part{OfCell, m.cell, "", ""}, part{doubt: OfGeography, name: p.geography}, part{doubt: OfFleet})
}

func (r *Replay) doubt(l *look, m machine, after Outcome) Doubt {
	if l.unread(m, after.Reason) {
		return NotRead
	}
	for _, p := range l.parts(m) {
		if r.bent[p] {
			return p.doubt
		}
	}
	return Certain
}

// unread says whether the machine is held for want of what nobody tried to read.
func (l *look) unread(m machine, reason policy.Reason) bool {
	p := l.place(m)
	if p.Machine == nil {
		return false
	}
	switch reason {
	case policy.ReasonLiveUnknown:
		return !slices.ContainsFunc(l.recorded.Clusters, func(c policy.LiveCluster) bool {
			return c.Cell == m.cell && c.Cluster == p.Cluster &&
				(c.Err != "" || slices.ContainsFunc(c.Nodes, func(n policy.LiveNode) bool { return n.Name == p.Node }))
		})
	case policy.ReasonNodeCheckUnavailable:
		return l.untried()[part{OfCluster, m.cell, p.Cluster, ""}]
	}
	return false
}

// untried are the clusters in which a node check is asked for that was not tried.
func (l *look) untried() map[part]bool {
	if l.probing {
		return l.probes
	}
	l.probing, l.probes = true, map[part]bool{}
	for _, probe := range policy.CheckProbes(l.under.Policies, l.under.Snapshot) {
		answers := func(a policy.CheckAccess) bool { return a.Answers(probe) }
		if !slices.ContainsFunc(l.recorded.CheckAccess, answers) {
			l.probes[part{OfCluster, probe.Target.Cell, probe.Target.Cluster, ""}] = true
		}
	}
	return l.probes
}
