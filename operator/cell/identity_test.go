package cell

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// two are a hub, which is a cell as well, and another cluster, both real.
type two struct {
	*world
	other *testkit.World
	// here and there are the UIDs of the two.
	here, there string
	// access is a kubeconfig of the other.
	otherAccess string
}

// A kubeconfig that leads elsewhere takes the Cell nowhere by itself, and the parts
// are never nobody's.
func TestACellMovesWhenAPersonSaysSo(t *testing.T) {
	w := &two{world: newWorld(t), other: testkit.NewWorld(t)}
	w.other.InstallCell(t)
	elsewhere := &world{World: w.other}
	w.otherAccess = elsewhere.kubeconfig(t, w.other.Config.Host, elsewhere.token(t, deploy.OperatorAccess))
	w.here, w.there = uidOf(t, w.World), uidOf(t, w.other)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	})
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"it knows its cluster", w.knows},
		{"the Secret is overwritten", w.overwritten},
		{"it moves, and leaves nothing behind", w.moves},
		{"it is deleted while its kubeconfig leads elsewhere", w.deletedMeanwhile},
		{"its cluster is lost", w.lost},
	} {
		require.True(t, t.Run(step.name, step.run), "the steps after it would not mean anything")
	}
}

func uidOf(t *testing.T, w *testkit.World) string {
	t.Helper()
	system := &corev1.Namespace{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	return string(system.UID)
}

// remains counts the objects of Cells in a cluster.
func remains(t *testing.T, w *testkit.World) (n int) {
	t.Helper()
	for _, list := range kinds() {
		require.NoError(t, w.Admin.List(t.Context(), list, client.HasLabels{v1alpha1.LabelCell}))
		n += meta.LenList(list)
	}
	return n
}

func (w *two) change(t *testing.T, spec func(*v1alpha1.Cell)) {
	t.Helper()
	c := w.Cell(t, "asia-1")
	spec(c)
	require.NoError(t, w.Admin.Update(t.Context(), c))
	w.reconcile(t, "asia-1")
}

func (w *two) knows(t *testing.T) {
	w.secret(t, "asia-1", w.access)
	w.reconcile(t, "asia-1")
	require.Equal(t, v1alpha1.CellCluster{UID: w.here, KubeconfigSecret: "asia-1"}, w.Cell(t, "asia-1").Status.Cluster)
	w.secret(t, "asia-1-renewed", w.access)
	w.change(t, func(c *v1alpha1.Cell) { c.Spec.KubeconfigSecret = "asia-1-renewed" })
	require.Equal(t, v1alpha1.CellCluster{UID: w.here, KubeconfigSecret: "asia-1-renewed"}, w.Cell(t, "asia-1").Status.Cluster, "another way to the same cluster")
}

func (w *two) overwritten(t *testing.T) {
	before := w.Versions(t, kinds()...)
	w.secret(t, "asia-1-renewed", w.otherAccess)
	w.reconcile(t, "asia-1")
	c := w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "Secret asia-1-renewed leads to cluster "+w.there+", and the parts are in cluster "+w.here)
	require.Equal(t, w.here, c.Status.Cluster.UID)
	require.Len(t, c.Status.Parts, 3, "what is there is told of as before")
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "kubectl annotate --overwrite cell asia-1 pharos.dev/move-to="+w.there)
	require.Zero(t, remains(t, w.other))
	require.Equal(t, before, w.Versions(t, kinds()...))

	// A person says so, but the way to the former cluster is gone.
	w.change(t, func(c *v1alpha1.Cell) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, AnnotationMove, w.there) })
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "its kubeconfig was overwritten")
	require.Zero(t, remains(t, w.other))

	// He confirms another cluster than the one that he gave.
	w.change(t, func(c *v1alpha1.Cell) { c.Annotations[AnnotationMove] = w.here })
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "and the parts are in cluster "+w.here)

	w.secret(t, "asia-1-renewed", w.access)
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "waiting for edge")
	require.Equal(t, before, w.Versions(t, kinds()...))
}

func (w *two) moves(t *testing.T) {
	w.secret(t, "asia-1", w.otherAccess)
	w.change(t, func(c *v1alpha1.Cell) { c.Spec.KubeconfigSecret, c.Annotations[AnnotationMove] = "asia-1", w.there })
	w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "waiting for edge")
	require.Equal(t, v1alpha1.CellCluster{UID: w.there, KubeconfigSecret: "asia-1"}, w.Cell(t, "asia-1").Status.Cluster)
	require.Zero(t, remains(t, w.World), "the former cluster has parts of nobody")
	require.Positive(t, remains(t, w.other))
	w.reconcile(t, "asia-1")
	require.Equal(t, 1, w.r.cells.clients.Len(), "the connection to the former cluster is kept")
}

// The Secret of the former cluster is still there, and deleting the Cell finds its way.
func (w *two) deletedMeanwhile(t *testing.T) {
	w.change(t, func(c *v1alpha1.Cell) { c.Spec.KubeconfigSecret = "asia-1-renewed" })
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "leads to cluster "+w.here+", and the parts are in cluster "+w.there)
	require.NoError(t, w.Admin.Delete(t.Context(), w.Cell(t, "asia-1")))
	w.reconcile(t, "asia-1")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), client.ObjectKey{Name: "asia-1"}, &v1alpha1.Cell{})))
	require.Zero(t, remains(t, w.other))
	require.Zero(t, w.r.cells.clients.Len())
}

// A cluster was built anew under the address of one that is lost.
func (w *two) lost(t *testing.T) {
	w.newCell(t, "asia-1")
	w.secret(t, "asia-1", w.access)
	w.reconcile(t, "asia-1")
	c := w.Cell(t, "asia-1")
	c.Status.Cluster.UID = "lost"
	w.SetStatus(t, c)
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "the parts are in cluster lost")
	w.change(t, func(c *v1alpha1.Cell) {
		c.Annotations = map[string]string{AnnotationMove: w.here, AnnotationAbandon: "true"}
	})
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "kubectl annotate --overwrite cell asia-1 pharos.dev/abandon=lost")
	w.change(t, func(c *v1alpha1.Cell) { c.Annotations[AnnotationAbandon] = "lost" })
	w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "waiting for edge")
	require.Equal(t, w.here, w.Cell(t, "asia-1").Status.Cluster.UID)
}
