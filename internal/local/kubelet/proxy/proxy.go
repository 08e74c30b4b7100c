package proxy

import (
	"errors"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	resultForwarded = "forwarded"
	resultNoBackend = "no_backend"
)

// Proxy listens on a set of addresses and forwards each to its backends.
type Proxy struct {
	log         *slog.Logger
	connections *prometheus.CounterVec

	mu        sync.Mutex
	listeners map[string]*listener
	refused   map[string]bool
}

// New returns a Proxy that listens on nothing. Its metrics go to the registerer.
func New(log *slog.Logger, reg prometheus.Registerer) (*Proxy, error) {
	p := &Proxy{
		log:       log,
		listeners: map[string]*listener{},
		refused:   map[string]bool{},
		connections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_kubelet_proxy_connections_total",
			Help: "Connections to addresses of Services, by whether a ready pod was there to take them.",
		}, []string{"result"}),
	}
	if err := reg.Register(p.connections); err != nil {
		return nil, err
	}
	for _, result := range []string{resultForwarded, resultNoBackend} {
		p.connections.WithLabelValues(result)
	}
	return p, nil
}

// Sync makes the proxy listen on exactly the given addresses, each with its backends, all as host:port. An address that
// cannot be listened on is logged once and tried again with the next Sync.
func (p *Proxy) Sync(want map[string][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, l := range p.listeners {
		if _, ok := want[address]; !ok {
			l.close()
			delete(p.listeners, address)
		}
	}
	for address := range p.refused {
		if _, ok := want[address]; !ok {
			delete(p.refused, address)
		}
	}
	for address, backends := range want {
		if l := p.ensure(address); l != nil {
			l.backends.Store(&backends)
		}
	}
}

// Close stops listening and cuts all connections.
func (p *Proxy) Close() { p.Sync(nil) }

func (p *Proxy) ensure(address string) *listener {
	if l, ok := p.listeners[address]; ok {
		return l
	}
	l, err := listen(address, p.log, func(result string) { p.connections.WithLabelValues(result).Inc() })
	if err != nil {
		p.refuse(address, err)
		return nil
	}
	delete(p.refused, address)
	p.listeners[address] = l
	return l
}

func (p *Proxy) refuse(address string, err error) {
	if p.refused[address] {
		return
	}
	p.refused[address] = true
	if errors.Is(err, fs.ErrPermission) {
		p.log.Info("Service port is not served, because this user may not listen on it", slog.String("address", address))
		return
	}
	p.log.Warn("Listening for a Service failed", slog.String("address", address), slog.Any("error", err))
}
