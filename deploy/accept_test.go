package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/version"
)

// A real API server takes every manifest, in the order given and without an
// unknown field, and admits the operator's pod under the namespace's pod
// security standard.
func TestAPIServerAcceptsEverything(t *testing.T) {
	c, err := client.New(testkit.APIServer(t), client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	hub, err := deploy.Hub(version.Image)
	require.NoError(t, err)
	cell, err := deploy.Cell()
	require.NoError(t, err)
	clusters, err := deploy.ClusterNamespace("fleet")
	require.NoError(t, err)
	business, err := deploy.Business()
	require.NoError(t, err)
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}))
	objects := append(append(hub, cell[1:]...), clusters...) // hub and cell begin with the same namespace
	for _, o := range business {
		if o.GetKind() != "Namespace" || o.GetName() != deploy.Namespace {
			objects = append(objects, o)
		}
	}
	for _, o := range append(objects, examples(t)...) {
		require.NoError(t, strict.Create(t.Context(), o), "%s %s", o.GetKind(), o.GetName())
	}

	var d appsv1.Deployment
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: deploy.Namespace, Name: "operator"}, &d))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "operator-x"},
		Spec:       d.Spec.Template.Spec,
	}
	require.NoError(t, c.Create(t.Context(), pod), "the pod security standard refuses the operator")
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "root"}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	require.ErrorContains(t, c.Create(t.Context(), pod), "PodSecurity")
}

func examples(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var out []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			o := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(document), o), file)
			out = append(out, o)
		}
	}
	return out
}
