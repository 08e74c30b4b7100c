package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// podsInterval is how often the watch of pods is put to the test while it
	// passes, and podsFor how long pods are exported after it last passed: one
	// test may fail without harm.
	podsInterval = 30 * time.Second
	podsFor      = 75 * time.Second
	// podsAgain is the interval until it passes.
	podsAgain = time.Second
	// podsPatience is how long the watch may fail before it is told: a first list
	// takes time in a large cluster, and in a cluster that does not answer at all
	// pods are not the news. That pods are forbidden is told at once.
	podsPatience = 30 * time.Second
)

// podWatch is how the watch of a cluster's pods fares. It is apart from that of
// the nodes: an observer that may not list pods still shows nodes.
type podWatch struct {
	mu       sync.Mutex
	failing  time.Time // since when it fails; zero while it does not
	lastGood time.Time // zero while it has not passed
	said     bool      // whether the present trouble has been told
}

// forget begins anew, with another connection.
func (p *podWatch) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing, p.lastGood = time.Time{}, time.Time{}
}

// verdict records how a test went, and says whether to tell of it.
func (p *podWatch) verdict(now time.Time, err error) (tell bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		tell = p.said || p.lastGood.IsZero()
		p.lastGood, p.failing, p.said = now, time.Time{}, false
		return tell
	}
	if p.failing.IsZero() {
		p.failing = now
	}
	if p.said || (!apierrors.IsForbidden(err) && now.Sub(p.failing) < podsPatience) {
		return false
	}
	p.said = true
	return true
}

// known says whether the pods are known to be as the watch has them.
func (p *podWatch) known(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.lastGood.IsZero() && now.Sub(p.lastGood) <= podsFor
}

// followPods tests the watch of pods until ctx ends. While the cluster itself is
// not watched, that is trouble enough.
func (m *member) followPods(ctx context.Context, conn *connection) {
	for {
		pause := podsAgain
		if watching, _ := m.watching(m.now()); watching == conn && m.testPods(ctx, conn) {
			pause = podsInterval
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// testPods puts the watch of pods to the test, and says whether it passes.
func (m *member) testPods(ctx context.Context, conn *connection) bool {
	err := conn.probePods(ctx)
	if ctx.Err() != nil {
		return false
	}
	if errors.Is(err, errHangs) {
		conn.pods.restart()
	}
	switch tell := m.pods.verdict(m.now(), err); {
	case tell && err == nil:
		m.log.Info("pods watched")
	case tell:
		m.log.Warn("pods not watched, trying again until they are; nodes are not concerned. If they are forbidden, apply deploy/business (deploy/cell in the cell itself) anew",
			slog.Any("error", err))
	}
	return err == nil
}

// view is what is known of one cluster.
type view struct {
	up bool
	// nodes and pods are nil when they are not known. They are in order.
	nodes []*nodeOutline
	pods  []*podOutline
}

// view says what is known of the cluster at the given time.
func (m *member) view(now time.Time) view {
	conn, age := m.watching(now)
	if conn == nil {
		return view{}
	}
	v := view{up: age <= m.pace.up, nodes: conn.nodes.all()}
	slices.SortFunc(v.nodes, func(a, b *nodeOutline) int { return cmp.Compare(a.name, b.name) })
	if m.pods.known(now) {
		v.pods = conn.pods.all()
		slices.SortFunc(v.pods, comparePods)
	}
	return v
}

func comparePods(a, b *podOutline) int {
	if a.namespace != b.namespace {
		return cmp.Compare(a.namespace.Value(), b.namespace.Value())
	}
	return cmp.Compare(a.name, b.name)
}

// isUp is the part of the view that costs nothing.
func (m *member) isUp(now time.Time) bool {
	conn, age := m.watching(now)
	return conn != nil && age <= m.pace.up
}

// podsKnown says whether the view has pods.
func (m *member) podsKnown(now time.Time) bool {
	conn, _ := m.watching(now)
	return conn != nil && m.pods.known(now)
}

// watching returns the connection whose watch is known to tell the truth, or
// nil, and how long ago that was found.
func (m *member) watching(now time.Time) (*connection, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := now.Sub(m.lastGood)
	if !m.known || age > m.pace.nodes {
		return nil, age
	}
	return m.conn, age
}

// node finds a node that the cluster is known to have.
func (m *member) node(now time.Time, name string) (*connection, *nodeOutline, bool) {
	conn, _ := m.watching(now)
	if conn == nil {
		return nil, nil, false
	}
	n, ok := conn.nodes.get(name)
	return conn, n, ok
}
