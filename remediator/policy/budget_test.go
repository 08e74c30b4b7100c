package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// bound adds a budget to the world.
func (w *world) bound(name string, spec api.FleetDisruptionBudgetSpec) {
	w.Budgets = append(w.Budgets, api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

// eager lets as many repairs begin as may be in flight.
func (w *world) eager() {
	w.bound("eager", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, SlowStart: api.SlowStartNone})
}

// ended is a repair of other hardware of the cell that was over a while ago.
func (w *world) ended(name string, phase api.RemediationPhase, ago time.Duration) {
	rem := w.open(name, phase)
	acted, end := metav1.NewTime(now.Add(-ago-time.Minute)), metav1.NewTime(now.Add(-ago))
	rem.Name, rem.Spec.Target.HardwareID = fmt.Sprintf("old-%s-%s", name, ago), "gone"
	rem.Status.ActedAt, rem.Status.RepairedAt = &acted, &end
	if phase == api.RemediationSucceeded {
		rem.Status.VerifiedAt = &end
	}
	rem.Status.EndedAt = &end
}

// Case C15: pools of one to ten machines.
// Shares are rounded down, and are one machine at least: this is the table of
// docs/reference/budgets.md.
func TestTheTableOfSmallPools(t *testing.T) {
	for percent, want := range map[int32][]int{
		10: {0, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		20: {0, 1, 1, 1, 1, 1, 1, 1, 1, 2},
		34: {0, 1, 1, 1, 1, 2, 2, 2, 3, 3},
		50: {0, 1, 1, 2, 2, 3, 3, 4, 4, 5},
	} {
		for n := 1; n <= 10; n++ {
			allowed := 0
			for sick := 1; sick <= n; sick++ {
				if mayRepair(n, sick, percent) {
					allowed = sick
				}
			}
			require.Equal(t, want[n-1], allowed, "%d machines, %d percent", n, percent)
		}
	}
}

// mayRepair says whether one of so many sick machines of a pool may be repaired by
// its budget. They stand in racks of their own, in a cluster large enough not to mind.
func mayRepair(n, sick int, percent int32) bool {
	w := newWorld(1, 100, 1)
	for i := range n {
		w.machine(fmt.Sprintf("shop-0-%02d", i)).Pool = "gpu"
	}
	for i := range sick {
		w.fail(fmt.Sprintf("shop-0-%02d", i))
	}
	w.bound("gpu", api.FleetDisruptionBudgetSpec{Level: api.BudgetPool, Names: []string{"gpu"}, MaxUnavailablePercent: &percent})
	w.policies[0].Spec.MaxUnhealthyPercent = ptr.To(int32(50)) // else the pool is suspected
	return len(acts(w.decide())) == 1
}

// Each level can say no by itself, and says which.
func TestEveryLevelHasItsBudget(t *testing.T) {
	one := ptr.To(int32(1))
	for name, c := range map[string]struct {
		spec api.FleetDisruptionBudgetSpec
		sick string
		want string
	}{
		"pool":      {api.FleetDisruptionBudgetSpec{Level: api.BudgetPool}, "shop-0-50", `2 of 100 machines of pool "workers" of cluster shop-0 in cell cell-0`},
		"cluster":   {api.FleetDisruptionBudgetSpec{Level: api.BudgetCluster}, "shop-0-50", "2 of 100 machines of cluster shop-0 in cell cell-0"},
		"cell":      {api.FleetDisruptionBudgetSpec{Level: api.BudgetCell}, "mall-0-05", "2 of 140 machines of cell cell-0"},
		"geography": {api.FleetDisruptionBudgetSpec{Level: api.BudgetGeography}, "shop-2-50", "2 of 240 machines of geography even"},
		"fleet":     {api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet}, "shop-1-50", "2 of 340 machines of the fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(3, 20, 5)
			w.addCluster(0, "mall-0", 20, 2)
			w.Cells[0].Geography, w.Cells[1].Geography, w.Cells[2].Geography = "even", "odd", "even"
			w.fail("shop-0-00")
			c.spec.MaxUnavailable = one
			w.bound("tight", c.spec)
			require.Equal(t, []string{"shop-0-00 Act Unhealthy"}, verdicts(w.decide()), "the one to be repaired is within the bound")
			w.fail(c.sick)
			plan := w.decide()
			require.Empty(t, acts(plan))
			require.Equal(t, policy.ReasonBudgetExceeded, decisionOn(plan, "shop-0-00").Reason)
			require.Equal(t, c.want+" are unavailable, at most 1 may be (budget tight)", decisionOn(plan, "shop-0-00").Message)
		})
	}
}

func decisionOn(p policy.Plan, machine string) policy.Decision {
	for _, d := range p.Decisions {
		if d.Machine.Name == machine {
			return d
		}
	}
	return policy.Decision{}
}

func TestAnotherLevelsBudgetIsNoMatter(t *testing.T) {
	w := newWorld(2, 20, 5)
	w.Cells[0].Geography, w.Cells[1].Geography = "asia", "europe"
	w.fail("shop-0-00")
	w.fail("shop-1-00")
	one := ptr.To(int32(1))
	w.bound("europe", api.FleetDisruptionBudgetSpec{Level: api.BudgetGeography, Names: []string{"africa"}, MaxUnavailable: one})
	w.bound("cells", api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, MaxUnavailable: one})
	w.bound("there", api.FleetDisruptionBudgetSpec{Level: api.BudgetCluster, Cells: []string{"cell-7"}, Freeze: api.Now, Reason: "move"})
	w.eager()
	require.Len(t, acts(w.decide()), 2)
}

// Case C11: one dead node in each of 900 clusters is no cluster's fault.
func TestOneInEachOfManyClustersIsTheFleets(t *testing.T) {
	w := newWorld(0, 0, 0)
	for c := range 1000 {
		w.addCell(c, 20, 5)
		if c < 501 {
			w.failLast(0)
		}
	}
	plan := w.decide()
	require.Empty(t, acts(plan))
	require.Len(t, plan.Decisions, 501)
	require.Equal(t, "501 of 100000 machines of the fleet are unavailable, at most 500 may be (built in)", plan.Decisions[0].Message)
}

// Case C13: what is under repair, cordoned or being deleted is unavailable.
func TestWhatIsUnderRepairIsUnavailable(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"verifying": func(w *world) { w.open("shop-1-00", api.RemediationVerifying) },
		"asked for": func(w *world) { w.machine("shop-1-00").Request = &api.RemediationRequest{ID: "by-hand"} },
		"running":   func(w *world) { running("old")(w.machine("shop-1-00")) },
		"deleting":  func(w *world) { w.machine("shop-1-00").Deleting = true },
		"cordoned":  func(w *world) { w.node("shop-1-00").Unschedulable = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2, 20, 5)
			w.fail("shop-0-00")
			w.bound("tight", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxUnavailable: ptr.To(int32(1)), SlowStart: api.SlowStartNone})
			change(w)
			require.Equal(t, policy.ReasonBudgetExceeded, decisionOn(w.decide(), "shop-0-00").Reason)
		})
	}
}

// What nobody sees is held where it is, by the evidence. It does not stop the rest.
func TestACellThatIsNotSeenDoesNotStopTheFleet(t *testing.T) {
	w := newWorld(3, 20, 5)
	w.fail("shop-0-00")
	w.bound("tight", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxUnavailable: ptr.To(int32(1))})
	w.Centrals[0].Heartbeats = w.Centrals[0].Heartbeats[:2]
	w.Cells[1].Err = "away"
	w.Cells[1].Machines = nil
	require.Equal(t, []string{"shop-0-00 Act Unhealthy"}, verdicts(w.decide()))
}

// A share is one of what is seen: what is not might as well be down.
func TestAShareIsOfWhatIsSeen(t *testing.T) {
	w := newWorld(3, 20, 5)
	for _, name := range []string{"shop-0-00", "shop-0-50", "shop-0-90"} {
		w.fail(name)
	}
	w.bound("tight", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxUnavailablePercent: ptr.To(int32(1))})
	require.Len(t, acts(w.decide()), 1, "three of 300")
	w.Centrals[0].Heartbeats = w.Centrals[0].Heartbeats[:2]
	plan := w.decide()
	require.Empty(t, acts(plan))
	require.Contains(t, plan.Decisions[0].Message, "3 of 200 machines of the fleet are unavailable, at most 2 may be")
}

// Whoever does not see most of the fleet suspects his eyes.
func TestMostOfTheFleetIsNotSeen(t *testing.T) {
	w := newWorld(3, 20, 5)
	w.fail("shop-0-00")
	w.Centrals[0].Heartbeats = w.Centrals[0].Heartbeats[:1]
	w.Cells[0].Geography = "asia"
	plan := w.decide()
	require.Equal(t, []string{"shop-0-00 Hold EvidenceMissing"}, verdicts(plan))
	require.Equal(t, "200 of 300 machines of the fleet are not seen: suspect what sees them", plan.Decisions[0].Message)
}

// Nodes that are none of our machines' are no reason to leave ours alone, elsewhere.
func TestNodesOfNoMachineCountInTheirClusterOnly(t *testing.T) {
	w := newWorld(2, 20, 5)
	w.fail("shop-0-00")
	for i := range 60 {
		for c := range w.Centrals {
			w.Centrals[c].Unhealthy = append(w.Centrals[c].Unhealthy, policy.NodeSample{Cell: "cell-1", Cluster: "shop-1", Node: fmt.Sprintf("nobody's-%d", i), At: now})
		}
	}
	require.Len(t, acts(w.decide()), 1)
}

// The floor of a built-in share is a fifth at most: of a fleet of 40 eight may be down.
func TestBuiltInFloors(t *testing.T) {
	for sick, want := range map[int]int{8: 1, 9: 0} {
		w := newWorld(20, 2, 1)
		for i := range sick {
			w.fail(fmt.Sprintf("shop-%d-00", i))
		}
		require.Len(t, acts(w.decide()), want, "%d of 40", sick)
	}
}

func TestNeverMoreThanHalf(t *testing.T) {
	w := newWorld(1, 100, 1)
	for i := range 5 {
		w.machine(fmt.Sprintf("shop-0-%02d", i)).Pool = "gpu"
	}
	w.bound("lavish", api.FleetDisruptionBudgetSpec{Level: api.BudgetPool, MaxUnavailable: ptr.To(int32(1000))})
	w.policies[0].Spec.MaxUnhealthyPercent = ptr.To(int32(50))
	w.fail("shop-0-00")
	w.fail("shop-0-01")
	require.Len(t, acts(w.decide()), 1)
	w.open("shop-0-02", api.RemediationVerifying)
	plan := w.decide()
	require.Empty(t, acts(plan))
	require.Contains(t, plan.Decisions[0].Message, "3 of 5 machines of pool")
}

// A cell that refuses every request does not take the fleet's first place for ever.
func TestWhatWasRefusedComesLast(t *testing.T) {
	w := newWorld(2, 20, 5)
	w.fail("shop-0-00")
	w.open("shop-0-00", api.RemediationPending)
	w.fail("shop-1-00")
	require.Equal(t, []string{"shop-1-00 Defer InFlight"}, verdicts(w.decide())[1:], "what is written down comes first")
	w.Remediations[0].Status.TriedAt = &metav1.Time{Time: now}
	require.Equal(t, []string{"shop-0-00 Defer InFlight", "shop-1-00 Act Unhealthy"}, verdicts(w.decide()))
}

// Without budgets nobody knows whether somebody has stopped repairs.
func TestBudgetsThatAreNotRead(t *testing.T) {
	w := newWorld(1, 20, 5)
	w.fail("shop-0-00")
	w.BudgetsErr = "listing disruption budgets: forbidden"
	plan := w.decide()
	require.Equal(t, []string{"shop-0-00 Hold EvidenceMissing"}, verdicts(plan))
	require.Equal(t, metav1.ConditionFalse, plan.Policies[0].Allowed)
}

// The figures of docs/reference/budgets.md, where no budget says otherwise.
func TestBuiltInFigures(t *testing.T) {
	w := newWorld(0, 0, 0)
	for c := range 20 {
		w.addCell(c, 200, 5)
	}
	w.fail("shop-0-00")
	w.eager()
	got := map[api.BudgetLevel]string{}
	for _, b := range acts(w.decide())[0].Spec.Budgets {
		got[b.Level] = fmt.Sprintf("%d of %d, %d", ptr.Deref(b.MaxUnavailable, 0), b.Machines, ptr.Deref(b.MaxInFlight, 0))
	}
	require.Equal(t, map[api.BudgetLevel]string{
		api.BudgetPool: "0 of 1000, 0", api.BudgetCluster: "0 of 1000, 1", api.BudgetCell: "50 of 1000, 4",
		api.BudgetGeography: "200 of 20000, 8", api.BudgetFleet: "100 of 20000, 10",
	}, got)
}

func TestMinAvailable(t *testing.T) {
	w := newWorld(1, 20, 5)
	w.fail("shop-0-00")
	w.bound("most", api.FleetDisruptionBudgetSpec{Level: api.BudgetCluster, MinAvailable: ptr.To(int32(99))})
	require.Len(t, acts(w.decide()), 1)
	w.bound("all", api.FleetDisruptionBudgetSpec{Level: api.BudgetCluster, MinAvailable: ptr.To(int32(100))})
	plan := w.decide()
	require.Equal(t, []string{"shop-0-00 Hold BudgetExceeded"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "at most 0 may be (budget all)")
}

func TestFreeze(t *testing.T) {
	window := func(from, until time.Duration) []api.FreezeWindow {
		return []api.FreezeWindow{{From: metav1.NewTime(now.Add(from)), Until: metav1.NewTime(now.Add(until)), Reason: "sale"}}
	}
	for name, c := range map[string]struct {
		spec api.FleetDisruptionBudgetSpec
		want string
	}{
		"now":            {api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "storm"}, "Hold Frozen"},
		"begun":          {api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freezes: window(0, time.Hour)}, "Hold Frozen"},
		"over":           {api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freezes: window(-time.Hour, 0)}, "Act Unhealthy"},
		"to come":        {api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freezes: window(time.Second, time.Hour)}, "Act Unhealthy"},
		"here":           {api.FleetDisruptionBudgetSpec{Level: api.BudgetGeography, Names: []string{"asia"}, Freezes: window(-1, time.Hour)}, "Hold Frozen"},
		"elsewhere":      {api.FleetDisruptionBudgetSpec{Level: api.BudgetGeography, Names: []string{"europe"}, Freezes: window(-1, time.Hour)}, "Act Unhealthy"},
		"of its pool":    {api.FleetDisruptionBudgetSpec{Level: api.BudgetPool, Names: []string{"workers"}, Cells: []string{"cell-0"}, Freezes: window(-1, time.Hour)}, "Hold Frozen"},
		"of its cluster": {api.FleetDisruptionBudgetSpec{Level: api.BudgetCluster, Names: []string{"shop-0"}, Freeze: api.Now, Reason: "move"}, "Hold Frozen"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 20, 5)
			w.Cells[0].Geography = "asia"
			w.fail("shop-0-00")
			w.bound("freeze", c.spec)
			require.Equal(t, []string{"shop-0-00 " + c.want}, verdicts(w.decide()))
		})
	}
}

func TestAFreezeSaysWhoWhyAndUntilWhen(t *testing.T) {
	w := newWorld(1, 20, 5)
	w.fail("shop-0-00")
	w.bound("sale", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freezes: []api.FreezeWindow{
		{From: metav1.NewTime(now.Add(-time.Hour)), Until: metav1.NewTime(now.Add(time.Minute)), Reason: "sale"},
	}})
	plan := w.decide()
	require.Equal(t, "in the fleet, budget sale freezes repairs, until 2026-03-01T12:01:00Z (sale)", plan.Decisions[0].Message)
	require.Equal(t, now.Add(time.Minute), plan.NextCheck)
	require.Equal(t, metav1.ConditionFalse, plan.Policies[0].Allowed)
	require.Equal(t, policy.ReasonFrozen, plan.Policies[0].Reason)
}

// A freeze takes back what the node operator has not begun, and lets go on what it has.
func TestAFreezeWithdrawsWhatIsNotBegun(t *testing.T) {
	for name, c := range map[string]struct {
		answer api.RepairPhase
		want   []string
	}{
		"unanswered": {"", []string{"rem-shop-0-00 Cancelled Frozen"}},
		"running":    {api.RepairRunning, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 20, 5)
			w.fail("shop-0-00")
			w.asked(w.open("shop-0-00", api.RemediationActing), c.answer)
			w.bound("stop", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "storm"})
			require.Equal(t, c.want, withdrawals(w.decide()))
		})
	}
}
