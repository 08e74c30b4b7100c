package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// BenchmarkDecide is of clusters of ten machines, fifty in each cell, of which
// every tenth has one that failed; and of the same with what a fleet of that size has
// after some months.
func BenchmarkDecide(b *testing.B) {
	for _, machines := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) {
			w := crowd(machines / 10)
			w.readSuspects()
			b.ReportAllocs()
			for b.Loop() {
				w.decide()
			}
		})
		b.Run(fmt.Sprintf("machines=%d,past", machines), func(b *testing.B) {
			w := crowd(machines / 10)
			w.grownOld()
			w.readSuspects()
			b.ReportAllocs()
			for b.Loop() {
				w.decide()
			}
		})
	}
}

func crowd(clusters int) *world {
	w := newWorld(0, 0, 0)
	for i := range clusters {
		if i%50 == 0 {
			w.addCell(i/50, 0, 0)
		}
		name := fmt.Sprintf("c%d", i)
		w.addCluster(i/50, name, 2, 5)
		if i%10 == 0 {
			w.failLast(3)
		}
	}
	return w
}

// readSuspects leaves of what was read live what a round reads: all Leases of clusters
// with suspects, and the Nodes of those.
func (w *world) readSuspects() {
	nodes := map[string]bool{}
	clusters := map[string]bool{}
	for _, ref := range policy.Suspects(w.policies, w.Snapshot) {
		nodes[ref.Cell+"/"+ref.Cluster+"/"+ref.Node], clusters[ref.Cell+"/"+ref.Cluster] = true, true
	}
	w.Clusters = slices.DeleteFunc(w.Clusters, func(c policy.LiveCluster) bool { return !clusters[c.Cell+"/"+c.Cluster] })
	for i := range w.Clusters {
		c := &w.Clusters[i]
		c.Nodes = slices.DeleteFunc(c.Nodes, func(n policy.LiveNode) bool { return !nodes[c.Cell+"/"+c.Cluster+"/"+n.Name] })
	}
}

// grownOld has a budget of each level, three steps in the policy, and a record for every
// tenth machine, of which the node operators' answers stand.
func (w *world) grownOld() {
	for _, level := range []api.BudgetLevel{api.BudgetPool, api.BudgetCluster, api.BudgetCell, api.BudgetGeography, api.BudgetFleet} {
		w.bound(string(level), api.FleetDisruptionBudgetSpec{Level: level, MaxInFlight: ptr.To(int32(100)), MaxUnavailablePercent: ptr.To(int32(20))})
	}
	w.policies[0].Spec.Escalation = threeSteps()
	phases := []api.RemediationPhase{api.RemediationSucceeded, api.RemediationSucceeded, api.RemediationFailed, api.RemediationCancelled}
	n := 0
	for c := range w.Cells {
		cell := &w.Cells[c]
		for i := 0; i < len(cell.Machines); i += 10 {
			m := &cell.Machines[i]
			at := metav1.NewTime(now.Add(-time.Duration(n%2160+1) * time.Hour))
			rem := api.Remediation{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("old-%d", n)},
				Spec: api.RemediationSpec{
					PolicyName: "nodes", Action: api.ActionReboot, Deadline: at,
					Target: api.RemediationTarget{Cell: cell.Name, Cluster: m.Cluster, Machine: m.Name, MachineUID: m.UID, Node: m.Node, HardwareID: m.HardwareID},
				},
				Status: api.RemediationStatus{Phase: phases[n%len(phases)], Reason: "Verified", ActedAt: &at, RepairedAt: &at, EndedAt: &at},
			}
			m.Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairSucceeded, FinishedAt: &at}
			w.Remediations = append(w.Remediations, rem)
			n++
		}
	}
}
