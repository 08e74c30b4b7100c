package obs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const shutdownGrace = 5 * time.Second

// NewRegistry returns a registry with the metrics of the Go runtime and the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// ServerOptions describe the HTTP server of a program.
type ServerOptions struct {
	// Address to listen on, host:port. Required.
	Address string
	// Registry is served at /metrics. Required.
	Registry *prometheus.Registry
	// Ready says why the program is not ready, or nil. Nil means always ready.
	Ready func() error
	// Handler serves every other path. Nil means 404.
	Handler http.Handler
	// Log receives errors of the server. Nil drops them.
	Log *slog.Logger
}

// Server serves /metrics, /healthz and /readyz, and what else a program has.
type Server struct {
	server   *http.Server
	listener net.Listener
}

// NewServer listens on the address at once, so that a taken port is an error
// here and not in a goroutine.
func NewServer(o ServerOptions) (*Server, error) {
	if o.Registry == nil {
		return nil, errors.New("serving metrics: no registry given")
	}
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", o.Address, err)
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		listener: l,
		server: &http.Server{
			Handler:           routes(o),
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}, nil
}

// Addr is the address that the server listens on, with the real port.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx is done, then lets requests in flight end.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", s.listener.Addr(), err)
	case <-ctx.Done():
	}
	// The context is over: the grace needs one of its own.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := s.server.Shutdown(grace)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

func routes(o ServerOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if o.Ready != nil {
			if err := o.Ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	if o.Handler != nil {
		mux.Handle("/", o.Handler)
	}
	return mux
}
