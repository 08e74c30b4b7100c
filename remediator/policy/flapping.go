package policy

import (
	"fmt"
	"time"
)

// UnreadyWindow is what NodeSample.Unready is counted in.
const UnreadyWindow = 30 * time.Minute

// defaultFlappingPercent is the share of UnreadyWindow from which on a node flaps.
const defaultFlappingPercent = 30

// unready is for how long of UnreadyWindow every central and the node's own API server
// have shown it not to be ready, by the one that shows the least.
func (s subject) unready() time.Duration {
	if len(s.facts) < quorum || s.live.node == nil {
		return 0
	}
	least := min(UnreadyWindow, s.live.node.Unready.Duration)
	for _, f := range s.facts {
		if f.sample == nil {
			return 0
		}
		least = min(least, f.sample.Unready.Duration)
	}
	return least
}

// flaps says whether the node, which is not ready, has been so for long enough in sum,
// though not at a time.
func (s subject) flaps() bool {
	return s.unready() >= max(s.settings.flapping, s.settings.unhealthy)
}

// flapping says so of one that is repaired for it.
func (s subject) flapping(now time.Time) bool {
	return now.Sub(s.live.node.Since) < s.settings.unhealthy && s.flaps()
}

// rests is how far back the evidence for a repair reaches. Nothing that explains it may lie
// in that time.
func (s subject) rests(now time.Time) time.Duration {
	if s.flapping(now) {
		return UnreadyWindow
	}
	return s.settings.unhealthy
}

// often says in words for how long the node was not ready; empty if nobody has counted.
func (s subject) often() string {
	if s.unready() == 0 {
		return ""
	}
	return fmt.Sprintf("; of the last %s it was not ready for %s", UnreadyWindow, s.unready().Round(time.Second))
}
