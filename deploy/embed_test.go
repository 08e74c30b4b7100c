package deploy_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/version"
)

func TestHubRunsTheGivenImage(t *testing.T) {
	objects, err := deploy.Hub("example.org/pharos:v9")
	require.NoError(t, err)

	var d appsv1.Deployment
	into(t, find(t, objects, "Deployment", "operator"), &d)
	c := d.Spec.Template.Spec.Containers[0]
	require.Equal(t, "example.org/pharos:v9", c.Image)
	require.Len(t, d.Spec.Template.Spec.Containers, 1)
}

// The manifest as it lies there runs the release that it belongs to.
func TestHubManifestRunsThisRelease(t *testing.T) {
	data, err := os.ReadFile("hub/30-operator.yaml")
	require.NoError(t, err)
	require.Contains(t, string(data), "image: "+version.Image+"\n")
}

func TestHubWithoutImageIsRefused(t *testing.T) {
	_, err := deploy.Hub("")
	require.ErrorContains(t, err, "no image given")
}

func TestCRDsAreComplete(t *testing.T) {
	objects, err := deploy.CRDs()
	require.NoError(t, err)
	for _, plural := range []string{"cells", "clusters", "federations", "machines", "remediationpolicies", "remediations"} {
		find(t, objects, "CustomResourceDefinition", plural+".pharos.dev")
	}
}

func TestClusterNamespaceIsPlaced(t *testing.T) {
	objects, err := deploy.ClusterNamespace("fleet")
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	for _, o := range objects {
		require.Equal(t, "fleet", o.GetNamespace())
	}
}

// Every binding must name a role and accounts that exist, and what a binding
// needs must come before it.
func TestBindingsHoldTogether(t *testing.T) {
	hub, err := deploy.Hub("example.org/pharos:v9")
	require.NoError(t, err)
	cell, err := deploy.Cell()
	require.NoError(t, err)
	clusters, err := deploy.ClusterNamespace("fleet")
	require.NoError(t, err)

	business, err := deploy.Business()
	require.NoError(t, err)

	for name, objects := range map[string][]*unstructured.Unstructured{"hub": hub, "cell": append(cell, clusters...), "business": business} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "Namespace", objects[0].GetKind())
			seen := map[string]bool{}
			for _, o := range objects {
				seen[o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName()] = true
				switch o.GetKind() {
				case "RoleBinding":
					var b rbacv1.RoleBinding
					into(t, o, &b)
					require.True(t, seen["Role/"+b.Namespace+"/"+b.RoleRef.Name], "role of %s", b.Name)
					requireSubjects(t, seen, b.Subjects)
				case "ClusterRoleBinding":
					var b rbacv1.ClusterRoleBinding
					into(t, o, &b)
					require.True(t, seen["ClusterRole//"+b.RoleRef.Name], "role of %s", b.Name)
					requireSubjects(t, seen, b.Subjects)
				}
			}
		})
	}
}

// Case C20: one account may evict, as budgets allow, and delete nothing.
// Case C21: no other can taint a node, and none deletes the pods of one that may live.
// No role of Pharos may grant itself more, or read Secrets or touch pods in the
// whole cluster; nodes/proxy would be a way into every pod.
func TestRolesAreNarrow(t *testing.T) {
	hub, err := deploy.Hub("example.org/pharos:v9")
	require.NoError(t, err)
	cell, err := deploy.Cell()
	require.NoError(t, err)
	clusters, err := deploy.ClusterNamespace("fleet")
	require.NoError(t, err)

	business, err := deploy.Business()
	require.NoError(t, err)

	for _, o := range slices.Concat(hub, cell, clusters, business) {
		if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		into(t, o, &role)
		if role.Name == "pharos-drain-access" {
			require.Equal(t, []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch"}},
				{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
				{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
			}, role.Rules)
			continue
		}
		for _, rule := range role.Rules {
			require.NotContains(t, rule.Verbs, "*", o.GetName())
			require.NotContains(t, rule.Resources, "*", o.GetName())
			require.NotContains(t, rule.APIGroups, "rbac.authorization.k8s.io", o.GetName())
			if o.GetKind() == "ClusterRole" {
				require.NotContains(t, rule.Resources, "secrets", o.GetName())
				require.NotContains(t, rule.Resources, "nodes/proxy", o.GetName())
				if slices.Contains(rule.Resources, "pods") {
					require.Subset(t, []string{"get", "list", "watch"}, rule.Verbs, o.GetName())
				}
			}
			require.NotContains(t, rule.Resources, "pods/eviction", o.GetName())
			for _, r := range rule.Resources {
				if r == "nodes" {
					require.Subset(t, []string{"get", "list", "watch"}, rule.Verbs, o.GetName())
				}
				if r == "secrets" {
					require.Equal(t, []string{"get"}, rule.Verbs, o.GetName())
				}
			}
		}
	}
}

func requireSubjects(t *testing.T, seen map[string]bool, subjects []rbacv1.Subject) {
	t.Helper()
	require.NotEmpty(t, subjects)
	for _, s := range subjects {
		require.True(t, seen[s.Kind+"/"+s.Namespace+"/"+s.Name], "subject %s", s.Name)
	}
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	require.Failf(t, "not found", "%s %s", kind, name)
	return nil
}

func into(t *testing.T, o *unstructured.Unstructured, typed any) {
	t.Helper()
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed))
}
