package signal

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefaultTimeout bounds each source in each round, unless Options say otherwise.
const DefaultTimeout = 5 * time.Second

// Options are what a Reader reads.
type Options struct {
	// Hub reads Cells and Secrets, uncached.
	Hub client.Reader
	// Namespace in the hub of the cells' kubeconfig Secrets.
	Namespace string
	// Centrals are asked all; at least two, of different names.
	Centrals []Central
	// Timeout bounds each source in each round. Unset means DefaultTimeout.
	Timeout time.Duration
	// Registry has the metrics of cells. Unset means that there are none.
	Registry prometheus.Registerer
	// Log unset drops everything.
	Log *slog.Logger
	// Now unset means time.Now.
	Now func() time.Time
}

// Reader reads the sources of decisions. Between rounds it keeps clients, and the
// inventory of each cell for as long as it is known to be current. Whoever has
// called Cells calls Close in the end.
type Reader struct {
	hub       client.Reader
	namespace string
	centrals  []Central
	timeout   time.Duration
	now       func() time.Time
	log       *slog.Logger
	metrics   *metrics

	cells    *cellClients
	clusters *clusterClients
	watching *watchClients
	watchers watchers
	unready  unreadiness
	laggards laggards
}

// New checks the options.
func New(o Options) (*Reader, error) {
	names := map[string]bool{}
	for _, c := range o.Centrals {
		if c.Name == "" || c.Client == nil || names[c.Name] {
			return nil, errors.New("setting up the signal reader: every central needs a client and a name of its own")
		}
		names[c.Name] = true
	}
	if len(names) < 2 {
		return nil, fmt.Errorf("setting up the signal reader: %d centrals given, repairs need the agreement of two", len(names))
	}
	if o.Hub == nil || o.Namespace == "" {
		return nil, errors.New("setting up the signal reader: the hub's client and namespace are needed")
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reader{
		hub: o.Hub, namespace: o.Namespace, centrals: o.Centrals, timeout: o.Timeout, now: o.Now, log: o.Log, metrics: newMetrics(o.Registry),
		cells: newCellClients(o.Timeout, o.Now), clusters: newClusterClients(o.Timeout, o.Now),
		watching: newWatchClients(), watchers: watchers{all: map[string]*watcher{}},
	}, nil
}
