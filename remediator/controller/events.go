package controller

import (
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/remediator/hint"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

func newRecorder(host string) (record.EventBroadcaster, record.EventRecorder) {
	b := record.NewBroadcaster()
	return b, b.NewRecorder(kube.Scheme(), corev1.EventSource{Component: "pharos-remediator", Host: host})
}

func (c *Controller) startEvents() {
	c.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.clients.CoreV1().Events("")})
}

// hinted tells why a round comes before its time.
func (c *Controller) hinted(h hint.Hint) {
	c.log.Info("Round begins early, by a hint", slog.String("source", h.Source), slog.Int("alerts", h.Alerts), slog.Any("names", h.Names))
}

// recorded tells of a repair that has just been written down.
func (c *Controller) recorded(rem *api.Remediation) {
	c.metrics.phase(api.RemediationPending)
	c.log.Info("Remediation recorded", target(rem, policy.ReasonUnhealthy, rem.Spec.Reason)...)
	c.recorder.Event(rem, corev1.EventTypeNormal, string(policy.ReasonUnhealthy), rem.Spec.Reason)
}

// moved tells of a repair that entered another phase, or has another reason for its phase.
func (c *Controller) moved(rem *api.Remediation, phase bool) {
	s := rem.Status
	if phase {
		c.metrics.phase(s.Phase)
	}
	args := append(target(rem, policy.Reason(s.Reason), s.Message), slog.String("phase", string(s.Phase)))
	kind := corev1.EventTypeNormal
	switch {
	case s.Phase == api.RemediationFailed:
		kind = corev1.EventTypeWarning
		c.log.Warn("Remediation failed", args...)
	case s.Phase == api.RemediationEscalated:
		kind = corev1.EventTypeWarning
		c.log.Warn("Machine handed to people", args...)
	case s.Reason == string(policy.ReasonRequestFailed):
		kind = corev1.EventTypeWarning
		c.log.Warn("Remediation could not be begun", args...)
	case s.Reason == string(policy.ReasonNodeCheckUnavailable):
		kind = corev1.EventTypeWarning
		c.log.Warn("Remediation cannot be verified by its node check", args...)
	default:
		c.log.Info("Remediation moved on", args...)
	}
	c.recorder.Event(rem, kind, s.Reason, s.Message)
}

// checked tells of a node check that came to another result. That one has failed
// or timed out is told by the repair's end.
func (c *Controller) checked(rem *api.Remediation) {
	check := rem.Status.NodeCheck
	c.metrics.check(check.Result)
	kind, reason, message := corev1.EventTypeNormal, policy.ReasonNodeCheckPassed, "passed"
	switch check.Result {
	case api.NodeCheckPass:
	case api.NodeCheckNotRun:
		kind, reason, message = corev1.EventTypeWarning, policy.ReasonNodeCheckNotRun, "did not run: "+check.Reason+": "+check.Message
	default:
		return
	}
	message = fmt.Sprintf("node check in pod %s/%s, attempt %d, %s", api.NodeCheckNamespace, check.Pod, check.Attempt, message)
	c.log.Info("Node check ended", append(target(rem, reason, message), slog.String("result", string(check.Result)))...)
	c.recorder.Event(rem, kind, string(reason), message)
}

func target(rem *api.Remediation, reason policy.Reason, message string) []any {
	t := rem.Spec.Target
	return []any{
		slog.String("Remediation", rem.Name), slog.String("Cell", t.Cell), slog.String("Cluster", t.Cluster),
		slog.String("Machine", t.Machine), slog.String("Node", t.Node),
		slog.String("action", string(rem.Spec.Action)), slog.String("reason", string(reason)), slog.String("message", message),
	}
}

// held tells of a machine whose repair is now withheld for another reason than before.
func (c *Controller) held(p *api.RemediationPolicy, h api.HoldRecord) {
	c.log.Info("Repair withheld",
		slog.String("RemediationPolicy", p.Name), slog.String("Cell", h.Cell), slog.String("Machine", h.Machine),
		slog.String("reason", h.Reason), slog.String("message", h.Message))
	c.recorder.Eventf(p, corev1.EventTypeNormal, h.Reason, "machine %s in cell %s: %s", h.Machine, h.Cell, h.Message)
}

// allowed tells that a policy may act again, or may not any more.
func (c *Controller) allowed(p *api.RemediationPolicy, r policy.Report) {
	c.log.Info("Policy changed", slog.String("RemediationPolicy", p.Name), slog.String("allowed", string(r.Allowed)),
		slog.String("reason", string(r.Reason)), slog.String("message", r.Message))
	c.recorder.Event(p, eventType(r.Allowed), string(r.Reason), r.Message)
}

// bounded tells that a budget begins to hold back repairs, for another reason, or not
// any more.
func (c *Controller) bounded(b *api.FleetDisruptionBudget, r policy.BudgetReport) {
	c.log.Info("Disruption budget changed", slog.String("FleetDisruptionBudget", b.Name), slog.String("allowed", string(r.Allowed)),
		slog.String("reason", string(r.Reason)), slog.String("message", r.Message))
	c.recorder.Event(b, eventType(r.Allowed), string(r.Reason), r.Message)
}

// eventType is Normal where repairs are allowed from now on.
func eventType(allowed metav1.ConditionStatus) string {
	if allowed == metav1.ConditionTrue {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// incidentMoved tells that an incident begins, recovers, is worse again, or is over.
func (c *Controller) incidentMoved(in *api.Incident, message string) {
	c.log.Info("Incident changed", slog.String("Incident", in.Name), slog.String("kind", string(in.Spec.Kind)), slog.String("value", in.Spec.Value),
		slog.String("phase", string(in.Status.Phase)), slog.String("message", message))
	kind := corev1.EventTypeNormal
	if in.Status.Phase == api.IncidentOpen {
		kind = corev1.EventTypeWarning
	}
	c.recorder.Event(in, kind, "Incident"+string(in.Status.Phase), message)
}
