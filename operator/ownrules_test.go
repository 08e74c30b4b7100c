package operator

import (
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/operator/ownrules"
	"github.com/pharos-fleet/pharos/operator/tree"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
	"github.com/pharos-fleet/pharos/rules/lint/linttest"
)

// The operator looks when a ConfigMap that it is told of changes, tells the cells, and
// gives every server the bytes that "pharos render" writes from the same files.
func ownRulesReachEveryTier(t *testing.T, admin client.Client) {
	t.Helper()
	builtIn, err := rules.ContractSource()
	require.NoError(t, err)
	contract := strings.Replace(string(builtIn), "series:\n", linttest.Series, 1)
	create(t, admin, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "team-contract"}, Data: map[string]string{"contract.yaml": contract},
	})
	f := &v1alpha1.Federation{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "fleet"}, f))
	before := f.DeepCopy()
	f.Spec.Rules = &v1alpha1.OwnRules{ContractConfigMap: "team-contract", EdgeConfigMaps: []string{"team-edge"}}
	require.NoError(t, admin.Patch(t.Context(), f, client.MergeFrom(before)))
	require.Eventually(t, func() bool {
		require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "fleet"}, f))
		return meta.IsStatusConditionFalse(f.Status.Conditions, v1alpha1.ConditionRulesAccepted)
	}, patience, 50*time.Millisecond, "a ConfigMap that is not there")

	// From here on nothing wakes the operator but the ConfigMap.
	team := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "team-edge"}, Data: map[string]string{"images.rules.yaml": linttest.Record}}
	create(t, admin, team)
	require.Eventually(t, func() bool { return testkit.Files(t, admin, "edge")["own-images.rules.yaml"] == linttest.Record }, patience, 50*time.Millisecond)
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "fleet"}, f))
	require.True(t, meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionRulesAccepted))
	sameAsRendered(t, admin, f, ownrules.Set{
		Contract: lint.File{Name: "contract.yaml", Content: []byte(contract)},
		Rules:    map[rules.Tier][]lint.File{rules.Edge: {{Name: "rules/edge/images.rules.yaml", Content: []byte(linttest.Record)}}},
	})

	other := strings.Replace(linttest.Record, "ImagePullBackOff", "ErrImagePull", 1)
	team.Data["images.rules.yaml"] = other
	require.NoError(t, admin.Update(t.Context(), team))
	require.Eventually(t, func() bool { return testkit.Files(t, admin, "edge")["own-images.rules.yaml"] == other }, patience, 50*time.Millisecond)
}

// mark is the number of the change with which a central's files came; a render has but one.
var mark = regexp.MustCompile(`loaded-[0-9]+-`)

// sameAsRendered compares what servers were given with what is rendered as files.
func sameAsRendered(t *testing.T, admin client.Client, f *v1alpha1.Federation, own ownrules.Set) {
	t.Helper()
	fleet := tree.Fleet{Federation: *f}
	var cells v1alpha1.CellList
	require.NoError(t, admin.List(t.Context(), &cells))
	for _, c := range cells.Items {
		fleet.Cells = append(fleet.Cells, tree.Cell{Cell: c})
	}
	made, err := tree.Continue(fleet, tree.Options{Namespace: deploy.Namespace, Own: own})
	require.NoError(t, err)
	rendered := map[string]map[string]string{"hub/files/central-a/": {}, "hub/files/cascade-asia-0/": {}, "cells/answering/files/edge/": {}}
	require.NoError(t, made.Each(func(file tree.File) error {
		for folder, files := range rendered {
			if name, in := strings.CutPrefix(file.Path, folder); in {
				files[name] = string(file.Content)
			}
		}
		return nil
	}))
	for folder, files := range rendered {
		server := strings.Split(folder, "/")[strings.Count(folder, "/")-1]
		require.Eventually(t, func() bool { return cmp.Equal(unmarked(files), unmarked(testkit.Files(t, admin, server))) }, patience, 50*time.Millisecond, folder)
		require.Contains(t, files["prometheus.yml"]+files["own-images.rules.yaml"], "cluster:pods_without_image:count", folder)
	}
}

func unmarked(files map[string]string) map[string]string {
	out := map[string]string{}
	for name, content := range maps.All(files) {
		out[mark.ReplaceAllString(name, "loaded-")] = mark.ReplaceAllString(content, "loaded-")
	}
	return out
}
