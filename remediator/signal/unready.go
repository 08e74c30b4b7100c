package signal

import (
	"maps"
	"sync"
	"time"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

const (
	// minutes are how many of policy.UnreadyWindow are counted apart.
	minutes = int64(policy.UnreadyWindow / time.Minute)
	// longestLook is the most that counts between two looks at a node: what was in
	// between, when nobody looked for longer, is not known.
	longestLook = 15 * time.Second
)

// unreadiness remembers for how long live Nodes were not ready of late: what the centrals
// count rests on one edge, which may be wrong. It knows what this process has seen, and
// no more. Its size follows the number of nodes that were suspects in the last half hour.
type unreadiness struct {
	mu    sync.Mutex
	nodes map[policy.NodeRef]*looks
}

// looks are those at one node.
type looks struct {
	last    time.Time
	unready bool
	// seconds are by the minute of their time.
	seconds [minutes]float64
	minute  int64
}

// saw remembers a look, and says for how long of the window the node was not ready.
func (u *unreadiness) saw(ref policy.NodeRef, ready bool, at time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.nodes == nil {
		u.nodes = map[policy.NodeRef]*looks{}
	}
	l := u.nodes[ref]
	if l == nil {
		l = &looks{minute: at.Unix() / 60}
		u.nodes[ref] = l
	}
	return l.look(ready, at)
}

func (l *looks) look(ready bool, at time.Time) time.Duration {
	minute := at.Unix() / 60
	if minute < l.minute {
		*l = looks{minute: minute} // the clock went back, and nothing can be told of before
	}
	for l.minute < minute {
		if minute-l.minute > minutes {
			l.minute = minute - minutes
		}
		l.minute++
		l.seconds[l.minute%minutes] = 0
	}
	if since := at.Sub(l.last); l.unready && since > 0 && since <= longestLook {
		l.seconds[minute%minutes] += since.Seconds()
	}
	l.last, l.unready = at, !ready
	sum := 0.0
	for _, s := range l.seconds {
		sum += s
	}
	return time.Duration(sum * float64(time.Second)).Round(time.Second)
}

// forget drops the nodes that nobody has looked at in the window.
func (u *unreadiness) forget(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.nodes, func(_ policy.NodeRef, l *looks) bool { return now.Sub(l.last) > policy.UnreadyWindow })
}
