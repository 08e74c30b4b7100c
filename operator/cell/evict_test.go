package cell

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Somebody empties the nodes of both servers of an edge, with Kubernetes' own
// controllers at work.
func TestWhoEmptiesNodesTakesOneServerOfAPair(t *testing.T) {
	w := newWorld(t)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	})
	w.secret(t, "asia-1", w.access)
	c := w.Cell(t, "asia-1")
	c.Spec.Edge.Replicas = ptr.To(int32(2))
	require.NoError(t, w.Admin.Update(t.Context(), c))
	w.reconcile(t, "asia-1")
	w.RunControllers(t, "statefulset-controller", "disruption-controller")
	w.OneOfTwoStays(t, "edge", "edge-0-b")
}
