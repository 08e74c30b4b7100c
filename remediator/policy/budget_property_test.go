package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// anyBudgets spreads the cells over geographies and the machines over pools, and
// bounds some of them.
func anyBudgets(t *rapid.T, w *world) {
	for c := range w.Cells {
		w.Cells[c].Geography = rapid.SampledFrom([]string{"asia", "europe"}).Draw(t, "geography")
		for i := range w.Cells[c].Machines {
			w.Cells[c].Machines[i].Pool = fmt.Sprintf("pool-%d", i%3)
		}
	}
	names := map[api.BudgetLevel][]string{
		api.BudgetPool: {"pool-0", "pool-1"}, api.BudgetCluster: {"shop-0", "mall-1"}, api.BudgetCell: {"cell-0", "cell-2"}, api.BudgetGeography: {"asia"},
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "budgets") {
		spec := api.FleetDisruptionBudgetSpec{Level: rapid.SampledFrom([]api.BudgetLevel{
			api.BudgetPool, api.BudgetCluster, api.BudgetCell, api.BudgetGeography, api.BudgetFleet,
		}).Draw(t, "level")}
		if rapid.Bool().Draw(t, "named") {
			spec.Names = names[spec.Level]
		}
		few := func(label string, most int) *int32 {
			if n := rapid.IntRange(-most, most).Draw(t, label); n > 0 {
				return ptr.To(int32(n))
			}
			return nil
		}
		spec.MaxUnavailable, spec.MaxUnavailablePercent, spec.MinAvailable = few("most", 6), few("percent", 50), few("least", 40)
		spec.MaxInFlight, spec.SlowStart = few("in flight", 3), rapid.SampledFrom([]api.SlowStart{"", api.SlowStartNone, api.SlowStartDoubling}).Draw(t, "slow start")
		if rapid.IntRange(0, 9).Draw(t, "freeze") == 0 {
			spec.Freezes = []api.FreezeWindow{{From: metav1.NewTime(now), Until: metav1.NewTime(now.Add(time.Hour)), Reason: "test"}}
		}
		w.bound(fmt.Sprintf("budget-%d", i), spec)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "ended") {
		m := w.Cells[rapid.IntRange(0, len(w.Cells)-1).Draw(t, "where")].Machines[0].Name
		w.ended(m, rapid.SampledFrom([]api.RemediationPhase{api.RemediationSucceeded, api.RemediationSucceeded, api.RemediationFailed}).Draw(t, "how"),
			time.Duration(i+1)*20*time.Minute)
	}
}

// inScope is the second, plain implementation of what a budget covers.
func inScope(b api.FleetDisruptionBudgetSpec, cell policy.Cell, m policy.Machine, of policy.Cell, target policy.Machine) bool {
	switch b.Level {
	case api.BudgetFleet:
		return true
	case api.BudgetGeography:
		return cell.Geography == of.Geography
	case api.BudgetCell:
		return cell.Name == of.Name
	case api.BudgetCluster:
		return cell.Name == of.Name && m.Cluster == target.Cluster
	default:
		return cell.Name == of.Name && m.Cluster == target.Cluster && m.Pool == target.Pool
	}
}

func named(b api.FleetDisruptionBudgetSpec, cell policy.Cell, m policy.Machine) bool {
	of := map[api.BudgetLevel]string{api.BudgetPool: m.Pool, api.BudgetCluster: m.Cluster, api.BudgetCell: cell.Name, api.BudgetGeography: cell.Geography}
	return len(b.Names) == 0 || slices.Contains(b.Names, of[b.Level])
}

// count goes through every machine of the fleet for one budget and one target.
func (w *world) count(b api.FleetDisruptionBudgetSpec, of policy.Cell, target policy.Machine) (known, unavailable, inFlight int) {
	ids := map[string]bool{}
	for _, cell := range w.Cells {
		for _, m := range cell.Machines {
			if !inScope(b, cell, m, of, target) {
				continue
			}
			bad := w.repairs(m, ids) || w.saidToBeUnwell(cell, m)
			if bad || w.seen(cell, m) {
				known++
			}
			if bad {
				unavailable++
			}
		}
	}
	return known, unavailable, len(ids)
}

// repairs adds what is in flight on a machine, and says whether a record of it is open.
func (w *world) repairs(m policy.Machine, ids map[string]bool) (open bool) {
	if m.Request != nil {
		ids[m.Request.ID] = true
	}
	if m.Response != nil && m.Response.Phase == api.RepairRunning {
		ids[m.Response.ID] = true
	}
	for _, r := range w.Remediations {
		if r.Spec.Target.MachineUID != m.UID || r.Status.Phase.Final() {
			continue
		}
		open = true
		if r.Status.Phase == api.RemediationActing || r.Status.Phase == api.RemediationVerifying {
			ids[r.Name] = true
		}
	}
	return open
}

func (w *world) saidToBeUnwell(cell policy.Cell, m policy.Machine) bool {
	n, l := w.node(m.Node), w.lease(m.Node)
	i := slices.IndexFunc(w.Clusters, func(c policy.LiveCluster) bool { return c.Cell == cell.Name && c.Cluster == m.Cluster })
	readable := w.Clusters[i].Err == ""
	listed := slices.ContainsFunc(w.Centrals, func(c policy.Central) bool {
		return slices.ContainsFunc(c.Unhealthy, func(s policy.NodeSample) bool { return s.Node == m.Node })
	})
	beats := now.Sub(l.Renewed) < 40*time.Second
	fine := readable && w.Clusters[i].ClockSkew.Duration == 0 && n.Ready == "True" && beats
	return m.Request != nil || m.Response != nil && m.Response.Phase == api.RepairRunning ||
		listed && !fine || n.Ready != "True" || !beats
}

func (w *world) seen(cell policy.Cell, m policy.Machine) bool {
	unreadable := func(c policy.LiveCluster) bool { return c.Cell == cell.Name && c.Cluster == m.Cluster && c.Err != "" }
	blind := func(c policy.Central) bool {
		beating := slices.ContainsFunc(c.Heartbeats, func(h policy.CellSample) bool { return h.Cell == cell.Name && now.Sub(h.At) <= time.Minute })
		return !beating || !sees(c, cell.Name, m.Cluster)
	}
	return !slices.ContainsFunc(w.Clusters, unreadable) && !slices.ContainsFunc(w.Centrals, blind)
}

// Whatever budgets say, each act is within every one of them, counted machine by
// machine, together with all that are begun in the same round.
func TestNeverOverBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		anyBudgets(t, w)
		begun := acts(w.decide())
		for _, d := range begun {
			of := w.Cells[slices.IndexFunc(w.Cells, func(c policy.Cell) bool { return c.Name == d.Cell })]
			for _, b := range w.Budgets {
				if !named(b.Spec, of, d.Machine) {
					continue
				}
				known, unavailable, inFlight := w.count(b.Spec, of, d.Machine)
				if len(b.Spec.Freezes) > 0 {
					t.Fatalf("%s is repaired in a freeze", d.Machine.Name)
				}
				if most := allowed(b.Spec, known); unavailable > most {
					t.Fatalf("%s is repaired beside %d unavailable of %d, at most %d by %+v", d.Machine.Name, unavailable, known, most, b)
				}
				for _, other := range begun {
					cell := w.Cells[slices.IndexFunc(w.Cells, func(c policy.Cell) bool { return c.Name == other.Cell })]
					if inScope(b.Spec, cell, other.Machine, of, d.Machine) && other.Machine.Request == nil {
						inFlight++
					}
				}
				if most := b.Spec.MaxInFlight; most != nil && inFlight > int(*most) {
					t.Fatalf("%s is repaired as one of %d, at most %d by %+v", d.Machine.Name, inFlight, *most, b)
				}
			}
		}
	})
}

// allowed counts upwards, as a person would with the table.
func allowed(b api.FleetDisruptionBudgetSpec, machines int) int {
	if b.MaxUnavailable == nil && b.MaxUnavailablePercent == nil && b.MinAvailable == nil {
		return machines
	}
	most := 0
	for n := 1; n <= machines; n++ {
		if within(b, n, machines) {
			most = n
		}
	}
	return most
}

func within(b api.FleetDisruptionBudgetSpec, n, machines int) bool {
	half := n == 1 || 2*n <= machines
	absolute := b.MaxUnavailable == nil || n <= int(*b.MaxUnavailable)
	percent := b.MaxUnavailablePercent == nil || n == 1 || 100*n <= int(*b.MaxUnavailablePercent)*machines
	available := b.MinAvailable == nil || machines-n >= int(*b.MinAvailable)
	return half && absolute && percent && available
}
