package workload

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// twins are the labels that a part has in common with the other of its pair.
func twins(part Part, program string) map[string]string {
	l := Selector(part, program)
	delete(l, v1alpha1.LabelReplica)
	return l
}

// spread keeps two servers that watch the same off one node, if there is another
// node that would take one, and out of one zone if that is possible. A node that
// takes no pods does not count, so that a single node may have both.
func spread(part Part, program string) []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	of := func(key string, otherwise corev1.UnsatisfiableConstraintAction) *corev1ac.TopologySpreadConstraintApplyConfiguration {
		return corev1ac.TopologySpreadConstraint().
			WithMaxSkew(1).WithTopologyKey(key).WithWhenUnsatisfiable(otherwise).
			WithNodeTaintsPolicy(corev1.NodeInclusionPolicyHonor).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(twins(part, program)))
	}
	return []*corev1ac.TopologySpreadConstraintApplyConfiguration{
		of(corev1.LabelHostname, corev1.DoNotSchedule), of(corev1.LabelTopologyZone, corev1.ScheduleAnyway),
	}
}

// PairBudget lets nobody who empties nodes take all servers that stand in for each
// other at once. It
// is called as the pair: what the part is called, without its replica.
func (p Place) PairBudget(part Part, program string) Objects {
	name := strings.TrimSuffix(part.Name, "-"+part.Labels[v1alpha1.LabelReplica])
	labels := p.labels(part, program)
	delete(labels, v1alpha1.LabelReplica)
	b := policyv1ac.PodDisruptionBudget(name, p.Namespace).
		WithLabels(labels).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMinAvailable(intstr.FromInt32(1)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(twins(part, program))))
	if p.Owner != nil {
		b.WithOwnerReferences(p.Owner)
	}
	return Objects{b}
}
