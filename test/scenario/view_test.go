package scenario_test

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// central is one central Prometheus, with what it last took from each cell.
type central struct {
	name  string
	views map[string]view
	// unready are the instants at which it took each node for unhealthy.
	unready map[policy.NodeRef][]time.Time
}

func newCentral(name string) *central {
	return &central{name, map[string]view{}, map[policy.NodeRef][]time.Time{}}
}

// took remembers for half an hour what was taken of a cell.
func (c *central) took(v view) {
	for _, n := range v.nodes {
		ref := policy.NodeRef{Cell: n.Cell, Cluster: n.Cluster, Node: n.Node}
		c.unready[ref] = append(c.unready[ref], v.at)
	}
}

// unreadyFor is what a central's rule says of a node, which speaks from five minutes on.
func (c *central) unreadyFor(ref policy.NodeRef, now time.Time) time.Duration {
	c.unready[ref] = slices.DeleteFunc(c.unready[ref], func(at time.Time) bool { return now.Sub(at) > policy.UnreadyWindow })
	if sum := time.Duration(len(c.unready[ref])) * step; sum >= 5*time.Minute {
		return sum
	}
	return 0
}

// view is what a cell's edge has evaluated.
type view struct {
	at       time.Time
	clusters []policy.ClusterSample
	nodes    []policy.NodeSample
}

// scrape lets every central take from every cell. What comes over a link that is
// cut ends at once; what comes from a cascade that hangs grows old.
func (f *fleet) scrape() {
	for _, c := range f.centrals {
		if f.state["central "+c.name] == "stale" {
			continue
		}
		for _, cell := range f.cells {
			delete(c.views, cell)
			if f.state["cell "+cell] != "dark" {
				c.views[cell] = f.evaluate(cell)
				c.took(c.views[cell])
			}
		}
	}
}

// evaluate is the cell's edge. A broken one calls every node unhealthy.
func (f *fleet) evaluate(cell string) view {
	v := view{at: f.now.Add(-lag)}
	seen := map[string]bool{}
	for _, m := range f.machines {
		if m.cell != cell || m.absent {
			continue
		}
		up := f.state["cluster "+m.Cluster] != "unseen"
		if !seen[m.Cluster] {
			seen[m.Cluster] = true
			v.clusters = append(v.clusters, policy.ClusterSample{Cell: cell, Cluster: m.Cluster, Up: up, At: v.at})
		}
		if up && (m.ready != "True" || f.state["observer "+cell] == "broken") {
			v.nodes = append(v.nodes, policy.NodeSample{
				Cell: cell, Cluster: m.Cluster, Node: m.Node, Zone: m.Zone, Rack: m.Rack, Reason: m.ready, At: v.at,
			})
		}
	}
	return v
}

// answer is what a central says when it is asked.
func (f *fleet) answer(c *central) policy.Central {
	out := policy.Central{Name: "central-" + c.name, Replica: c.name, ClockSkew: metav1.Duration{Duration: f.ahead["centrals"] - f.ahead["hub"]}}
	state := f.state["central "+c.name]
	switch state {
	case "gone":
		return policy.Central{Name: out.Name, Err: "connection refused"}
	case "partial":
		out.Warnings = []string{"a shard did not answer"}
	case "twin":
		out.Replica = f.centrals[0].name
	}
	for _, cell := range f.cells {
		v, ok := c.views[cell]
		if !ok || f.now.Sub(v.at) > lookBack {
			continue
		}
		out.Heartbeats = append(out.Heartbeats, policy.CellSample{Cell: cell, At: v.at})
		out.ClustersUp = append(out.ClustersUp, v.clusters...)
		if state != "disagrees" {
			for _, n := range v.nodes {
				n.Unready.Duration = c.unreadyFor(policy.NodeRef{Cell: n.Cell, Cluster: n.Cluster, Node: n.Node}, f.now)
				out.Unhealthy = append(out.Unhealthy, n)
			}
		}
	}
	return out
}

// snapshot is what the remediator reads before it knows its suspects.
func (f *fleet) snapshot() policy.Snapshot {
	s := policy.Snapshot{Budgets: slices.Clone(f.budgets), Reservations: slices.Clone(f.places), Incidents: slices.Clone(f.incidents)}
	for _, c := range f.centrals {
		s.Centrals = append(s.Centrals, f.answer(c))
	}
	for _, name := range f.cells {
		s.Cells = append(s.Cells, f.inventory(name))
	}
	for _, rem := range f.records {
		s.Remediations = append(s.Remediations, *rem.DeepCopy())
	}
	return s
}

func (f *fleet) inventory(name string) policy.Cell {
	if f.state["cell "+name] == "unlisted" {
		return policy.Cell{Name: name, Geography: geography(name), Err: "connection refused"}
	}
	cell := policy.Cell{Name: name, Geography: geography(name), Paused: f.state["cell "+name] == "paused"}
	for _, m := range f.machines {
		if m.cell != name {
			continue
		}
		if f.state["cluster "+m.Cluster] == "paused" {
			cell.PausedClusters = append(cell.PausedClusters, m.Cluster)
		}
		if !slices.Contains(cell.DrainableClusters, m.Cluster) {
			cell.DrainableClusters = append(cell.DrainableClusters, m.Cluster)
		}
		m.PowerSeen = f.powerSeen(m)
		cell.Machines = append(cell.Machines, m.Machine)
	}
	return cell
}

// live reads the suspects' clusters.
func (f *fleet) live(suspects []policy.NodeRef) []policy.LiveCluster {
	var out []policy.LiveCluster
	for i := 0; i < len(suspects); {
		first, nodes := suspects[i], []string(nil)
		for ; i < len(suspects) && suspects[i].Cell == first.Cell && suspects[i].Cluster == first.Cluster; i++ {
			nodes = append(nodes, suspects[i].Node)
		}
		out = append(out, f.read(first.Cell, first.Cluster, nodes))
	}
	return out
}

// sees remembers that a node was not ready when the remediator looked.
func (f *fleet) sees(m *machine) {
	m.seen = slices.DeleteFunc(m.seen, func(at time.Time) bool { return f.now.Sub(at) > policy.UnreadyWindow })
	if m.ready != "True" && !slices.Contains(m.seen, f.now) {
		m.seen = append(m.seen, f.now)
	}
}

// read asks the API server of one business cluster.
func (f *fleet) read(cell, cluster string, nodes []string) policy.LiveCluster {
	out := policy.LiveCluster{Cell: cell, Cluster: cluster, ReadAt: f.clock(), ClockSkew: metav1.Duration{Duration: -f.ahead["hub"]}}
	if f.state["cluster "+cluster] == "unreachable" {
		out.Err, out.ClockSkew = "connection refused", metav1.Duration{}
		return out
	}
	for _, m := range f.machines {
		if m.cell == cell && m.Cluster == cluster && !m.absent {
			out.Leases = append(out.Leases, policy.Lease{Node: m.Node, Renewed: m.renewed, Duration: metav1.Duration{Duration: leaseTime}})
		}
	}
	for _, name := range nodes {
		m := f.machine(name)
		if m.absent {
			out.Nodes = append(out.Nodes, policy.LiveNode{Name: name, Absent: true})
			continue
		}
		f.sees(m)
		out.Nodes = append(out.Nodes, policy.LiveNode{
			Name: name, Ready: m.ready, Unready: metav1.Duration{Duration: step * time.Duration(len(m.seen))}, Since: m.since, Heartbeat: m.renewed, Unschedulable: m.cordoned || m.cordonedBy != "", CordonedBy: m.cordonedBy,
			BootID: fmt.Sprintf("boot-%d", m.boots), ProviderID: m.ProviderID,
		})
	}
	return out
}
