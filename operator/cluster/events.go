package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// tell writes the event of one condition's change. Its reason is the
// condition's, but that a pause and its end say so themselves.
func tell(recorder events.EventRecorder, c *v1alpha1.Cluster, change metav1.Condition) {
	kind, reason := corev1.EventTypeNormal, change.Reason
	switch {
	case change.Type == v1alpha1.ConditionPaused && change.Status == metav1.ConditionTrue:
		reason = "Paused"
	case change.Type == v1alpha1.ConditionPaused:
		reason = "Resumed"
	case change.Status != metav1.ConditionTrue:
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(c, nil, kind, reason, "Look", "%s", change.Message)
}
