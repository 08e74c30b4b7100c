package signal

import (
	"errors"
	"fmt"
	"time"

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
	// Now unset means time.Now.
	Now func() time.Time
}

// Reader reads the sources of decisions. It keeps clients between rounds, and
// nothing that it has read.
type Reader struct {
	hub       client.Reader
	namespace string
	centrals  []Central
	timeout   time.Duration
	now       func() time.Time

	pause *pause

	cells    *cellClients
	clusters *clusterClients
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
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reader{
		hub: o.Hub, namespace: o.Namespace, centrals: o.Centrals, timeout: o.Timeout, now: o.Now, pause: newPause(),
		cells: newCellClients(o.Timeout, o.Now), clusters: newClusterClients(o.Timeout, o.Now),
	}, nil
}
