package federation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Somebody empties the nodes of both centrals, with Kubernetes' own controllers at
// work.
func TestWhoEmptiesNodesTakesOneCentral(t *testing.T) {
	w := newWorld(t)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	})
	w.reconcile(t, "fleet")
	w.RunControllers(t, "statefulset-controller", "disruption-controller")
	w.OneOfTwoStays(t, "central-a", "central-b")
}
