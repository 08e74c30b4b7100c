// Package machine is the node operator: it acts on Machine.spec.remediation by
// running the site's own Job, and answers in Machine.status.remediation. It
// never decides that a machine needs a repair, and never writes a Machine's spec.
package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// callTimeout bounds one reconciliation, all its calls included.
	callTimeout = 30 * time.Second
	// recheck is how soon a running repair is looked at again when no event
	// of its Job came.
	recheck = time.Minute
	// Retries come no rarer than retryMax, so that a request whose Job cannot
	// be created is still answered soon after it has lapsed.
	retryMin = 100 * time.Millisecond
	retryMax = 30 * time.Second
	workers  = 4
)

// Options of a Reconciler. All are required but Clock.
type Options struct {
	// Client writes Jobs and answers; its reads may come from a cache.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Recorder keeps the events of repairs.
	Recorder events.EventRecorder
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// Log takes one line for each change.
	Log *slog.Logger
	// Template is the ConfigMap whose key job.yaml is the site's Job.
	Template client.ObjectKey
	// Clock unset means the real one.
	Clock clock.PassiveClock
}

// Reconciler answers the requests for repair of Machines.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	metrics  *metrics
	log      *slog.Logger
	template client.ObjectKey
	clock    clock.PassiveClock
}

// New validates the options.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Live == nil || o.Recorder == nil || o.Registry == nil || o.Log == nil {
		return nil, errors.New("node operator: Client, Live, Recorder, Registry and Log are required")
	}
	if o.Template.Namespace == "" || o.Template.Name == "" {
		return nil, errors.New("node operator: the ConfigMap of the repair Job needs a namespace and a name")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{
		client: o.Client, live: o.Live, recorder: o.Recorder, metrics: newMetrics(o.Registry),
		log: o.Log, template: o.Template, clock: o.Clock,
	}, nil
}

// SetupWithManager lets the manager call the Reconciler for every change of a
// Machine or of a Job that it owns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("machine").
		For(&v1alpha1.Machine{}).
		Owns(&batchv1.Job{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryMin, retryMax),
			// Names are checked in the whole process, managers of tests included.
			SkipNameValidation: ptr.To(true),
		}).
		Complete(r)
}

// Reconcile brings one Machine's answer, and the Job behind it, up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cached := &v1alpha1.Machine{}
	if err := r.client.Get(ctx, req.NamespacedName, cached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	jobs, err := jobsOf(ctx, r.client, cached)
	if err != nil {
		return ctrl.Result{}, err
	}
	if settled(cached, jobs) {
		return ctrl.Result{}, nil
	}
	s, err := r.look(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	v := decide(s)
	if v.start {
		v.answer, err = r.start(ctx, s)
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	if v.answer == nil {
		return ctrl.Result{RequeueAfter: recheck}, nil
	}
	if err := r.answer(ctx, s.machine, v.answer); err != nil {
		return ctrl.Result{}, err
	}
	// A newer request may have waited for this one's end.
	return ctrl.Result{RequeueAfter: recheck}, nil
}

// look reads the machine, its Cluster and its Jobs live: a cache behind our own
// writes would let a request be acted on twice.
func (r *Reconciler) look(ctx context.Context, key client.ObjectKey) (snapshot, error) {
	s := snapshot{machine: &v1alpha1.Machine{}, now: r.clock.Now()}
	if err := r.live.Get(ctx, key, s.machine); err != nil {
		return s, fmt.Errorf("reading machine %s: %w", key, err)
	}
	var err error
	if s.jobs, err = jobsOf(ctx, r.live, s.machine); err != nil || s.machine.Spec.Remediation == nil {
		return s, err
	}
	name := client.ObjectKey{Namespace: key.Namespace, Name: jobName(s.machine.Spec.Remediation.ID)}
	if s.named, err = find(ctx, r.live, name, &batchv1.Job{}); err != nil {
		return s, fmt.Errorf("reading Job %s: %w", name, err)
	}
	name.Name = s.machine.Spec.ClusterName
	if s.cluster, err = find(ctx, r.live, name, &v1alpha1.Cluster{}); err != nil {
		return s, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	if ref := s.machine.Spec.Remediation.Spare; ref != nil {
		name.Name = ref.Name
		if s.spare, err = find(ctx, r.live, name, &v1alpha1.Machine{}); err != nil {
			return s, fmt.Errorf("reading machine %s, which is to take the place of %s: %w", name, key, err)
		}
	}
	return s, nil
}

// jobsOf lists the repair Jobs that the machine owns.
func jobsOf(ctx context.Context, from client.Reader, m *v1alpha1.Machine) ([]batchv1.Job, error) {
	var jobs batchv1.JobList
	err := from.List(ctx, &jobs, client.InNamespace(m.Namespace), client.MatchingLabels{LabelMachineUID: string(m.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing the repair Jobs of machine %s: %w", client.ObjectKeyFromObject(m), err)
	}
	return slices.DeleteFunc(jobs.Items, func(j batchv1.Job) bool { return !owns(m, &j) }), nil
}

// find reads an object into o. It returns nil when there is none; not to know
// is an error.
func find[T client.Object](ctx context.Context, from client.Reader, key client.ObjectKey, o T) (T, error) {
	var none T
	err := from.Get(ctx, key, o)
	if err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return o, nil
}

// start creates the request's Job and returns the answer to give. An error
// means that it is not known whether there is a Job; the request stays open
// until it lapses.
func (r *Reconciler) start(ctx context.Context, s snapshot) (*v1alpha1.RemediationResponse, error) {
	id := s.machine.Spec.Remediation.ID
	var site corev1.ConfigMap
	switch err := r.live.Get(ctx, r.template, &site); {
	case apierrors.IsNotFound(err):
		return refused(id, fmt.Sprintf("ConfigMap %s with the site's repair Job does not exist", r.template), s.now), nil
	case err != nil:
		return nil, fmt.Errorf("reading the site's repair Job: %w", err)
	}
	template, err := parseTemplate(site.Data[TemplateKey], s.machine.Namespace)
	if err != nil {
		return refused(id, fmt.Sprintf("ConfigMap %s, key %s: %v", r.template, TemplateKey, err), s.now), nil
	}
	// The reads may have taken their time.
	now := r.clock.Now()
	if why := lapsed(s.machine.Spec.Remediation, now); why != "" {
		return refused(id, why, now), nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.machine.Spec.Remediation.StartBefore.Sub(now))
	defer cancel()
	job := repairJob(template, s.machine, s.spare, now)
	switch err := r.client.Create(ctx, job); {
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return refused(id, fmt.Sprintf("ConfigMap %s, key %s: %v", r.template, TemplateKey, err), s.now), nil
	case err != nil:
		return nil, fmt.Errorf("creating Job %s: %w", job.Name, err)
	}
	return report(job), nil
}

// answer writes status.remediation, and says so where people look. The patch
// fails when the Machine changed since it was read; the next round sees why.
func (r *Reconciler) answer(ctx context.Context, m *v1alpha1.Machine, answer *v1alpha1.RemediationResponse) error {
	before := m.DeepCopy()
	m.Status.Remediation, m.Status.RemediationEpoch = answer, answeredEpoch(m, answer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, m, patch); err != nil {
		return fmt.Errorf("answering request %s of machine %s: %w", answer.ID, client.ObjectKeyFromObject(m), err)
	}
	r.metrics.repairs.WithLabelValues(string(answer.Phase)).Inc()
	tell(r.recorder, m, answer)
	r.log.InfoContext(ctx, "repair answered",
		slog.String("Machine", client.ObjectKeyFromObject(m).String()),
		slog.String("id", answer.ID),
		slog.String("phase", string(answer.Phase)),
		slog.String("reason", answer.Message))
	return nil
}
