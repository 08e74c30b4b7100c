package links_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// wire is the way from one server to another. It can be cut, and mended.
type wire struct {
	target   string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	work  sync.WaitGroup
}

// newWire leads from an address to a target.
func newWire(t testing.TB, address, target string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	w := &wire{target: target, listener: listener, conns: map[net.Conn]bool{}}
	w.work.Go(w.accept)
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		w.sever()
		w.work.Wait()
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		conn, err := w.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		w.work.Go(func() { w.carry(conn) })
	}
}

// carry joins one connection with the target until either end is closed.
func (w *wire) carry(from net.Conn) {
	defer func() { _ = from.Close() }() // the other way may have closed it
	to, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	if !w.hold(from, to) {
		return
	}
	defer w.release(from, to)
	var both sync.WaitGroup
	pass := func(into, out net.Conn) {
		_, _ = io.Copy(into, out) // its end is all that counts
		_, _ = into.Close(), out.Close()
	}
	both.Go(func() { pass(to, from) })
	both.Go(func() { pass(from, to) })
	both.Wait()
}

func (w *wire) hold(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return false
	}
	for _, c := range conns {
		w.conns[c] = true
	}
	return true
}

func (w *wire) release(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		delete(w.conns, c)
	}
}

// sever cuts the wire: what is under way is lost, and nothing new goes through.
func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.conns {
		_ = c.Close() // the other side may have done so
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}
