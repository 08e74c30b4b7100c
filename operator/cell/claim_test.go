package cell

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// Somebody has objects of the names that Pharos gives its own. They stay as they
// are, and nothing is made that would need their place.
func refusesTheirs(t *testing.T, w *world) {
	w.secret(t, "asia-1", w.access)
	for _, theirs := range []client.Object{
		&corev1.ConfigMap{Data: map[string]string{"theirs": "yes"}},
		&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "theirs"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "theirs"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "theirs"}}},
			},
		}},
	} {
		theirs.SetNamespace(deploy.Namespace)
		theirs.SetName("edge")
		w.Create(t, theirs)
		version := theirs.GetResourceVersion()
		w.reconcile(t, "asia-1")
		w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, "edge is in namespace pharos-system already and is not Pharos' own, for it lacks app.kubernetes.io/managed-by=pharos pharos.dev/cell=asia-1")
		require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
		require.Equal(t, version, theirs.GetResourceVersion(), "%T was written", theirs)
		require.NoError(t, w.Admin.Delete(t.Context(), theirs))
	}
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("edge-agent"), &appsv1.Deployment{})))
}

// The kubeconfig of a second Cell leads to the same cluster.
func refusesTheSecond(t *testing.T, w *world) {
	before := w.versions(t)
	w.newCell(t, "second")
	w.secret(t, "second", w.access)
	for range 2 {
		w.reconcile(t, "second")
		w.requireReason(t, "second", v1alpha1.ReasonInvalid, `leads to the cluster of Cell "asia-1", whose StatefulSet edge`)
		w.reconcile(t, "asia-1")
	}
	require.NoError(t, w.Admin.Delete(t.Context(), w.Cell(t, "second")))
	w.reconcile(t, "second")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), client.ObjectKey{Name: "second"}, &v1alpha1.Cell{})))
	require.Equal(t, before, w.versions(t), "the first goes on undisturbed")
}

// Another hub has a Cell of the same name, whose kubeconfig leads here: it has the
// cluster, and keeps it when ours is deleted.
func refusesTheNamesake(t *testing.T, w *world) {
	ours := string(w.Cell(t, "asia-1").UID)
	claimed := func(by string) {
		claim := w.ConfigMap(t, "edge")
		if claim.Annotations[annotationClaim] = by; by == "" {
			delete(claim.Annotations, annotationClaim)
		}
		require.NoError(t, w.Admin.Update(t.Context(), claim))
	}
	require.Equal(t, ours, w.ConfigMap(t, "edge").Annotations[annotationClaim])
	claimed("another")
	before := w.Versions(t, kinds()...)
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonInvalid, `leads to the cluster of another Cell "asia-1", with the UID another`)
	require.NoError(t, w.r.clear(t.Context(), w.Cell(t, "asia-1")))
	require.Equal(t, before, w.Versions(t, kinds()...), "the other hub's cell was touched")

	claimed("") // as a person does who hands it over, and as claims were once
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonAvailable, "")
	require.Equal(t, ours, w.ConfigMap(t, "edge").Annotations[annotationClaim])
}

// Two Cells find the same cluster empty at the same moment: one of them has it.
func twoAtOnce(t *testing.T, w *world) {
	names := []string{"left", "right"}
	for range 5 {
		var both sync.WaitGroup
		for _, name := range names {
			w.newCell(t, name)
			w.secret(t, name, w.access)
		}
		errs := make([]error, len(names))
		for i, name := range names {
			both.Go(func() { _, errs[i] = w.tryReconcile(t, name) })
		}
		both.Wait()
		require.NoError(t, errors.Join(errs...))
		owners := map[string]bool{}
		for _, list := range kinds() {
			require.NoError(t, w.Admin.List(t.Context(), list, client.HasLabels{v1alpha1.LabelCell}))
			require.NoError(t, meta.EachListItem(list, func(o runtime.Object) error {
				owners[o.(client.Object).GetLabels()[v1alpha1.LabelCell]] = true
				return nil
			}))
		}
		require.Len(t, owners, 1)
		for _, name := range names {
			reason := v1alpha1.ReasonInvalid
			if owners[name] {
				reason = v1alpha1.ReasonProgressing
			}
			w.requireReason(t, name, reason, "")
			require.NoError(t, w.Admin.Delete(t.Context(), w.Cell(t, name)))
			w.reconcile(t, name)
		}
	}
}
