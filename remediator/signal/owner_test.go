package signal

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Case C21: a node that somebody has declared out of service is theirs.
// Case C26: two controllers on one node.
func TestOwner(t *testing.T) {
	for name, tc := range map[string]struct {
		node corev1.Node
		want string
	}{
		"nobody":                    {corev1.Node{}, ""},
		"a taint of no controller":  {tainted("node.kubernetes.io/unreachable"), ""},
		"a wish":                    {tainted("DeletionCandidateOfClusterAutoscaler"), ""},
		"the Cluster Autoscaler":    {tainted("ToBeDeletedByClusterAutoscaler"), "the Cluster Autoscaler deletes it, by the taint ToBeDeletedByClusterAutoscaler"},
		"Karpenter":                 {tainted("karpenter.sh/disrupted"), "Karpenter replaces it, by the taint karpenter.sh/disrupted"},
		"medik8s":                   {tainted("medik8s.io/remediation"), "a medik8s remediator works on it, by the taint medik8s.io/remediation"},
		"somebody who has fenced":   {tainted("node.kubernetes.io/out-of-service"), "somebody has declared it out of service, by the taint node.kubernetes.io/out-of-service"},
		"kured":                     {corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"weave.works/kured-reboot-in-progress": ""}}}, "kured reboots it, by the annotation weave.works/kured-reboot-in-progress"},
		"an annotation like a mark": {corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"weave.works/kured": "x"}}}, ""},
	} {
		require.Equal(t, tc.want, owner(&tc.node), name)
	}
}

func tainted(key string) corev1.Node {
	return corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "other"}, {Key: key, Effect: corev1.TaintEffectNoExecute}}}}
}

// Case C28: a roll-out in progress.
func TestUpgrade(t *testing.T) {
	for _, tc := range []struct{ want, have, upgrade string }{
		{"", "v1.37.2", ""},
		{"v1.37.2", "", ""},
		{"v1.37.2", "v1.37.2", ""},
		{"v1.37.2", "v1.37.2+k3s1", ""},
		{"1.37", "v1.37.2-gke.100", ""},
		{"v1.37.2", "v1.36.9", "v1.36.9 to v1.37.2"},
		{"v1.37.1", "v1.37.2", "v1.37.2 to v1.37.1"},
		{"v1.37.2", "v1.37", "v1.37 to v1.37.2"},
		{"latest", "v1.37.2", "v1.37.2 to latest"},
		{"latest", "latest", ""},
	} {
		c := &api.Cluster{Spec: api.ClusterSpec{Version: tc.want}, Status: api.ClusterStatus{Version: tc.have}}
		require.Equal(t, tc.upgrade, Upgrade(c), "%s wanted, %s had", tc.want, tc.have)
	}
}

func TestControlPlane(t *testing.T) {
	require.False(t, controlPlane(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}}))
	for _, role := range []string{"control-plane", "master", "etcd"} {
		require.True(t, controlPlane(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"node-role.kubernetes.io/" + role: ""}}}), role)
	}
}
