package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Both servers of a pair, and nothing else, are spread and kept together.
func TestAPairIsKeptApart(t *testing.T) {
	part := func(name, shard, replica string) Part {
		return Part{Name: name, Component: v1alpha1.ComponentEdge, Labels: map[string]string{v1alpha1.LabelShard: shard, v1alpha1.LabelReplica: replica}}
	}
	a, b, other := part("edge", "0", "a"), part("edge-0-b", "0", "b"), part("edge-1-a", "1", "a")
	require.Equal(t, twins(a, Prometheus), twins(b, Prometheus))
	require.NotEqual(t, twins(a, Prometheus), twins(other, Prometheus))

	keys := map[string]corev1.UnsatisfiableConstraintAction{}
	for _, c := range spread(a, Prometheus) {
		keys[*c.TopologyKey] = *c.WhenUnsatisfiable
		require.EqualValues(t, 1, *c.MaxSkew)
		require.Equal(t, twins(b, Prometheus), c.LabelSelector.MatchLabels)
		require.Equal(t, corev1.NodeInclusionPolicyHonor, *c.NodeTaintsPolicy)
	}
	require.Equal(t, map[string]corev1.UnsatisfiableConstraintAction{
		corev1.LabelHostname: corev1.DoNotSchedule, corev1.LabelTopologyZone: corev1.ScheduleAnyway,
	}, keys)

	budget := Place{Namespace: "n"}.PairBudget(b, Prometheus)[0].(*policyv1ac.PodDisruptionBudgetApplyConfiguration)
	require.Equal(t, "edge-0", *budget.Name)
	require.Equal(t, 1, budget.Spec.MinAvailable.IntValue())
	require.Equal(t, twins(a, Prometheus), budget.Spec.Selector.MatchLabels)
}
