package signal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const (
	// currentFor is how old what is kept of a cell may be. In health it is twice
	// watchFor at most.
	currentFor = 20 * time.Second
	// retryMost is how long a cell that fails is left alone at most, give or take half.
	retryMost = time.Minute
	// steady is how long a cell must have been watched for its next failure to be
	// the first again.
	steady = time.Minute
)

// watchClients keeps the connections by which cells are watched. They are apart
// from those that read and write just before a repair, and have no time-out of
// their own, which would end a watch.
type watchClients = kube.Connections[string, client.WithWatch]

func newWatchClients() *watchClients {
	scheme := kube.Scheme()
	return kube.NewConnections[string](0, func(config *rest.Config, web *http.Client) (client.WithWatch, error) {
		return client.NewWithWatch(config, client.Options{HTTPClient: web, Scheme: scheme, Mapper: mapper()})
	})
}

// watcher keeps the inventory of one cell. One goroutine lists and watches, and
// begins anew after a failure, so that no round waits for a cell that is away.
type watcher struct {
	cell    string
	clients *watchClients
	secret  *corev1.Secret
	timeout time.Duration
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	cancel  context.CancelFunc
	done    chan struct{}

	mu       sync.Mutex
	clusters *followed[cluster]
	machines *followed[policy.Machine]
	began    time.Time
	known    time.Time // as of when the cell was known last
	trouble  error     // why it is not, nil while the first attempt goes on
	wrote    string    // the resource version of our own last write of a Machine
}

// watch begins to watch a cell by the kubeconfig in the Secret, until stop.
func (r *Reader) watch(ctx context.Context, cell string, secret *corev1.Secret) *watcher {
	// Without its monotonic part, which stands still while a machine sleeps: what is
	// kept is old when it wakes up.
	now := func() time.Time { return r.now().Round(0) }
	w := &watcher{
		cell: cell, clients: r.watching, secret: secret, timeout: r.timeout, now: now, log: r.log, metrics: r.metrics,
		began: now(), done: make(chan struct{}),
	}
	w.begin()
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w
}

// stop returns when nothing of the watcher is left.
func (w *watcher) stop() {
	w.cancel()
	<-w.done
}

func (w *watcher) run(ctx context.Context) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second),
		backoff.WithMaxInterval(retryMost), backoff.WithMaxElapsedTime(0))
	for {
		began := w.now()
		err := w.once(ctx)
		w.clients.Drop(w.cell)
		if ctx.Err() != nil {
			return
		}
		w.lost(err)
		if w.now().Sub(began) > steady {
			retry.Reset()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry.NextBackOff()):
		}
	}
}

// once watches with a connection of its own until something fails: one that has
// hung may be dead.
func (w *watcher) once(ctx context.Context) error {
	c, err := w.clients.To(w.cell, w.secret)
	if err != nil {
		return unusable(w.secret, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.clusters.run(ctx, c) })
	group.Go(func() error { return w.machines.run(ctx, c) })
	return group.Wait()
}

// begin forgets everything. Our own writes so far are in the list that comes next.
func (w *watcher) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote = ""
	w.clusters = &followed[cluster]{
		resource: "clusters", kind: func() client.ObjectList { return &api.ClusterList{} }, draw: drawCluster,
		compare: func(a, b cluster) int { return compareNames(a.namespace, a.name, b.namespace, b.name) },
		timeout: w.timeout, now: w.now,
	}
	w.machines = &followed[policy.Machine]{
		resource: "machines", kind: func() client.ObjectList { return &api.MachineList{} }, draw: drawMachine,
		compare: func(a, b policy.Machine) int { return compareNames(a.Namespace, a.Name, b.Namespace, b.Name) },
		timeout: w.timeout, now: w.now,
	}
}

// lost makes the cell unknown at once, and keeps nothing of what was known.
func (w *watcher) lost(err error) {
	w.metrics.failed(w.cell)
	w.begin()
	w.mu.Lock()
	first := w.trouble == nil
	w.trouble = err
	w.mu.Unlock()
	if first {
		w.log.Warn("Cell is not known", slog.String("Cell", w.cell), slog.Any("error", err))
	}
}

// noteWrite is told of our own writes: until the watch has shown the last of them
// the cell is not known. Whoever decides on a record that says "requested" must
// not see the Machine as it was before.
func (w *watcher) noteWrite(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if older, err := atLeast(w.wrote, version); err != nil || !older {
		w.wrote = version
	}
}

// inventory is what is known of the cell, or why it is not.
func (w *watcher) inventory() ([]cluster, []policy.Machine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.unknown(); err != nil {
		return nil, nil, fmt.Errorf("since %s: %w", latest(w.began, w.known).UTC().Format(time.RFC3339), err)
	}
	if w.trouble != nil {
		w.log.Info("Cell is known again", slog.String("Cell", w.cell))
		w.trouble = nil
	}
	return w.clusters.all(), w.machines.all(), nil
}

// asOf is the moment that the cell was known to be of when it was known last.
func (w *watcher) asOf() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// unknown must be called with the lock held.
func (w *watcher) unknown() error {
	_, clusters, listed := w.clusters.state()
	position, machines, both := w.machines.state()
	if !listed || !both {
		if w.trouble != nil {
			return w.trouble
		}
		return errNotListed
	}
	if clusters.Before(machines) {
		machines = clusters
	}
	w.known = machines
	if age := w.now().Sub(machines); age < 0 || age > currentFor {
		return errNotCurrent
	}
	if w.wrote == "" {
		return nil
	}
	shown, err := atLeast(position, w.wrote)
	if err == nil && !shown {
		err = errNotShown
	}
	return err
}

var (
	errNotListed  = errors.New("its clusters and machines have not been listed yet")
	errNotCurrent = fmt.Errorf("its watch has not shown for %s that it is current", currentFor)
	errNotShown   = errors.New("its watch has not shown our own last write yet")
)

// settling says whether it is worth to wait: a cell that has failed is not waited for.
func (w *watcher) settling() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.unknown()
	return errors.Is(err, errNotListed) || errors.Is(err, errNotShown)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func compareNames(namespace, name, otherNamespace, otherName string) int {
	return cmp.Or(cmp.Compare(namespace, otherNamespace), cmp.Compare(name, otherName))
}

// cluster is what is kept of a Cluster.
type cluster struct {
	namespace, name            string
	paused, checked, drainable bool
	// upgrade is as Upgrade says it.
	upgrade string
}

func drawCluster(o client.Object) (cluster, bool) {
	c, ok := o.(*api.Cluster)
	if !ok {
		return cluster{}, false
	}
	return cluster{namespace: c.Namespace, name: c.Name, paused: Paused(c), checked: c.Spec.NodeCheckKubeconfigSecret != "", drainable: c.Spec.DrainKubeconfigSecret != "", upgrade: Upgrade(c)}, true
}

func drawMachine(o client.Object) (policy.Machine, bool) {
	m, ok := o.(*api.Machine)
	if !ok {
		return policy.Machine{}, false
	}
	return policy.FromMachine(m), true
}
