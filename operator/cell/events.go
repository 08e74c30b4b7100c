package cell

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// tell writes an event when the reason of the Ready condition changed.
func tell(recorder events.EventRecorder, c *v1alpha1.Cell, before *metav1.Condition, now metav1.Condition) bool {
	if before != nil && before.Reason == now.Reason {
		return false
	}
	kind := corev1.EventTypeNormal
	switch now.Reason {
	case v1alpha1.ReasonInvalid, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonUnreachable:
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(c, nil, kind, now.Reason, "Report", "%s", now.Message)
	return true
}
