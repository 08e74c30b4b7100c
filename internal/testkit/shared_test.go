package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
)

// What one test leaves, the next does not find, whatever held it.
func TestASharedServerIsHandedOnAsItWasMade(t *testing.T) {
	var s Shared
	t.Cleanup(func() { require.NoError(t, s.stop()) })
	var made []object
	t.Run("one leaves much", func(t *testing.T) {
		w := s.World(t)
		made = s.objects(t)
		w.InstallHub(t)
		w.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "held", Finalizers: []string{"example.org/held"}}})
		w.Create(t, &v1alpha1.Cell{
			ObjectMeta: metav1.ObjectMeta{Name: "asia-1", Finalizers: []string{"example.org/held"}},
			Spec:       v1alpha1.CellSpec{Geography: "asia", Region: "east", KubeconfigSecret: "asia-1"},
		})
		require.NotEqual(t, made, s.objects(t))
	})
	t.Run("the next finds nothing of it", func(t *testing.T) {
		w := s.World(t)
		require.ElementsMatch(t, made, s.objects(t))
		w.InstallHub(t)
	})
}
