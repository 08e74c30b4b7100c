// Package controller closes the loop: it reads the fleet, has the decision made,
// writes down what is to be done, looks once more, does it and follows it to its
// end. Only the leader does so, one round after another: it is the one spender
// of every budget.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/obs"
	"github.com/pharos-fleet/pharos/remediator/hint"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/recording"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// Defaults of Options.
const (
	DefaultInterval  = 5 * time.Second
	DefaultNamespace = "pharos-system"
	// Three months of records are some 40 MB in the hub.
	DefaultRetainDays    = 90
	DefaultRetainRecords = 10_000
)

// Options are what a remediator needs.
type Options struct {
	// Hub is where the policies and records are. Required.
	Hub *rest.Config
	// Namespace in the hub of the leader's Lease and the cells' kubeconfig
	// Secrets. Unset means DefaultNamespace.
	Namespace string
	// Centrals are the URLs of the central Prometheus servers by name. At least two.
	Centrals map[string]string
	// Interval between rounds. Unset means DefaultInterval.
	Interval time.Duration
	// Identity of this process among those that may lead, which no other may
	// have. Unset means the host's name with a random part.
	Identity string
	// Record is where the snapshots of decisions are kept, and how many. Without a Dir
	// none are; its Registry and Log are the remediator's own.
	Record recording.Options
	// Hints have a round come sooner. Their Registry and Log are the remediator's own.
	Hints hint.Options
	// Retain bounds how many records of repairs that are over the hub keeps. Unset
	// means the defaults.
	Retain policy.Retention
	// Listen is the host:port of metrics and health. Required.
	Listen string
	// Log unset drops everything.
	Log *slog.Logger
	// Now unset means time.Now.
	Now func() time.Time
}

// Controller is the remediator's loop.
type Controller struct {
	options  Options
	hub      client.Client
	clients  kubernetes.Interface
	reader   *signal.Reader
	ledger   *ledger.Ledger
	recorder record.EventRecorder
	events   record.EventBroadcaster
	server   *obs.Server
	hints    *hint.Hints
	metrics  *metrics
	effect   *effect
	log      *slog.Logger
	now      func() time.Time
	// recording is nil where snapshots are not kept.
	recording *recording.Recorder

	// reported is when each policy's status was written last.
	reported map[string]time.Time
	// counted is when the status of each budget and each incident was written last.
	counted map[string]time.Time
	// reworded is when each open record was written last.
	reworded map[string]time.Time
	// checksDone is when to look again for pods of a repair that has ended.
	checksDone map[string]time.Time
	// toldLate are the answers of people of which was told that they do nothing.
	toldLate map[policy.LateAnswer]bool
	// access is what was found when checks were last tried.
	access []policy.CheckAccess
	// clock is as it was in the last round, and passed the time since some moment.
	clock  clock
	passed func() time.Duration
	// refused are the machines whose repairs could not be written down.
	refused refusals
	// audit is nil where what is taken away is not kept, and unretired is why the last
	// could not be.
	audit     *ledger.Audit
	unretired error

	mu     sync.Mutex
	health health
}

// New checks the options and listens; nothing else is reached out to.
func New(o Options) (*Controller, error) {
	o, err := complete(o)
	if err != nil {
		return nil, fmt.Errorf("setting up the remediator: %w", err)
	}
	config := rest.CopyConfig(o.Hub)
	config.Timeout = 2 * hubTimeout // what no context bounds, such as discovery
	hub, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("making the hub's client: %w", err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the hub's client: %w", err)
	}
	centrals, err := connect(o.Centrals, o.Now)
	if err != nil {
		return nil, err
	}
	registry, began := obs.NewRegistry(), time.Now()
	reader, err := signal.New(signal.Options{Hub: hub, Namespace: o.Namespace, Centrals: centrals, Registry: registry, Log: o.Log, Now: o.Now})
	if err != nil {
		return nil, err
	}
	c := &Controller{
		options: o, hub: hub, clients: clients, reader: reader, ledger: ledger.New(hub, o.Namespace),
		metrics: newMetrics(registry, centrals), log: o.Log, now: o.Now, reported: map[string]time.Time{}, counted: map[string]time.Time{}, reworded: map[string]time.Time{},
		checksDone: map[string]time.Time{}, effect: newEffect(registry, o.Now()), refused: refusals{},
		passed: func() time.Duration { return time.Since(began) },
	}
	if o.Record.Dir != "" {
		o.Record.Registry, o.Record.Log = registry, o.Log
		if c.recording, err = recording.New(o.Record); err != nil {
			return nil, err
		}
		c.audit = ledger.NewAudit(o.Record.Dir)
	}
	o.Hints.Registry, o.Hints.Log = registry, o.Log
	if c.hints, err = hint.New(o.Hints); err != nil {
		return nil, err
	}
	c.server, err = obs.NewServer(obs.ServerOptions{Address: o.Listen, Registry: registry, Ready: c.Ready, Handler: c.hints.Handler(), Log: o.Log})
	if err != nil {
		return nil, err
	}
	c.events, c.recorder = newRecorder(o.Identity)
	return c, nil
}

func complete(o Options) (Options, error) {
	if o.Hub == nil || o.Listen == "" {
		return o, errors.New("the hub and an address to listen on are needed")
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("finding the host's name: %w", err)
		}
		o.Identity = host + "_" + string(uuid.NewUUID())
	}
	if o.Interval < 0 {
		return o, fmt.Errorf("interval %s is negative", o.Interval)
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Retain = cmp.Or(o.Retain, policy.Retention{Age: DefaultRetainDays * 24 * time.Hour, Records: DefaultRetainRecords})
	return o, o.Retain.Validate()
}

// Addr is where metrics and health are served.
func (c *Controller) Addr() net.Addr { return c.server.Addr() }

// Run serves metrics and health and leads when it is its turn, until the context
// ends or leadership is lost.
func (c *Controller) Run(ctx context.Context) error {
	c.startEvents()
	defer c.events.Shutdown()
	defer c.reader.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.server.Run(ctx) })
	group.Go(func() error { return c.lead(ctx) })
	if c.recording != nil {
		group.Go(func() error { c.recording.Run(ctx); return nil })
	}
	return group.Wait()
}

// loop runs one round after another, at an interval or when a hint comes. A round
// that failed is tried again after the same interval; what it could not do is
// decided anew.
func (c *Controller) loop(ctx context.Context) {
	for ctx.Err() == nil {
		start := c.now()
		next, err := c.round(ctx)
		if ctx.Err() != nil {
			return
		}
		c.finished(start, err)
		if h, early := c.hints.Wait(ctx, c.pause(next)); early {
			c.hinted(h)
		}
	}
}

// pause is the interval, or less if a decision is due before.
func (c *Controller) pause(next time.Time) time.Duration {
	pause := c.options.Interval
	if !next.IsZero() {
		pause = max(min(pause, next.Sub(c.now())), 100*time.Millisecond)
	}
	return pause
}
