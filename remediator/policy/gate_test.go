package policy_test

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Case C10: a rack that is out is one failure.
func TestWholeRackIsHeldAndOthersGoOn(t *testing.T) {
	w := newWorld(2, 4, 5)
	for i := range 5 {
		w.fail(fmt.Sprintf("shop-0-%02d", i))
	}
	w.fail("shop-1-07")
	plan := w.decide()
	require.Equal(t, []string{
		"shop-0-00 Hold CorrelatedFailure", "shop-0-01 Hold CorrelatedFailure", "shop-0-02 Hold CorrelatedFailure",
		"shop-0-03 Hold CorrelatedFailure", "shop-0-04 Hold CorrelatedFailure", "shop-1-07 Act Unhealthy",
	}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "5 of 5 machines of rack")
}

// Case C17: kubelets that fall silent together point at the path.
// One in each of four racks is within the gate of every rack and, just, of the
// cluster. But a fifth of the kubelets fell silent at once.
func TestSilenceAcrossRacksSuspectsThePath(t *testing.T) {
	w := newWorld(1, 4, 5)
	for _, node := range []string{"shop-0-00", "shop-0-05", "shop-0-10", "shop-0-15"} {
		w.fail(node)
	}
	plan := w.decide()
	require.Equal(t, []string{
		"shop-0-00 Hold ControlPathSuspected", "shop-0-05 Hold ControlPathSuspected",
		"shop-0-10 Hold ControlPathSuspected", "shop-0-15 Hold ControlPathSuspected",
	}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "4 of 20 Leases of cluster shop-0 are old")
}

func TestRackOfALargeClusterIsCorrelated(t *testing.T) {
	w := newWorld(1, 20, 5)
	w.fail("shop-0-00")
	w.fail("shop-0-01")
	w.fail("shop-0-50")
	plan := w.decide()
	require.Equal(t, []string{
		"shop-0-00 Hold CorrelatedFailure", "shop-0-01 Hold CorrelatedFailure", "shop-0-50 Act Unhealthy",
	}, verdicts(plan))
	require.Equal(t, "2 of 5 machines of rack rack-0 are unhealthy, at most 1 may be (20 percent); "+
		"suspect rack rack-0 of zone zone-a in cell cell-0: 2 of 5 machines are unhealthy there, 1 of 95 elsewhere in zone zone-a of cell cell-0", plan.Decisions[0].Message)
}

// The first node of a dying rack is listed some seconds before the others. Their
// Leases tell that they are going, too.
func TestDyingRackIsKnownByItsLeases(t *testing.T) {
	w := newWorld(1, 20, 5)
	w.fail("shop-0-00")
	w.lease("shop-0-01").Renewed = now.Add(-41 * time.Second)
	require.Equal(t, []string{"shop-0-00 Hold CorrelatedFailure"}, verdicts(w.decide()))
}

func TestOneCentralIsEnoughToCloseTheGate(t *testing.T) {
	w := newWorld(1, 20, 5)
	w.fail("shop-0-00")
	w.Centrals[1].Unhealthy = append(w.Centrals[1].Unhealthy, policy.NodeSample{Cell: "cell-0", Cluster: "shop-0", Node: "shop-0-50", At: now})
	require.Equal(t, "shop-0-00 Act Unhealthy", verdicts(w.decide())[0], "elsewhere in the cluster is no matter")
	w.Centrals[1].Unhealthy[1].Node = "shop-0-01"
	w.Clusters[0].Nodes = w.Clusters[0].Nodes[:1] // only the suspect was read
	require.Equal(t, "shop-0-00 Hold CorrelatedFailure", verdicts(w.decide())[0])
}

// Case C13: what is under repair is not well.
func TestWhatIsUnderRepairCountsAsUnhealthy(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"verifying":     func(w *world) { w.open("shop-0-01", api.RemediationVerifying) },
		"asked for":     func(w *world) { w.machine("shop-0-01").Request = &api.RemediationRequest{ID: "by-hand"} },
		"being deleted": func(w *world) { w.machine("shop-0-01").Deleting = true },
		"cordoned":      func(w *world) { w.node("shop-0-01").Unschedulable = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 20, 5)
			w.fail("shop-0-00")
			change(w)
			plan := w.decide()
			require.Equal(t, []string{"shop-0-00 Hold CorrelatedFailure"}, verdicts(plan))
			require.Contains(t, plan.Decisions[0].Message, "2 of 5")
		})
	}
}

// Case C15: racks of one to twelve machines.
// A share is rounded down, and is one machine at least: in a rack of four one may
// be sick. A lone machine is for people.
func TestGateOfSmallRacks(t *testing.T) {
	for machines := 1; machines <= 12; machines++ {
		for sick, want := range []string{"Act Unhealthy", "Hold CorrelatedFailure"} {
			w := newWorld(1, 1, machines)
			w.addCluster(0, "mall-0", 20, 1)
			for i := range min(machines, sick+1) {
				w.fail(fmt.Sprintf("shop-0-%02d", i))
				// Ready=False with a Lease in time keeps the path out of suspicion.
				name := fmt.Sprintf("shop-0-%02d", i)
				w.node(name).Ready, w.lease(name).Renewed = "False", now
			}
			switch {
			case machines == 1:
				want = "Hold LoneMachine"
			case machines >= 10 && sick == 1:
				want = "Act Unhealthy"
			}
			require.Equal(t, "shop-0-00 "+want, verdicts(w.decide())[0], "%d machines, %d sick", machines, sick+1)
		}
	}
}

// Case C15: the only machine of a pool is for people.
// The only machine of a pool is not repaired by itself, however many others its
// cluster has.
func TestALoneMachine(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail("shop-0-00")
	w.machine("shop-0-00").Pool = "gpu"
	plan := w.decide()
	require.Equal(t, []string{"shop-0-00 Hold LoneMachine"}, verdicts(plan))
	require.Equal(t, `it is the only machine of pool "gpu" of cluster shop-0 in cell cell-0: what a repair takes with it is for people to weigh`,
		plan.Decisions[0].Message)
	w.machine("shop-0-01").Pool = "gpu"
	require.Len(t, acts(w.decide()), 1)
	w.machine("shop-0-01").InUse = false
	require.Empty(t, acts(w.decide()), "a spare serves nobody")
}

// The oracle counts each rack and cluster the long way, in fractions.
func TestGateAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks, perRack := rapid.IntRange(1, 6).Draw(t, "racks"), rapid.IntRange(1, 12).Draw(t, "perRack")
		percent := rapid.IntRange(1, 50).Draw(t, "percent")
		w := newWorld(1, racks, perRack)
		w.policies[0].Spec.MaxUnhealthyPercent = ptr.To(int32(percent))
		sickNodes := map[string]bool{}
		for _, m := range w.Cells[0].Machines {
			if rapid.IntRange(0, 9).Draw(t, m.Name) == 0 {
				w.fail(m.Name)
				// Ready=False with a Lease in time keeps the path out of suspicion.
				w.node(m.Name).Ready, w.lease(m.Name).Renewed = "False", now
				sickNodes[m.Name] = true
			}
		}
		for _, d := range w.decide().Decisions {
			held := d.Reason == policy.ReasonCorrelatedFailure
			if d.Reason == policy.ReasonLoneMachine {
				if racks*perRack != 1 {
					t.Fatalf("%s is not alone", d.Machine.Name)
				}
				continue
			}
			inRack := func(m policy.Machine) bool { return m.Rack == d.Machine.Rack }
			all := func(policy.Machine) bool { return true }
			want := tooMany(w, sickNodes, inRack, percent) || tooMany(w, sickNodes, all, percent)
			if held != want {
				t.Fatalf("%s: held %v, oracle says %v: %s", d.Machine.Name, held, want, d.Message)
			}
		}
	})
}

func tooMany(w *world, sick map[string]bool, in func(policy.Machine) bool, percent int) bool {
	var total, bad int64
	for _, m := range w.Cells[0].Machines {
		if in(m) {
			total++
			if sick[m.Name] {
				bad++
			}
		}
	}
	return bad > 1 && big.NewRat(bad, total).Cmp(big.NewRat(int64(percent), 100)) > 0
}

// A cluster that some source does not see may be as unhealthy as can be. What
// stands in its racks is held, whichever cluster it belongs to.
func TestClustersThatCannotBeSeenCountAsUnhealthy(t *testing.T) {
	for name, tc := range map[string]struct {
		darken func(w *world)
		want   string
	}{
		"seen by all":             {func(*world) {}, "Act Unhealthy"},
		"down at one central":     {func(w *world) { w.Centrals[0].ClustersUp[1].Up = false }, "Hold CorrelatedFailure"},
		"unknown at one central":  {func(w *world) { w.Centrals[1].ClustersUp = w.Centrals[1].ClustersUp[:1] }, "Hold CorrelatedFailure"},
		"stale at one central":    {func(w *world) { w.Centrals[1].ClustersUp[1].At = now.Add(-61 * time.Second) }, "Hold CorrelatedFailure"},
		"read, and unreadable":    {func(w *world) { w.Clusters[1].Err = "away" }, "Hold CorrelatedFailure"},
		"read by a strange clock": {func(w *world) { w.Clusters[1].ClockSkew.Duration = -time.Minute }, "Hold CorrelatedFailure"},
		"not read":                {func(w *world) { w.Clusters = w.Clusters[:1] }, "Act Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 4, 5)
			w.addCluster(0, "mall-0", 1, 2)
			w.fail("shop-0-00")
			w.fail("shop-0-05")
			w.policies[0].Spec.MaxUnhealthyPercent = ptr.To(int32(21))
			w.lease("shop-0-05").Renewed = now // listed and not confirmed: only a second number in the tally
			tc.darken(w)
			plan := w.decide()
			require.Equal(t, "shop-0-00 "+tc.want, verdicts(plan)[0])
			if tc.want != "Act Unhealthy" {
				require.Equal(t, "3 of 7 machines of rack rack-0 are unhealthy, at most 1 may be (21 percent)", plan.Decisions[0].Message)
			}
		})
	}
}

func TestRunningJobCountsAsUnavailable(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.addCluster(0, "mall-0", 1, 4)
	w.fail("shop-0-00")
	require.Len(t, acts(w.decide()), 1, "one of nine")
	running("old")(w.machine("mall-0-00"))
	require.Equal(t, []string{"shop-0-00 Hold CorrelatedFailure"}, verdicts(w.decide()), "two of nine")
}

// A machine that was handed to people waits for them. For a day it counts: many that
// fail have one cause.
func TestWhatWaitsForPeopleSinceYesterday(t *testing.T) {
	for ago, want := range map[time.Duration]int{23 * time.Hour: 0, 24 * time.Hour: 1} {
		w := newWorld(2, 20, 5)
		w.fail("shop-0-00")
		w.fail("shop-1-00")
		w.ended("shop-1-00", api.RemediationEscalated, ago)
		w.Remediations[0].Spec.Target.HardwareID = "hw-shop-1-00"
		w.bound("tight", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxUnavailable: ptr.To(int32(1))})
		require.Len(t, acts(w.decide()), want, "%s ago", ago)
	}
}

// One that is well again, though nobody acknowledged that it was handed to people, is no
// machine less that is unavailable.
func TestWhatWaitsForPeopleAndIsWell(t *testing.T) {
	w := newWorld(3, 20, 5)
	w.fail("shop-0-00")
	w.fail("shop-2-00")
	w.ended("shop-1-00", api.RemediationEscalated, 48*time.Hour)
	w.Remediations[0].Spec.Target.HardwareID = "hw-shop-1-00"
	w.bound("tight", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxUnavailable: ptr.To(int32(1))})
	plan := w.decide()
	require.Empty(t, acts(plan))
	require.Contains(t, plan.Decisions[0].Message, "2 of 300 machines of the fleet are unavailable")
}
