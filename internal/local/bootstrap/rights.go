package bootstrap

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/local/components"
)

const mergePatch = types.MergePatchType

func rule(groups, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// account is a service account beside Pharos.
func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name}}
}

// accountRole grants rules in the whole cluster to a service account beside Pharos.
func accountRole(name string, rules ...rbacv1.PolicyRule) []client.Object {
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: deploy.Namespace, Name: name}
	return clusterRole(name, subject, rules)
}

// userRole grants rules in the whole cluster to a user with a client certificate.
func userRole(user string, rules ...rbacv1.PolicyRule) []client.Object {
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}
	return clusterRole(strings.ReplaceAll(user, ":", "-"), subject, rules)
}

func clusterRole(name string, to rbacv1.Subject, rules []rbacv1.PolicyRule) []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{to},
		},
	}
}

// kubeletRights are those of a process kubelet: its node and Lease, the pods on
// it with what they mount, the claims it turns into folders, and the Services
// it forwards.
func kubeletRights() []client.Object {
	return userRole(components.UserKubelet,
		rule([]string{""}, []string{"nodes", "pods"}, "get", "list", "watch", "create", "patch", "update", "delete"),
		rule([]string{""}, []string{"nodes/status", "pods/status"}, "patch", "update"),
		rule([]string{""}, []string{"configmaps", "secrets", "services"}, "get", "list", "watch"),
		rule([]string{""}, []string{"serviceaccounts/token"}, "create"),
		rule([]string{""}, []string{"persistentvolumes", "persistentvolumeclaims"}, "get", "list", "watch", "create", "patch", "update", "delete"),
		rule([]string{""}, []string{"persistentvolumes/status", "persistentvolumeclaims/status"}, "patch", "update"),
		rule([]string{"storage.k8s.io"}, []string{"storageclasses"}, "get", "list", "watch", "create", "patch", "update"),
		rule([]string{"", "events.k8s.io"}, []string{"events"}, "create", "patch", "update"),
		rule([]string{"coordination.k8s.io"}, []string{"leases"}, "get", "list", "watch", "create", "patch", "update"),
	)
}
