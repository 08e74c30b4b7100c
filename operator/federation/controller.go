// Package federation runs in the hub what a Federation describes: a cascade for
// each geography, two centrals, Alertmanager, the relay to the robots, and the
// remediator. It renders, applies, takes away what is no longer wanted, and
// reports what it sees. What runs in a cell is package cell's.
package federation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/ownrules"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

const (
	// callTimeout bounds one reconciliation, all its calls included, and reportTimeout
	// what is told of it afterwards: a look that took all its time is to be known of.
	callTimeout, reportTimeout = time.Minute, 10 * time.Second
	// behind is how long to wait for a cache that lacks what was read live.
	behind = time.Second
	// maxParts is how many parts the API keeps.
	maxParts = 1024
)

// Reconciler keeps the hub as its Federation says.
type Reconciler struct {
	workload.Options
	reporter *workload.Reporter
	ears     *ears
	rules    *ownrules.Keeper
	refused  *prometheus.GaugeVec
	// patience is how long a look may take.
	patience time.Duration
}

// New validates the options.
func New(o workload.Options) (*Reconciler, error) {
	if err := o.Validate("federation"); err != nil {
		return nil, err
	}
	return &Reconciler{o, workload.NewReporter(o, "Federation"), newEars(o.Log), ownrules.NewKeeper(o.Live, o.Namespace), newRefused(o.Registry), callTimeout}, nil
}

// SetupWithManager lets the manager call the Reconciler for every change of a
// Federation, of a part, and of the cells that feed it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	every := r.All(&v1alpha1.FederationList{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("federation").
		For(&v1alpha1.Federation{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&appsv1.StatefulSet{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ConfigMap{}).
		Watches(&v1alpha1.Cell{}, every, builder.WithPredicates(predicate.Funcs{UpdateFunc: cellMatters})).
		Watches(&corev1.Pod{}, every).
		Watches(&corev1.ConfigMap{}, r.naming()).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true)}).
		Complete(r)
}

// cellMatters leaves out what a cell reports of itself, but for where its edge is.
func cellMatters(e event.UpdateEvent) bool {
	before, isCell := e.ObjectOld.(*v1alpha1.Cell)
	now, stillCell := e.ObjectNew.(*v1alpha1.Cell)
	return !isCell || !stillCell || before.Generation != now.Generation ||
		!slices.Equal(before.Status.EdgeEndpoints, now.Status.EdgeEndpoints)
}

// Reconcile brings the hub and the Federation's status up to date.
func (r *Reconciler) Reconcile(process context.Context, req ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(process, r.patience)
	defer cancel()
	// Read live: a status older than our own last report would be told again.
	f := &v1alpha1.Federation{}
	if err := r.Live.Get(ctx, req.NamespacedName, f); err != nil {
		return ctrl.Result{}, r.reporter.Gone(req.Name, err)
	}
	if !f.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the parts go with their owner
	}
	var all v1alpha1.FederationList
	var cells v1alpha1.CellList
	if err := errors.Join(r.Client.List(ctx, &all), r.Client.List(ctx, &cells)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing federations and cells: %w", err)
	}
	if !slices.ContainsFunc(all.Items, func(other v1alpha1.Federation) bool { return other.UID == f.UID }) {
		return ctrl.Result{RequeueAfter: behind}, nil // who is in charge is not known yet
	}
	// One cell that is wrong must not keep the others from being read.
	expected := workload.Feeding(f, cells.Items)
	feeding, wrong := workload.Settle(f, expected)
	found := found{cells: len(expected) - len(wrong), wrong: wrong}
	hold, lost := homeless(f, cells.Items)
	found.homeless = lost
	if found.followed = refuse(f, workload.InCharge(all.Items), hold, lost); found.followed == nil {
		found.done, found.followed = r.follow(ctx, f, feeding)
	}
	if apierrors.IsConflict(found.followed) {
		return ctrl.Result{RequeueAfter: behind}, nil // what was read is not what is there any more
	}
	if err := r.conclude(process, f, found); err != nil {
		return ctrl.Result{}, err
	}
	if problem := (*workload.Problem)(nil); errors.As(found.followed, &problem) {
		return ctrl.Result{}, nil // trying again would not help; a change will
	}
	if found.followed != nil {
		return ctrl.Result{}, found.followed
	}
	return ctrl.Result{RequeueAfter: cmp.Or(found.done.again, measureEvery(f))}, nil
}

// conclude reports what was found, also when the look's own time is over. A process that ends
// tells nothing: another may have told more by then.
func (r *Reconciler) conclude(process context.Context, f *v1alpha1.Federation, found found) error {
	ctx, cancel := context.WithTimeout(process, reportTimeout)
	defer cancel()
	var err error
	if found.seen, err = place(f, r.Namespace).Observe(ctx, r.Client); err != nil {
		return fmt.Errorf("looking at the parts: %w", err)
	}
	if err := r.report(ctx, f, found); err != nil {
		return fmt.Errorf("reporting: %w", err)
	}
	return nil
}

// refuse says why nothing in the hub may be made as the Federation says, or nil.
func refuse(f, chief *v1alpha1.Federation, hold bool, lost error) error {
	if err := check(f, chief); err != nil || !hold {
		return err
	}
	return lost
}

// lookAgain is when the plan may go on without anything in the hub having
// changed: soon while cells move or are divided anew, something waits for a server or a
// server for its turn, else when they are measured again.
func lookAgain(f *v1alpha1.Federation, waits []string, held workload.Holds) time.Duration {
	if changing(f) || len(waits) > 0 || len(held) > 0 {
		return 2 * workload.Interval(f)
	}
	return measureEvery(f)
}

// follow makes the hub as the Federation says. What cannot be rendered changes
// nothing that runs.
func (r *Reconciler) follow(ctx context.Context, f *v1alpha1.Federation, cells []v1alpha1.Cell) (done, error) {
	own, err := r.ownRules(ctx, f)
	if err != nil {
		return done{}, err
	}
	layouts, err := r.plan(ctx, f, cells, own.contract)
	if err != nil {
		return done{}, err
	}
	p, h := place(f, r.Namespace), hub{f: f, cells: cells, layouts: layouts, namespace: r.Namespace, contract: own.contract}
	known, err := p.Known(ctx, r.Client, kinds())
	if err != nil {
		return done{}, err
	}
	wanted := h.services()
	if err := p.ApplyOwn(ctx, r.Client, r.Live, known, wanted); err != nil {
		return done{}, err
	}
	wanted = append(wanted, own.kept...)
	if h.at, err = r.addresses(ctx, p, f); err != nil {
		return done{}, err
	}
	if h.given, err = r.given(ctx); err != nil {
		return done{}, err
	}
	reading := r.readsOn(ctx, h)
	h.reads = len(reading) > 0
	configs, err := h.render()
	if err != nil {
		return done{}, workload.Invalid(err)
	}
	objects := h.workloads(configs)
	turned, err := p.ApplyInTurn(ctx, r.Client, r.Live, known, objects, r.turns(h, configs.mark))
	if err != nil {
		return done{}, err
	}
	// A shard without cells goes last: those that it read are read elsewhere by now.
	retiring := r.retiring(ctx, h, known)
	between, crossing := notThere(f, cells)
	waits := slices.Concat(staying(retiring), reading)
	spared := append(workload.Spared(known, slices.Concat(retiring, turned.Holds.Servers())), own.before...)
	return done{
		notes: slices.Concat(layouts.warnings(f), between, waits), holds: slices.Concat(turned.Holds, crossing), again: lookAgain(f, waits, turned.Holds),
	}, p.Prune(ctx, r.Client, append(wanted, objects...), kinds(), spared...)
}

// plan decides which shard reads which cell, and writes that down before it is
// done: a cell must not leave a shard in a configuration that no status knows.
func (r *Reconciler) plan(ctx context.Context, f *v1alpha1.Federation, cells []v1alpha1.Cell, contract *rules.Contract) (Layouts, error) {
	before := f.DeepCopy()
	if err := r.recover(ctx, f); err != nil {
		return nil, err
	}
	heard := r.ears.listen(ctx, f, cells, contract)
	layouts, err := Plan(f, cells, heard)
	if err != nil {
		return nil, workload.Invalid(err)
	}
	f.Status.Geographies = Status(f, cells, layouts, heard)
	if equality.Semantic.DeepEqual(before.Status.Geographies, f.Status.Geographies) {
		return layouts, nil
	}
	// Whoever wrote meanwhile, another operator perhaps, may have planned otherwise.
	if err := r.Client.Status().Patch(ctx, f, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("writing down the shard plan: %w", err)
	}
	r.tell(ctx, f, layouts)
	return layouts, nil
}

// tell logs what a plan changed.
func (r *Reconciler) tell(ctx context.Context, f *v1alpha1.Federation, layouts Layouts) {
	for _, g := range f.Spec.Geographies {
		layout := layouts[g.Name]
		if len(layout.Changes) == 0 {
			continue
		}
		r.Log.InfoContext(ctx, "shard plan changed", slog.String("geography", g.Name), slog.Any("shards", layout.Shards),
			slog.String("changes", message(layout.Changes)))
	}
}

func (r *Reconciler) addresses(ctx context.Context, p workload.Place, f *v1alpha1.Federation) (Addresses, error) {
	at, parts, how := Addresses{Centrals: map[string]string{}}, partsOf(f), f.Spec.Network.ServiceAddressing
	var err error
	for _, replica := range replicas() {
		if at.Centrals[replica], err = p.Address(ctx, r.Live, parts.central(replica), how); err != nil {
			return at, err
		}
	}
	if relays(f) {
		at.Notify, err = p.Address(ctx, r.Live, parts.notify(), how)
	}
	return at, err
}

// kinds are those of every object that a Federation can have.
func kinds() []client.ObjectList {
	return []client.ObjectList{
		&appsv1.StatefulSetList{}, &appsv1.DeploymentList{},
		&corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{},
		&policyv1.PodDisruptionBudgetList{},
	}
}

// done is what one reconciliation did.
type done struct {
	// notes are what a person should be told of it.
	notes []string
	// holds are the servers and cells that do not have all of their change yet.
	holds workload.Holds
	// again is when to look again.
	again time.Duration
}

// found is what one reconciliation found out.
type found struct {
	// cells counts those that feed the Federation.
	cells int
	// wrong says of the others what is wrong with them.
	wrong map[string]error
	// done is what was done, nothing where the Federation could not be followed.
	done done
	// homeless is what is wrong with the geographies of cells.
	homeless error
	seen     workload.Observation
	followed error
}

// report writes what was seen, if it differs from what was told before.
func (r *Reconciler) report(ctx context.Context, f *v1alpha1.Federation, found found) error {
	before := f.DeepCopy()
	problem := found.followed
	if problem == nil {
		problem = found.homeless
	}
	f.Status.ObservedGeneration = f.Generation
	f.Status.Cells = int32(found.cells)
	f.Status.Parts = found.seen.Parts[:min(len(found.seen.Parts), maxParts)]
	return r.reporter.Report(ctx, workload.Report{
		Before: before, Object: f, Conditions: &f.Status.Conditions,
		Problem: problem, Waiting: found.seen.Waiting(), Note: note(found.wrong, slices.Concat(found.done.notes, Unheard(f), refusedRules(f), r.missing(ctx, f))), Holds: found.done.holds,
	})
}
