package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

func suspects(p policy.Plan) []string {
	out := []string{}
	for _, s := range p.Suspects {
		out = append(out, s.String())
	}
	return out
}

// failAll lets every machine that is chosen fail. Ready=False with a Lease in time keeps
// the path to the API server out of it.
func (w *world) failAll(chosen func(m policy.Machine) bool) {
	for _, c := range w.Cells {
		for _, m := range c.Machines {
			if chosen(m) {
				w.fail(m.Name)
				w.node(m.Name).Ready, w.lease(m.Name).Renewed = "False", now
			}
		}
	}
}

// Case C10: a rack of many clusters.
// One rack of machines of twelve clusters: each cluster is within its own gate.
func TestC10_OneRackOfTwelveClustersIsOneSuspect(t *testing.T) {
	w := newWorld(1, 12, 1)
	for i := range 11 {
		w.addCluster(0, fmt.Sprintf("mall-%d", i), 12, 1)
	}
	w.failAll(func(m policy.Machine) bool { return m.Rack == "rack-3" })
	w.fail("shop-0-07")
	w.bound("lavish", api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, MaxUnavailable: ptr.To(int32(50))})
	w.bound("too", api.FleetDisruptionBudgetSpec{Level: api.BudgetGeography, MaxUnavailable: ptr.To(int32(50))})
	plan := w.decide()
	require.Equal(t, []string{"rack rack-3 of zone zone-a in cell cell-0: 12 of 12 machines are unhealthy there, 1 of 132 elsewhere in zone zone-a of cell cell-0"}, suspects(plan))
	require.Len(t, plan.Suspects[0].Clusters, 12)
	held := 0
	for _, d := range plan.Decisions {
		if d.Reason == policy.ReasonCorrelatedFailure {
			held++
			require.Contains(t, d.Message, "suspect rack rack-3 of zone zone-a in cell cell-0: 12 of 12")
		}
	}
	require.Equal(t, 12, held)
	require.Equal(t, "shop-0-07", acts(plan)[0].Machine.Name, "a single failure elsewhere goes on")
}

func TestAnIncidentNamesFiftyClusters(t *testing.T) {
	w := newWorld(1, 12, 1)
	for i := range 59 {
		w.addCluster(0, fmt.Sprintf("mall-%02d", i), 12, 1)
	}
	w.failAll(func(m policy.Machine) bool { return m.Rack == "rack-3" })
	plan := w.decide()
	require.Len(t, plan.Suspects[0].Clusters, 60)
	require.Len(t, plan.Incidents[0].Status.Clusters, 50)
}

// The strictest of the policies that speak for what is sick says how much may be.
func TestTheStrictestPolicySaysHowMuchIsSuspicious(t *testing.T) {
	w := newWorld(1, 5, 20)
	w.policies[0].Spec.MaxUnhealthyPercent = ptr.To(int32(50))
	strict := acting("a-strict")
	strict.Spec.MatchAll, strict.Spec.Pools, strict.Spec.MaxUnhealthyPercent = "", []string{"strict"}, ptr.To(int32(10))
	w.policies = append(w.policies, strict)
	w.failAll(func(m policy.Machine) bool { return m.Name >= "shop-0-40" && m.Name < "shop-0-43" })
	require.Empty(t, w.decide().Suspects, "three of twenty are less than half")
	w.machine("shop-0-41").Pool = "strict"
	plan := w.decide()
	require.Len(t, plan.Suspects, 1)
	require.Equal(t, api.IncidentRack, plan.Suspects[0].Spec.Kind)
	require.Equal(t, int32(10), *plan.Suspects[0].Spec.MaxUnhealthyPercent)
}

// Case C10: a switch, a power feed, a pool.
// Behind one switch stand machines of every rack, each of which is within its gate; so
// is the cluster.
func TestC10_WhatIsNoRackIsSuspectedToo(t *testing.T) {
	for name, tc := range map[string]struct {
		give func(m *policy.Machine)
		want string
	}{
		"switch": {func(m *policy.Machine) { m.Switch = "leaf-7" }, "switch leaf-7 of zone zone-a in cell cell-0: 4 of 4"},
		"power":  {func(m *policy.Machine) { m.Power = "feed-b" }, "power feed feed-b of zone zone-a in cell cell-0: 4 of 4"},
		"pool":   {func(m *policy.Machine) { m.Pool = "gpu" }, `pool "gpu" of cluster shop-0 in cell cell-0: 4 of 4`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 5, 5)
			for i := range 4 {
				tc.give(w.machine(fmt.Sprintf("shop-0-%02d", 5*i)))
			}
			w.failAll(func(m policy.Machine) bool { return m.Switch+m.Power != "" || m.Pool == "gpu" })
			plan := w.decide()
			require.Empty(t, acts(plan))
			require.Len(t, plan.Suspects, 1)
			require.Contains(t, plan.Suspects[0].String(), tc.want)
			require.Equal(t, policy.ReasonCorrelatedFailure, plan.Decisions[0].Reason)
			require.Equal(t, "suspect "+plan.Suspects[0].String(), plan.Decisions[0].Message)
		})
	}
}

// Case C10: a zone of several cells.
// A zone of a region stands in two cells, each of which has others.
func TestC10_AZoneIsSuspectedAcrossCells(t *testing.T) {
	w := newWorld(2, 8, 5)
	for c := range w.Cells {
		w.Cells[c].Region = "east"
		for i := range w.Cells[c].Machines {
			m := &w.Cells[c].Machines[i]
			m.Zone = fmt.Sprintf("zone-%d", i/10)
		}
	}
	w.failAll(func(m policy.Machine) bool { return m.Zone == "zone-2" })
	plan := w.decide()
	require.Equal(t, []string{"zone zone-2 of region east: 20 of 20 machines are unhealthy there, 0 of 60 elsewhere in the fleet"}, suspects(plan))
	require.Equal(t, []string{"cell-0", "cell-1"}, plan.Suspects[0].Spec.Cells)
	w.Cells[1].Region = "west"
	require.Len(t, w.decide().Suspects, 2, "zones of two regions have nothing in common but a name")
}

// Of several suspects with the same machines the smallest stands for all; of a large one
// that no small one explains, the large.
func TestNestedSuspects(t *testing.T) {
	w := newWorld(1, 10, 5)
	w.addCluster(0, "mall-0", 1, 2)
	w.failAll(func(m policy.Machine) bool { return m.Cluster == "mall-0" })
	require.Contains(t, suspects(w.decide())[0], `pool "workers" of cluster mall-0 in cell cell-0: 2 of 2`)
	w = newWorld(2, 10, 5)
	w.failAll(func(m policy.Machine) bool { return m.Cluster == "shop-0" && m.Rack != "rack-9" })
	require.Equal(t, []string{`pool "workers" of cluster shop-0 in cell cell-0: 45 of 50 machines are unhealthy there, 0 of 0 elsewhere in cluster shop-0 in cell cell-0`},
		suspects(w.decide()), "each of nine racks is as sick as the others")
}

// Case C11: which no suspect explains.
// One bad machine in each of many clusters is no rack's and no cluster's: the budget of the
// fleet stops that.
func TestC11_OneInEachClusterIsNoSuspect(t *testing.T) {
	w := newWorld(30, 5, 4)
	for c := range w.Cells {
		w.fail(fmt.Sprintf("shop-%d-%02d", c, c%20))
	}
	w.bound("fleet", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxUnavailable: ptr.To(int32(10))})
	plan := w.decide()
	require.Empty(t, plan.Suspects)
	require.Empty(t, acts(plan))
	require.Equal(t, policy.ReasonBudgetExceeded, plan.Decisions[0].Reason)
}

// Case C03: centrals that disagree suspect nothing.
// Neither silence nor contradiction makes a suspect, though all that it touches is held.
func TestC02_C03_SuspectsNeedAgreement(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"one central does not list them": func(w *world) { w.Centrals[1].Unhealthy = nil },
		"one central is gone":            func(w *world) { w.Centrals[1] = policy.Central{Name: "central-b", Err: "connection refused"} },
		"samples are old": func(w *world) {
			for i := range w.Centrals[0].Unhealthy {
				w.Centrals[0].Unhealthy[i].At = now.Add(-290 * time.Second)
			}
		},
		"live nodes are well": func(w *world) {
			for i := range 5 {
				n := w.node(fmt.Sprintf("shop-0-%02d", i))
				n.Ready = "True"
				w.lease(n.Name).Renewed = now
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 8, 5)
			w.failAll(func(m policy.Machine) bool { return m.Rack == "rack-0" })
			require.Len(t, w.decide().Suspects, 1)
			spoil(w)
			plan := w.decide()
			require.Empty(t, plan.Suspects)
			require.Empty(t, acts(plan))
		})
	}
}

// Case C17: a cluster that its cell does not see.
// A cell that does not see a cluster any more says nothing of its machines: suspected is
// the path.
func TestC17_AClusterThatIsDownIsASuspect(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.addCluster(0, "mall-0", 4, 5)
	for i := range w.Centrals {
		w.Centrals[i].ClustersUp[1].Up = false
	}
	require.Equal(t, []string{"cluster mall-0 in cell cell-0: 20 of 20 machines are unhealthy there, 0 of 20 elsewhere in cell cell-0"}, suspects(w.decide()))
	w.Centrals[0].ClustersUp[1].Up = true
	require.Empty(t, w.decide().Suspects, "the centrals do not agree")
}

// Case C17: kubelets that fall silent together.
func TestC17_SilentKubeletsAreTheClustersPath(t *testing.T) {
	w := newWorld(2, 4, 5)
	for i := range 8 {
		w.fail(fmt.Sprintf("shop-0-%02d", (i%4)*5+i/4))
	}
	w.machine("shop-0-19").Pool = "other"
	plan := w.decide()
	require.Len(t, plan.Suspects, 1)
	require.Contains(t, plan.Suspects[0].String(), "shop-0 in cell cell-0: 8 of")
	require.Empty(t, acts(plan))
}

// The last look sees one cell. A zone that is as sick as the rest of the fleet would be
// the only sick one there.
func TestTheLastLookSuspectsNothingThatItCannotCompare(t *testing.T) {
	w := newWorld(2, 0, 0)
	w.policies[0].Spec.MaxUnhealthyPercent = ptr.To(int32(25))
	for _, level := range []api.BudgetLevel{api.BudgetFleet, api.BudgetGeography, api.BudgetCell} {
		w.bound("lavish-"+string(level), api.FleetDisruptionBudgetSpec{Level: level, MaxUnavailable: ptr.To(int32(1000))})
	}
	for i := range 10 {
		w.addCluster(0, fmt.Sprintf("mall-%d", i), 10, 1)
		m := w.machine(fmt.Sprintf("mall-%d-00", i))
		m.Zone, m.Rack = "zone-b", m.Name
		w.addCluster(1, fmt.Sprintf("bank-%d", i), 10, 1)
	}
	ill := []string{"mall-0-00", "mall-1-00", "mall-2-00", "bank-0-01", "bank-1-02", "bank-2-03"}
	for i := range 10 {
		ill = append(ill, fmt.Sprintf("bank-%d-%02d", i, i))
	}
	w.failAll(func(m policy.Machine) bool { return slices.Contains(ill, m.Name) })
	plan := w.decide()
	require.Empty(t, suspects(plan))
	d := acts(plan)[0]
	require.Equal(t, "mall-0-00", d.Machine.Name)
	live := w.Clusters[slices.IndexFunc(w.Clusters, func(c policy.LiveCluster) bool { return c.Cluster == "mall-0" })]
	f := policy.Fresh{Policy: &w.policies[0], Record: &api.Remediation{}, Machine: d.Machine, Live: live, Budgets: w.Budgets}
	require.Empty(t, policy.Confirm(d, f, now).Message)
}

// BenchmarkStorm is of the clusters of BenchmarkDecide. Every fifth cell is dead.
func BenchmarkStorm(b *testing.B) {
	for _, machines := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) {
			w := newWorld(0, 0, 0)
			for i := range machines / 10 {
				if i%50 == 0 {
					w.addCell(i/50, 0, 0)
				}
				w.addCluster(i/50, fmt.Sprintf("c%d", i), 2, 5)
				for j := range 10 * (1 - min(1, i/50%5)) {
					w.failLast(j)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if plan := w.decide(); len(plan.Suspects) != (machines+2499)/2500 {
					b.Fatalf("%d suspects", len(plan.Suspects))
				}
			}
		})
	}
}
