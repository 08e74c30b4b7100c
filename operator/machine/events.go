package machine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// tell writes the event of a repair's new phase: RepairRunning,
// RepairSucceeded, RepairFailed or RepairRefused.
func tell(recorder events.EventRecorder, m *v1alpha1.Machine, answer *v1alpha1.RemediationResponse) {
	kind := corev1.EventTypeNormal
	if answer.Phase == v1alpha1.RepairFailed || answer.Phase == v1alpha1.RepairRefused {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(m, nil, kind, "Repair"+string(answer.Phase), "Repair", "request %s: %s", answer.ID, answer.Message)
}
