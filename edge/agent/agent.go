// Package agent is the program beside an edge Prometheus. It watches the
// Clusters and Machines of its cell and the Nodes and Pods of each business
// cluster and of the cell itself, and gives the edge what a stock Prometheus
// cannot find by itself: object state under kube-state-metrics' own names,
// targets by HTTP service discovery, and a way to scrape business API servers
// and the nodes behind them without holding their credentials.
//
// It changes nothing anywhere. What it does not know it does not export: the
// nodes and pods of a cluster that cannot be watched are absent, never stale.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/obs"
)

// Options of an Agent.
type Options struct {
	// Cell is the API server of the cell. Required.
	Cell *rest.Config
	// Listen is the host:port to serve on. Required.
	Listen string
	// Advertise is the host:port at which the edge Prometheus reaches the
	// agent. Empty means Listen, which then must name a host.
	Advertise string
	// Log may be nil, which drops every line.
	Log *slog.Logger
}

// Agent watches and serves. See New.
type Agent struct {
	opts Options
	cell kubernetes.Interface
	// resources are Pharos' own, in the cell.
	resources rest.Interface
	clusters  cache.SharedIndexInformer
	machines  cache.SharedIndexInformer
	meta      *member // of the cell itself
	server    *obs.Server
	durations *prometheus.HistogramVec
	log       *slog.Logger
	now       func() time.Time

	changed chan struct{} // has room for one: a note that Clusters changed
	pace    pace
	// secretInterval is how often an undisturbed member looks at its kubeconfig.
	secretInterval time.Duration
	// loopback says that the agent itself is reached by a loopback address: then
	// the nodes may be on this machine, too, and otherwise none is.
	loopback bool
	// greetings are the turns in which members open their connections.
	greetings *semaphore.Weighted

	mu       sync.Mutex
	members  map[clusterKey]*member
	refused  map[string]bool // namespace/name of Clusters refused for their name
	cellGood time.Time       // when the cell last answered
}

// New validates the options and listens. It asks nothing of the cell yet, so a
// cell that does not answer delays the agent and does not end it.
func New(opts Options) (*Agent, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	cell, err := kubernetes.NewForConfig(opts.Cell)
	if err != nil {
		return nil, fmt.Errorf("building a client of the cell: %w", err)
	}
	resources, err := resourceClient(opts.Cell)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		opts: opts, cell: cell, resources: resources, log: opts.Log, now: time.Now,
		changed: make(chan struct{}, 1), greetings: semaphore.NewWeighted(maxGreetings), secretInterval: secretInterval,
		pace:    pace{probe: probeInterval, up: upFor, nodes: nodesFor},
		members: map[clusterKey]*member{}, refused: map[string]bool{},
	}
	if a.clusters, err = newInformer(resources, "clusters", &v1alpha1.Cluster{}, trimCluster, a.onCellError); err != nil {
		return nil, err
	}
	if a.machines, err = newInformer(resources, "machines", &v1alpha1.Machine{}, trimMachine, a.onCellError); err != nil {
		return nil, err
	}
	if err := a.machines.AddIndexers(indexMachines()); err != nil {
		return nil, fmt.Errorf("preparing the watch of machines: %w", err)
	}
	a.loopback = isLoopback(opts.Advertise)
	a.meta = a.newMember(memberOptions{
		key: memberKey{clusterKey: clusterKey{name: metaCluster}}, credential: ownAccount(opts.Cell),
		log: a.log.With(slog.String("Cluster", metaCluster)),
	})
	return a, a.listen()
}

func (o *Options) complete() error {
	if o.Cell == nil {
		return errors.New("the API server of the cell is needed")
	}
	if o.Advertise == "" {
		o.Advertise = o.Listen
	}
	host, _, err := net.SplitHostPort(o.Advertise)
	if err != nil {
		return fmt.Errorf("reading the address to advertise: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("no host to advertise in %q; name one in the listen or in the advertise address", o.Advertise)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// isLoopback says whether an address that complete has accepted is this machine's own.
func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func (a *Agent) listen() error {
	registry := obs.NewRegistry()
	a.durations = newDurations()
	registry.MustRegister(collector{a}, a.durations)
	server, err := obs.NewServer(obs.ServerOptions{
		Address: a.opts.Listen, Registry: registry, Ready: a.ready, Handler: a.handler(), Log: a.log,
	})
	a.server = server
	return err
}

// ready says why the agent cannot speak for its cell yet.
func (a *Agent) ready() error {
	if !a.clusters.HasSynced() || !a.machines.HasSynced() {
		return errors.New("the Clusters and Machines of the cell are not listed yet")
	}
	return nil
}

// Run watches and serves until ctx ends, and returns once all it started has ended.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := a.clusters.AddEventHandler(a.notes()); err != nil {
		return fmt.Errorf("watching Clusters: %w", err)
	}
	a.meta.start(ctx)
	defer a.meta.stop()
	var owned sync.WaitGroup
	owned.Go(func() { a.clusters.RunWithContext(ctx) })
	owned.Go(func() { a.machines.RunWithContext(ctx) })
	owned.Go(func() { a.follow(ctx) })
	owned.Go(func() { a.followCell(ctx) })
	err := a.server.Run(ctx)
	cancel()
	owned.Wait()
	return err
}

func (a *Agent) onCellError(_ context.Context, _ *cache.Reflector, err error) {
	a.log.Warn("cell not watched, trying again", slog.Any("error", err))
}

// notes leaves a note on every change of a Cluster; follow looks at the whole.
func (a *Agent) notes() cache.ResourceEventHandler {
	note := func() {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { note() },
		UpdateFunc: func(any, any) { note() },
		DeleteFunc: func(any) { note() },
	}
}
