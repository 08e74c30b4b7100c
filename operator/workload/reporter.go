package workload

import (
	"context"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
}

// NewReporter makes the reporter of a kind. Its metric begins at zero for each
// reason that the kind can have: those of every kind, and others.
func NewReporter(o Options, kind string, others ...string) *Reporter {
	r := &Reporter{kind: kind, client: o.Client, recorder: o.Recorder, log: o.Log, reports: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pharos_" + strings.ToLower(kind) + "_reports_total",
		Help: "Reconciliations of a " + kind + ", by the reason of the Ready condition they ended with.",
	}, []string{"reason"})}
	usual := []string{v1alpha1.ReasonAvailable, v1alpha1.ReasonProgressing, v1alpha1.ReasonInvalid, v1alpha1.ReasonApplyFailed}
	for _, reason := range append(usual, others...) {
		r.reports.WithLabelValues(reason)
	}
	o.Registry.MustRegister(r.reports)
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
}

// Report writes the status, if it differs from what was told before.
func (r *Reporter) Report(ctx context.Context, what Report) error {
	now := Ready(what.Object.GetGeneration(), what.Problem, what.Waiting)
	if what.Note != "" {
		now.Message = bounded(now.Message + "; " + what.Note)
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
