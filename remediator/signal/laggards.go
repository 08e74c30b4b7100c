package signal

import (
	"slices"
	"sync"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// laggards are the clusters that gave no answer when they were last asked. They are asked
// after all others: as many as are read at once, and hang, would else keep the rest of the
// fleet from being read at all. What a round had no time to ask keeps its place.
type laggards struct {
	mu  sync.Mutex
	all map[clusterName]bool
}

type clusterName struct{ cell, cluster string }

// last is the order in which to ask.
func (l *laggards) last(wanted []want) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	order := make([]int, len(wanted))
	for i := range order {
		order[i] = i
	}
	late := func(i int) int {
		if l.all[clusterName{wanted[i].cell, wanted[i].cluster}] {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int { return late(a) - late(b) })
	return order
}

// note remembers who answered of those that were asked. Clusters that nobody wants any more
// are forgotten.
func (l *laggards) note(answers []policy.LiveCluster, asked []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.all
	l.all = map[clusterName]bool{}
	for i, a := range answers {
		name := clusterName{a.Cell, a.Cluster}
		if asked[i] && a.Err != "" || !asked[i] && before[name] {
			l.all[name] = true
		}
	}
}
