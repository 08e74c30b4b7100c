package signal

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// mark is what another controller leaves on a Node while it works on it, by the name that
// its own documentation gives it. What is a mere wish, as the Cluster Autoscaler's
// DeletionCandidate, is none.
type mark struct{ key, means string }

var takenBy = []mark{
	{"ToBeDeletedByClusterAutoscaler", "the Cluster Autoscaler deletes it"},
	{"karpenter.sh/disrupted", "Karpenter replaces it"},
	{"medik8s.io/remediation", "a medik8s remediator works on it"},
	{"node.kubernetes.io/out-of-service", "somebody has declared it out of service"},
	{"aws-node-termination-handler/spot-itn", "its cloud takes it away"},
	{"cloud.google.com/impending-node-termination", "its cloud takes it away"},
	{"weave.works/kured-reboot-in-progress", "kured reboots it"},
}

// owner says which other controller works on a node, by a taint or an annotation.
func owner(n *corev1.Node) string {
	for _, m := range takenBy {
		if _, is := n.Annotations[m.key]; is {
			return m.means + ", by the annotation " + m.key
		}
		for _, t := range n.Spec.Taints {
			if t.Key == m.key && !fencedByUs(n, t.Key) {
				return m.means + ", by the taint " + m.key
			}
		}
	}
	return ""
}

// fencedByUs says whether a taint is our own word that the node is off.
func fencedByUs(n *corev1.Node, key string) bool {
	return key == api.TaintOutOfService && n.Annotations[api.AnnotationFencedBy] != ""
}

// controlPlane says whether a node is part of a control plane.
func controlPlane(n *corev1.Node) bool {
	for label := range n.Labels {
		if role, is := strings.CutPrefix(label, "node-role.kubernetes.io/"); is && policy.ControlPlaneRole(role) {
			return true
		}
	}
	return false
}

// Upgrade says from which version to which a cluster is on its way, and is empty for one
// that is not, or of which it is not known. Versions are compared as far as the one
// that is wanted goes; one that cannot be read is another.
func Upgrade(c *api.Cluster) string {
	want, have := c.Spec.Version, c.Status.Version
	if want == "" || have == "" || same(want, have) {
		return ""
	}
	return fmt.Sprintf("%s to %s", have, want)
}

func same(want, have string) bool {
	w, errWant := version.ParseGeneric(want)
	h, errHave := version.ParseGeneric(have)
	if cmp.Or(errWant, errHave) != nil {
		return want == have
	}
	for i, number := range w.Components() {
		if at := h.Components(); i >= len(at) || at[i] != number {
			return false
		}
	}
	return true
}
