package policy

import (
	"cmp"
	"slices"
)

// cluster is what is known of one business cluster: its machines, and what its
// own API server says. Machines, Leases and Nodes are found by the name of their
// node in lists that are in its order, because a table of a hundred thousand
// names takes longer to make than everything that is asked of it.
type cluster struct {
	clusterRef
	places []place
	// read is nil for a cluster that was not read.
	read   *LiveCluster
	leases []*Lease
	nodes  []*LiveNode
}

// addInventory groups the machines of every cell by cluster.
func (ix *index) addInventory() {
	n := 0
	ix.cells = make(map[string]*Cell, len(ix.snapshot.Cells))
	for i := range ix.snapshot.Cells {
		n += len(ix.snapshot.Cells[i].Machines)
		ix.cells[ix.snapshot.Cells[i].Name] = &ix.snapshot.Cells[i]
	}
	ix.clusters = make(map[clusterRef]*cluster, len(ix.snapshot.Clusters))
	ix.byUID = make(map[string]place, n)
	ix.sameUID = map[string]bool{}
	ix.hardware = make(map[string]int, n)
	ix.machines = make([]place, 0, n)
	for i := range ix.snapshot.Cells {
		ix.addCell(&ix.snapshot.Cells[i])
	}
}

func (ix *index) addCell(cell *Cell) {
	first := len(ix.machines)
	for j := range cell.Machines {
		p := place{cell, &cell.Machines[j]}
		ix.machines = append(ix.machines, p)
		known := len(ix.byUID)
		ix.byUID[p.machine.UID] = p
		if len(ix.byUID) == known {
			ix.sameUID[p.machine.UID] = true
		}
		if p.machine.HardwareID != "" {
			ix.hardware[p.machine.HardwareID]++
		}
	}
	rest := ix.machines[first:]
	if !slices.IsSortedFunc(rest, byClusterAndNode) {
		slices.SortFunc(rest, byClusterAndNode)
	}
	for len(rest) > 0 {
		ref := clusterRef{cell.Name, rest[0].machine.Cluster}
		n := 1
		for n < len(rest) && rest[n].machine.Cluster == ref.cluster {
			n++
		}
		ix.cluster(ref).places = rest[:n:n]
		rest = rest[n:]
	}
}

func byClusterAndNode(a, b place) int {
	return cmp.Or(cmp.Compare(a.machine.Cluster, b.machine.Cluster), cmp.Compare(a.machine.Node, b.machine.Node),
		cmp.Compare(a.machine.Namespace, b.machine.Namespace), cmp.Compare(a.machine.Name, b.machine.Name),
		cmp.Compare(a.machine.UID, b.machine.UID))
}

// cluster finds a cluster, and makes one that is not known yet.
func (ix *index) cluster(ref clusterRef) *cluster {
	c := ix.clusters[ref]
	if c == nil {
		c = &cluster{clusterRef: ref}
		ix.clusters[ref] = c
	}
	return c
}

// addLive adds what was read of clusters. Of a cluster that is there twice
// nobody knows which is true.
func (ix *index) addLive() {
	for i := range ix.snapshot.Clusters {
		read := &ix.snapshot.Clusters[i]
		c := ix.cluster(clusterRef{read.Cell, read.Cluster})
		if c.read != nil {
			c.read, c.leases, c.nodes = &LiveCluster{Cell: read.Cell, Cluster: read.Cluster, Err: "there are two answers of it"}, nil, nil
			continue
		}
		c.read, c.leases, c.nodes = read, inOrder(read.Leases, nodeOfLease), inOrder(read.Nodes, nodeOfNode)
	}
}

func nodeOfLease(l *Lease) string   { return l.Node }
func nodeOfNode(n *LiveNode) string { return n.Name }

func inOrder[T any](all []T, name func(*T) string) []*T {
	out := make([]*T, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	byName := func(a, b *T) int { return cmp.Compare(name(a), name(b)) }
	if !slices.IsSortedFunc(out, byName) {
		slices.SortFunc(out, byName)
	}
	return out
}

// find is nil unless exactly one bears the name.
func find[T any](all []*T, node string, name func(*T) string) *T {
	i, found := slices.BinarySearchFunc(all, node, func(x *T, node string) int { return cmp.Compare(name(x), node) })
	if !found || i+1 < len(all) && name(all[i+1]) == node {
		return nil
	}
	return all[i]
}

// on are the machines that claim a node.
func (ix *index) on(ref NodeRef) []place {
	c := ix.clusters[clusterRef{ref.Cell, ref.Cluster}]
	if c == nil || ref.Node == "" {
		return nil
	}
	return c.on(ref.Node)
}

func (c *cluster) on(node string) []place {
	from, _ := slices.BinarySearchFunc(c.places, node, func(p place, node string) int { return cmp.Compare(p.machine.Node, node) })
	to := from
	for to < len(c.places) && c.places[to].machine.Node == node {
		to++
	}
	return c.places[from:to]
}

func (ix *index) liveFact(ref NodeRef) liveFact {
	c := ix.clusters[clusterRef{ref.Cell, ref.Cluster}]
	if c == nil {
		return liveFact{}
	}
	return liveFact{c.read, find(c.nodes, ref.Node, nodeOfNode), find(c.leases, ref.Node, nodeOfLease)}
}
