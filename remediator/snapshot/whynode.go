package snapshot

import (
	"maps"
	"slices"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// unborne tells of a node that some central lists and no machine bears; false means that
// there is none.
func (s Snapshot) unborne(w *words, of Subject) bool {
	listed := map[string]bool{}
	for _, c := range s.Centrals {
		for _, n := range c.Unhealthy {
			if n.Cluster == of.cluster && n.Node == of.name && (of.cell == "" || n.Cell == of.cell) {
				listed[n.Cell] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		w.say("%s: as at %s, no machine of cell %s is known to bear node %s of cluster %s. Nothing is decided of it.", of.name, s.at(), name, of.name, of.cluster)
		w.say("")
		s.evidence(w, s.cell(name), policy.Machine{Cluster: of.cluster, Node: of.name})
	}
	return len(listed) > 0
}

// cell has nothing but its name if its inventory was not asked for.
func (s Snapshot) cell(name string) policy.Cell {
	for _, c := range s.Cells {
		if c.Name == name {
			return c
		}
	}
	return policy.Cell{Name: name}
}
