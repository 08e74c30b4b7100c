package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

func (w *world) reason(t *testing.T) policy.Reason {
	t.Helper()
	all := w.decide().Decisions
	require.Len(t, all, 1)
	return all[0].Reason
}

func TestTwoAnswersOfOneClusterAreNone(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.policies[0].Spec.MaxUnhealthyPercent = ptr.To[int32](100)
	w.fail("shop-0-03")
	require.Equal(t, policy.ReasonUnhealthy, w.reason(t))
	w.Clusters = append(w.Clusters, w.Clusters[0])
	require.Equal(t, policy.ReasonLiveUnknown, w.reason(t))
}

func TestTwoNodesOfOneNameAreNone(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail("shop-0-03")
	w.Clusters[0].Nodes = append(w.Clusters[0].Nodes, *w.node("shop-0-03"))
	require.Equal(t, policy.ReasonLiveUnknown, w.reason(t))
}

// A node that a spare claims, too, is in use, whichever of the two is found first.
func TestTheControlPathIsThatOfNodesInUse(t *testing.T) {
	for _, first := range []string{"aa", "zz"} {
		w := newWorld(1, 2, 5)
		w.policies[0].Spec.MaxUnhealthyPercent = ptr.To[int32](100)
		w.fail("shop-0-03")
		w.lease("shop-0-05").Renewed = now.Add(-w.lease("shop-0-05").Duration.Duration)
		spare := *w.machine("shop-0-05")
		spare.Name, spare.UID, spare.HardwareID, spare.InUse = first, "uid-"+first, "hw-"+first, false
		w.Cells[0].Machines = append(w.Cells[0].Machines, spare)
		require.Equal(t, policy.ReasonControlPathSuspected, w.reason(t), first)
	}
}

// A cell that was restored from a backup beside itself has the machines of the
// other, and no record of a repair says which of them it was for.
func TestTwoMachinesOfOneIdentityAreHeld(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.fail("shop-0-03")
	w.machine("shop-1-07").UID = w.machine("shop-0-03").UID
	require.Equal(t, policy.ReasonDuplicateMachine, w.reason(t))
}
