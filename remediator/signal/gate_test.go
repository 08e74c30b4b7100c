package signal_test

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// gate stands before an API server as the network does, and lets through what the
// test wants.
type gate struct {
	t      *testing.T
	target string

	mu       sync.Mutex
	free     *sync.Cond
	listener net.Listener
	address  string
	stalled  bool
	conns    map[net.Conn]bool // whether it is frozen
	done     sync.WaitGroup
}

func newGate(t *testing.T, target string) *gate {
	g := &gate{t: t, target: target, address: "127.0.0.1:0", conns: map[net.Conn]bool{}}
	g.free = sync.NewCond(&g.mu)
	g.open()
	t.Cleanup(g.close)
	return g
}

// open listens, on the same address each time.
func (g *gate) open() {
	l, err := net.Listen("tcp", g.address)
	require.NoError(g.t, err)
	g.mu.Lock()
	g.listener, g.address = l, l.Addr().String()
	g.mu.Unlock()
	g.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.done.Go(func() { g.serve(c) })
		}
	})
}

// refuse ends every connection and takes no other.
func (g *gate) refuse() {
	_ = g.listener.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Close()
	}
}

func (g *gate) close() {
	g.stall(false)
	g.refuse()
	g.done.Wait()
}

// stall holds back everything that is sent either way, and tells nobody, until it
// is called with false.
func (g *gate) stall(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stalled = yes
	if !yes {
		for c := range g.conns {
			g.conns[c] = false
		}
	}
	g.free.Broadcast()
}

// freeze holds back what is sent on the connections that there are, and on no other.
func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		g.conns[c] = true
	}
}

func (g *gate) serve(from net.Conn) {
	to, err := net.Dial("tcp", g.target)
	if err != nil {
		_ = from.Close()
		return
	}
	g.mu.Lock()
	g.conns[from], g.conns[to] = false, false
	g.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { g.pass(from, to) })
	both.Go(func() { g.pass(to, from) })
	both.Wait()
	g.mu.Lock()
	delete(g.conns, from)
	delete(g.conns, to)
	g.mu.Unlock()
}

func (g *gate) pass(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		g.mu.Lock()
		for g.stalled || g.conns[from] {
			g.free.Wait()
		}
		g.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// connections is how many there are, on both sides together.
func (g *gate) connections() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}
