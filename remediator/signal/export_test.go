package signal

import (
	"maps"
	"slices"
)

// Kept lists the cells and clusters that a client is kept for.
func (r *Reader) Kept() (cells, clusters []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.clusters {
		clusters = append(clusters, key.name)
	}
	slices.Sort(clusters)
	return slices.Sorted(maps.Keys(r.cells)), clusters
}
