// Package cell runs in each meta cluster what its Cell describes: the edge
// Prometheus, the edge agent and the node operator. It reaches the cell through
// the kubeconfig that the Cell names. What runs in the hub is package
// federation's.
package cell

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/ownrules"
	"github.com/pharos-fleet/pharos/operator/workload"
)

const (
	// Finalizer keeps a Cell until its parts in the cell are gone.
	Finalizer = "pharos.dev/cell-parts"
	// AnnotationAbandon lets a Cell that is being deleted, with the value "true",
	// go without its parts being taken away: its cluster is lost.
	AnnotationAbandon = "pharos.dev/abandon"

	// reconcileTimeout bounds one reconciliation, all its calls included.
	reconcileTimeout = time.Minute
	// Nothing in the hub tells of a change in a cell, so that it is looked at
	// again: soon while parts start, seldom once they run.
	pollStarting = 2 * time.Second
	pollRunning  = 15 * time.Second
	pollJitter   = 0.2
	retryMin     = time.Second
	retryMax     = 2 * time.Minute
	// workers bounds how many cells are worked on at once. A cell that does not
	// answer holds one for a single call's deadline.
	workers = 64
)

// Reconciler keeps each cell as its Cell says.
type Reconciler struct {
	workload.Options
	reporter *workload.Reporter
	cells    *connections
	rules    *ownrules.Keeper
}

// New validates the options.
func New(o workload.Options) (*Reconciler, error) {
	if err := o.Validate("cell"); err != nil {
		return nil, err
	}
	return &Reconciler{o, workload.NewReporter(o, "Cell", v1alpha1.ReasonUnreachable), newConnections(o.Live, o.Namespace), ownrules.NewKeeper(o.Live, o.Namespace)}, nil
}

// SetupWithManager lets the manager call the Reconciler for every change of a
// Cell, and for those that a change of a Federation concerns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("cell").
		// Our own reports must not wake us: that would undo the backoff.
		For(&v1alpha1.Cell{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.Federation{}, r.concerned()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryMin, retryMax),
			SkipNameValidation:      ptr.To(true),
		}).
		Complete(r)
}

// Reconcile brings one cell and its Cell's status up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	// Read live: a status older than our own last report would be told again.
	c := &v1alpha1.Cell{}
	if err := r.Live.Get(ctx, req.NamespacedName, c); err != nil {
		return ctrl.Result{}, r.reporter.Gone(req.Name, err)
	}
	if !c.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.leave(ctx, c)
	}
	// The finalizer comes before the first part.
	before := c.DeepCopy()
	if controllerutil.AddFinalizer(c, Finalizer) {
		if err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer: %w", err)
		}
	}
	var federations v1alpha1.FederationList
	var cells v1alpha1.CellList
	if err := errors.Join(r.Client.List(ctx, &federations), r.Client.List(ctx, &cells)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing federations and cells: %w", err)
	}
	federation := workload.InCharge(federations.Items)
	turned, followed := r.follow(ctx, c, federation)
	if followed = explain(followed); followed == nil {
		followed = readable(c, federation, cells.Items, turned)
	}
	if err := r.report(ctx, c, federation, turned, followed); err != nil {
		return ctrl.Result{}, fmt.Errorf("reporting: %w", err)
	}
	return r.next(turned, followed)
}

// next says when to look again. An unreachable cell is tried ever more seldom;
// one that waits for another object, or is invalid, at the running pace: its
// Secret may come to be.
func (r *Reconciler) next(turned *workload.Turned, followed error) (ctrl.Result, error) {
	problem := (*workload.Problem)(nil)
	switch {
	case errors.As(followed, &problem) && problem.Reason != v1alpha1.ReasonUnreachable:
		return ctrl.Result{RequeueAfter: wait.Jitter(pollRunning, pollJitter)}, nil
	case followed != nil:
		return ctrl.Result{}, followed
	case len(turned.Seen.Waiting()) > 0:
		return ctrl.Result{RequeueAfter: pollStarting}, nil
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(pollRunning, pollJitter)}, nil
}

// follow makes the cell as the Cell says, and looks at what runs there. What
// cannot be rendered changes nothing that runs. It gives nil when nothing could be
// seen.
func (r *Reconciler) follow(ctx context.Context, c *v1alpha1.Cell, f *v1alpha1.Federation) (*workload.Turned, error) {
	if err := check(c, f); err != nil {
		return nil, err
	}
	remote, err := r.cells.to(ctx, c)
	if err != nil {
		return nil, err
	}
	uid, err := identity(ctx, remote)
	if err != nil {
		return nil, err
	}
	if err := r.move(ctx, c, uid); err != nil {
		return nil, err
	}
	p := place(c, r.Namespace)
	known, err := claim(ctx, remote, p, c)
	if err != nil {
		return nil, err
	}
	if err := r.remember(ctx, c, uid); err != nil {
		return nil, err
	}
	turned, err := r.apply(ctx, remote, p, known, c, f)
	if err != nil {
		return nil, err
	}
	return &turned, nil
}

// apply makes the cell as the Cell says, where known are the objects that it has.
// It tells what runs then, and what is not changed yet.
func (r *Reconciler) apply(ctx context.Context, remote client.Client, p workload.Place, known map[string]bool, c *v1alpha1.Cell, f *v1alpha1.Federation) (workload.Turned, error) {
	if err := unplanned(c, f, known); err != nil {
		return workload.Turned{}, err
	}
	parts := parts{workload.Images(f.Spec.Images)}
	wanted := services(p, parts)
	if err := p.ApplyOwn(ctx, remote, remote, known, wanted); err != nil {
		return workload.Turned{}, err
	}
	agent, err := p.Address(ctx, remote, parts.agent(), c.Spec.Network.ServiceAddressing)
	if err != nil {
		return workload.Turned{}, err
	}
	contract, err := r.rules.Running(ctx, f)
	if err != nil {
		return workload.Turned{}, err
	}
	files, err := Renderer{Namespace: r.Namespace, Contract: contract}.edges(c, f, agent)
	if err != nil {
		return workload.Turned{}, workload.Invalid(err)
	}
	objects := workloads(p, parts, c, f, files)
	// Who is beside the cell's API server is not ours to ask, so that a pod which has been
	// ready for a while has to suffice: what Prometheus would not start with is seen, a
	// reload is not.
	turned, err := p.ApplyInTurn(ctx, remote, remote, known, objects, workload.Turns{Of: c, Pairs: workload.EdgePairs(f, c, known)})
	if err != nil {
		return workload.Turned{}, err
	}
	return turned, p.Prune(ctx, remote, append(wanted, objects...), kinds(), workload.Spared(known, turned.Holds.Servers())...)
}

// leave takes the parts away from a cell whose Cell is being deleted, and lets
// the Cell go. An unreachable cell keeps its Cell, unless told to abandon it.
func (r *Reconciler) leave(ctx context.Context, c *v1alpha1.Cell) error {
	if !controllerutil.ContainsFinalizer(c, Finalizer) {
		r.cells.forget(c.Name)
		return nil
	}
	if c.Annotations[AnnotationAbandon] != "true" {
		if err := explain(r.clear(ctx, c)); err != nil {
			hint := fmt.Errorf("taking the parts away: %w; annotate the Cell with %s=true to let it go without", err, AnnotationAbandon)
			return errors.Join(hint, r.report(ctx, c, nil, nil, hint))
		}
	}
	before := c.DeepCopy()
	controllerutil.RemoveFinalizer(c, Finalizer)
	if err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("removing the finalizer: %w", err))
	}
	r.cells.forget(c.Name)
	r.cells.forget(former + c.Name)
	return nil
}

func (r *Reconciler) clear(ctx context.Context, c *v1alpha1.Cell) error {
	remote, err := r.home(ctx, c)
	if err != nil {
		return err
	}
	return r.clearIn(ctx, remote, c)
}

func (r *Reconciler) clearIn(ctx context.Context, remote client.Client, c *v1alpha1.Cell) error {
	if others, err := isOthers(ctx, remote, r.Namespace, c); err != nil || others {
		return err
	}
	return place(c, r.Namespace).Prune(ctx, remote, nil, kinds())
}

// kinds are those of every object that a Cell can have.
func kinds() []client.ObjectList {
	return []client.ObjectList{&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &policyv1.PodDisruptionBudgetList{}}
}

// report writes what was seen, if it differs from what was told before. What
// could not be seen stays as it was last known; the condition says so. f is
// needed only with what was seen.
func (r *Reconciler) report(ctx context.Context, c *v1alpha1.Cell, f *v1alpha1.Federation, turned *workload.Turned, followed error) error {
	before := c.DeepCopy()
	report := workload.Report{Before: before, Object: c, Conditions: &c.Status.Conditions, Problem: followed}
	switch {
	case turned != nil:
		report.Waiting, report.Holds = turned.Seen.Waiting(), turned.Holds
		c.Status.Parts = turned.Seen.Parts
		c.Status.EdgeEndpoints, c.Status.EdgeServers = endpoints(c, inUse(f, c, turned.Holds), turned.Seen.Pods)
	case len(c.Spec.Edge.Endpoints) > 0:
		c.Status.EdgeEndpoints, c.Status.EdgeServers = endpoints(c, nil, nil)
	}
	c.Status.ObservedGeneration = c.Generation
	return r.reporter.Report(ctx, report)
}
