// Package proxy forwards TCP connections from Services' addresses to the pods behind them. It knows ports and backends,
// and nothing of where they come from.
package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds the attempt to reach one backend.
const dialTimeout = 2 * time.Second

// listener forwards the connections of one address and port.
type listener struct {
	net.Listener
	log      *slog.Logger
	counted  func(result string)
	backends atomic.Pointer[[]string]
	next     atomic.Uint64
	wg       sync.WaitGroup
	cancel   context.CancelFunc
}

func listen(address string, log *slog.Logger, counted func(string)) (*listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &listener{Listener: l, log: log, counted: counted, cancel: cancel}
	f.backends.Store(&[]string{})
	f.wg.Go(func() { f.serve(ctx) })
	return f, nil
}

// close stops listening, cuts the connections and waits.
func (l *listener) close() {
	l.cancel()
	_ = l.Close()
	l.wg.Wait()
}

func (l *listener) serve(ctx context.Context) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of file descriptors, most likely: connections come and go, so try again
			l.log.Warn("Accepting a connection failed", slog.String("address", l.Addr().String()), slog.Any("error", err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		default:
			l.wg.Go(func() { l.forward(ctx, conn) })
		}
	}
}

func (l *listener) forward(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	backend := l.dial(ctx)
	if backend == nil {
		l.counted(resultNoBackend)
		reset(client)
		return
	}
	defer func() { _ = backend.Close() }()
	l.counted(resultForwarded)
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = backend.Close()
	})
	defer stop()
	join(client, backend)
}

// dial connects to the next ready backend, round robin, and goes on to the others when it does not answer.
func (l *listener) dial(ctx context.Context) net.Conn {
	backends := *l.backends.Load()
	first := l.next.Add(1)
	dialer := net.Dialer{Timeout: dialTimeout}
	for i := range uint64(len(backends)) {
		address := backends[(first+i)%uint64(len(backends))]
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn
		}
		l.log.Debug("Backend does not answer", slog.String("address", address), slog.Any("error", err))
	}
	return nil
}

// reset makes the client see a refused connection and not an empty answer.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// join copies both ways until both directions have ended.
func join(a, b net.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() { pipe(a, b) })
	wg.Go(func() { pipe(b, a) })
	wg.Wait()
}

// pipe copies one direction, and passes on its end.
func pipe(dst, src net.Conn) {
	_, err := io.Copy(dst, src)
	if tcp, ok := dst.(*net.TCPConn); ok && err == nil {
		_ = tcp.CloseWrite()
		return
	}
	_ = dst.Close()
	_ = src.Close()
}
