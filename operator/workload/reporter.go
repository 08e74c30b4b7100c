package workload

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Reporter tells how the objects of one kind are: in their status, and where
// the reason of their Ready condition changes, by an event and a line of log.
type Reporter struct {
	kind     string
	client   client.Client
	recorder events.EventRecorder
	log      *slog.Logger
	reports  *prometheus.CounterVec
	held     *prometheus.GaugeVec

	mu   sync.Mutex
	told map[string]map[string]bool
}

// NewReporter makes the reporter of a kind. Its metric begins at zero for each
// reason that the kind can have: those of every kind, and others.
func NewReporter(o Options, kind string, others ...string) *Reporter {
	r := &Reporter{kind: kind, client: o.Client, recorder: o.Recorder, log: o.Log, reports: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pharos_" + strings.ToLower(kind) + "_reports_total",
		Help: "Reconciliations of a " + kind + ", by the reason of the Ready condition they ended with.",
	}, []string{"reason"}), held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pharos_operator_changes_held", ConstLabels: prometheus.Labels{"kind": kind},
		Help: "Servers of a Federation or a Cell that do not have all of their change yet, and cells between two geographies, by why. Absent where nothing is held.",
	}, []string{"name", "reason"}), told: map[string]map[string]bool{}}
	usual := []string{v1alpha1.ReasonAvailable, v1alpha1.ReasonProgressing, v1alpha1.ReasonInvalid, v1alpha1.ReasonApplyFailed}
	for _, reason := range append(usual, others...) {
		r.reports.WithLabelValues(reason)
	}
	o.Registry.MustRegister(r.reports, r.held)
	return r
}

// Report is what one reconciliation found out about an object.
type Report struct {
	// Before is the object as it was read, Object the same with its new status.
	// The Ready condition is still to be set.
	Before, Object client.Object
	// Conditions are those of Object.
	Conditions *[]metav1.Condition
	// Problem is why the object could not be followed, or nil.
	Problem error
	// Waiting names the parts that are not ready.
	Waiting []string
	// Note is what the message should say beside that, or nothing.
	Note string
	// Holds are the servers that do not have all of their change yet. With a Problem they
	// are not known, and stay as they were told.
	Holds Holds
}

// Report writes the status, if it differs from what was told before.
func (r *Reporter) Report(ctx context.Context, what Report) error {
	now := Ready(what.Object.GetGeneration(), what.Problem, what.Waiting)
	if notes := slices.DeleteFunc(slices.Concat([]string{now.Message}, what.Holds.Notes(), []string{what.Note}), func(s string) bool { return s == "" }); len(notes) > 1 {
		now.Message = Bounded(strings.Join(notes, "; "))
	}
	if what.Problem == nil {
		r.tellHolds(what.Object, what.Holds)
	}
	before := ""
	if c := meta.FindStatusCondition(*what.Conditions, v1alpha1.ConditionReady); c != nil {
		before = c.Reason
	}
	meta.SetStatusCondition(what.Conditions, now)
	r.reports.WithLabelValues(now.Reason).Inc()
	if equality.Semantic.DeepEqual(what.Before, what.Object) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, what.Object, client.MergeFrom(what.Before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	if before == now.Reason {
		return nil
	}
	r.recorder.Eventf(what.Object, nil, eventType(now.Reason), now.Reason, "Report", "%s", now.Message)
	r.log.InfoContext(ctx, "status reported", slog.String(r.kind, what.Object.GetName()),
		slog.String("reason", now.Reason), slog.String("message", now.Message))
	return nil
}

func eventType(reason string) string {
	switch reason {
	case v1alpha1.ReasonInvalid, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonUnreachable:
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// tellHolds tells of each hold once, when it begins, and counts those that there are. That
// another server was changed just now is how every change goes, and told in the condition alone.
func (r *Reporter) tellHolds(o client.Object, holds Holds) {
	before := r.forget(o.GetName())
	if len(holds) == 0 {
		return
	}
	now := map[string]bool{}
	for _, h := range holds {
		tells := h.Reason != HeldChanged
		now[h.Server] = tells || before[h.Server]
		r.held.WithLabelValues(o.GetName(), string(h.Reason)).Inc()
		if tells && h.Note != "" && !before[h.Server] {
			r.recorder.Eventf(o, nil, corev1.EventTypeNormal, EventHeld, "ChangeInTurn", "%s", h.Note)
			r.log.Info("change held", slog.String(r.kind, o.GetName()), slog.String("server", h.Server), slog.String("reason", string(h.Reason)), slog.String("note", h.Note))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[o.GetName()] = now
}

// Gone gives the error of reading an object, but for one that is there no more: what
// was told of its holds is dropped.
func (r *Reporter) Gone(name string, err error) error {
	if apierrors.IsNotFound(err) {
		r.forget(name)
	}
	return client.IgnoreNotFound(err)
}

// forget drops what was told of the holds of an object, and gives which servers that was of.
func (r *Reporter) forget(name string) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.told[name]
	delete(r.told, name)
	if len(before) > 0 {
		r.held.DeletePartialMatch(prometheus.Labels{"name": name})
	}
	return before
}
