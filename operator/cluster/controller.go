// Package cluster says in a Cluster's status how its hosted API server is: as
// the API server itself says, asked from the cell with the observer's
// kubeconfig. It changes nothing in a business cluster, and its nodes are not
// its matter: the edge agent watches them.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

const (
	// lookTimeout bounds what is asked of a business cluster in one look, the
	// calls together. An API server that takes longer to say that it is ready is
	// not.
	lookTimeout = 5 * time.Second
	// callTimeout bounds each call to the cell's own API server.
	callTimeout = 5 * time.Second
	// An event tells of a change of a Cluster, and nothing of one of its API
	// server or of its Secret: the node operator may get Secrets, not watch them.
	// So both are looked at again, sooner while something is wrong.
	paceReady  = 30 * time.Second
	paceWrong  = 10 * time.Second
	paceJitter = 0.2
	retryMin   = time.Second
	retryMax   = 30 * time.Second
	// workers bounds how many Clusters are looked at at once. One whose API
	// server hangs holds a worker for lookTimeout out of every paceWrong and that:
	// more than three hundred of them leave workers for the rest.
	workers = 128
)

// Options of a Reconciler. All are required but Timeout and Clock.
type Options struct {
	// Client writes the status.
	Client client.Client
	// Live reads Clusters and their Secrets from the API server itself.
	Live client.Reader
	// Recorder keeps the events of changes.
	Recorder events.EventRecorder
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// Log takes one line for each change.
	Log *slog.Logger
	// Timeout of a look at a business cluster. Unset means five seconds.
	Timeout time.Duration
	// Clock unset means the real one.
	Clock clock.PassiveClock
}

// Reconciler keeps the status of Clusters.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	metrics  *metrics
	log      *slog.Logger
	timeout  time.Duration
	clock    clock.PassiveClock
	servers  *kube.Connections[client.ObjectKey, *server]
}

// New validates the options.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Live == nil || o.Recorder == nil || o.Registry == nil || o.Log == nil {
		return nil, errors.New("cluster controller: Client, Live, Recorder, Registry and Log are required")
	}
	if o.Timeout <= 0 {
		o.Timeout = lookTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{
		client: o.Client, live: o.Live, recorder: o.Recorder, metrics: newMetrics(o.Registry), log: o.Log,
		timeout: o.Timeout, clock: o.Clock,
		servers: kube.NewConnections[client.ObjectKey](o.Timeout, newServer),
	}, nil
}

func newServer(config *rest.Config, web *http.Client) (*server, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address in the kubeconfig: %w", err)
	}
	// Whether a path is added is for the kubeconfig to say, a name and password never.
	return &server{base: &url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path}, http: web}, nil
}

// SetupWithManager lets the manager call the Reconciler for every change of a
// Cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("cluster").
		// Our own reports must not wake us.
		For(&v1alpha1.Cluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryMin, retryMax),
			// Names are checked in the whole process, managers of tests included.
			SkipNameValidation: ptr.To(true),
		}).
		Complete(r)
}

// Reconcile looks at one Cluster and says in its status what it saw.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// Read live: a status older than our own last report would be told again.
	c, err := r.read(ctx, req.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.servers.Drop(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading Cluster %s: %w", req.NamespacedName, err)
	}
	seen := r.look(ctx, c)
	if ctx.Err() != nil {
		// The program ends: what it could not see is not the Cluster's fault.
		return ctrl.Result{}, fmt.Errorf("looking at Cluster %s: %w", req.NamespacedName, ctx.Err())
	}
	v := decide(c, seen, r.clock.Now())
	r.metrics.looks.WithLabelValues(v.reason).Inc()
	switch err := r.report(ctx, c, v); {
	case apierrors.IsConflict(err):
		// The Cluster changed meanwhile: what was seen is about what it was.
		return ctrl.Result{RequeueAfter: retryMin}, nil
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(v.next, paceJitter)}, nil
}

func (r *Reconciler) read(ctx context.Context, key client.ObjectKey) (*v1alpha1.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := &v1alpha1.Cluster{}
	return c, r.live.Get(ctx, key, c)
}

// report writes the status if it differs from what was told before, and tells
// of each change of a condition.
func (r *Reconciler) report(ctx context.Context, c *v1alpha1.Cluster, v verdict) error {
	if equality.Semantic.DeepEqual(c.Status, v.status) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	before := c.DeepCopy()
	c.Status = v.status
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, c, patch); err != nil {
		return fmt.Errorf("reporting on Cluster %s: %w", client.ObjectKeyFromObject(c), err)
	}
	for _, change := range changes(before.Status.Conditions, v.status.Conditions) {
		tell(r.recorder, c, change)
		r.log.InfoContext(ctx, "status reported",
			slog.String("Cluster", client.ObjectKeyFromObject(c).String()),
			slog.String("condition", change.Type),
			slog.String("status", string(change.Status)),
			slog.String("reason", change.Reason),
			slog.String("message", change.Message))
	}
	return nil
}
