package policy_test

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a fleet of cells with one cluster each, of racks of machines, in
// which all is well until a test says otherwise. A cell can have more clusters,
// whose machines stand in the racks of the first.
type world struct {
	policy.Snapshot
	policies []api.RemediationPolicy
}

// newWorld numbers cells cell-0…, clusters shop-0…, nodes shop-0-00….
func newWorld(cells, racks, perRack int) *world {
	w := &world{policies: []api.RemediationPolicy{acting("nodes")}}
	for _, replica := range []string{"a", "b"} {
		w.Centrals = append(w.Centrals, policy.Central{Name: "central-" + replica, Replica: replica})
	}
	for c := range cells {
		w.addCell(c, racks, perRack)
	}
	return w
}

func acting(name string) api.RemediationPolicy {
	return api.RemediationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       api.RemediationPolicySpec{Mode: api.ModeAct, MatchAll: api.MatchAllMachines},
	}
}

func (w *world) addCell(c, racks, perRack int) {
	w.Cells = append(w.Cells, policy.Cell{Name: fmt.Sprintf("cell-%d", c)})
	for i := range w.Centrals {
		w.Centrals[i].Heartbeats = append(w.Centrals[i].Heartbeats, policy.CellSample{Cell: w.Cells[c].Name, At: now.Add(-4 * time.Second)})
	}
	w.addCluster(c, fmt.Sprintf("shop-%d", c), racks, perRack)
}

// addCluster puts the cluster's machines into the cell's racks 0 to racks-1.
func (w *world) addCluster(c int, cluster string, racks, perRack int) {
	cell := &w.Cells[c]
	live := policy.LiveCluster{Cell: cell.Name, Cluster: cluster, ReadAt: now}
	for i := range racks * perRack {
		name := fmt.Sprintf("%s-%02d", cluster, i)
		cell.Machines = append(cell.Machines, policy.Machine{
			Namespace: "fleet", Name: name, UID: "uid-" + name, Cluster: cluster, Node: name, Pool: "workers",
			HardwareID: "hw-" + name, ProviderID: "kwok://" + name, Zone: "zone-a", Rack: fmt.Sprintf("rack-%d", i/perRack), InUse: true,
		})
		live.Leases = append(live.Leases, policy.Lease{Node: name, Renewed: now.Add(-3 * time.Second), Duration: metav1.Duration{Duration: 40 * time.Second}})
		live.Nodes = append(live.Nodes, policy.LiveNode{Name: name, Ready: "True", Since: now.Add(-time.Hour), Heartbeat: now.Add(-time.Minute), UID: "node-uid-" + name, BootID: "boot-1", ProviderID: "kwok://" + name})
	}
	w.Clusters = append(w.Clusters, live)
	for i := range w.Centrals {
		w.Centrals[i].ClustersUp = append(w.Centrals[i].ClustersUp, policy.ClusterSample{Cell: cell.Name, Cluster: cluster, Up: true, At: now.Add(-4 * time.Second)})
	}
}

func (w *world) machine(name string) *policy.Machine {
	for c := range w.Cells {
		for i := range w.Cells[c].Machines {
			if w.Cells[c].Machines[i].Name == name {
				return &w.Cells[c].Machines[i]
			}
		}
	}
	panic("no machine " + name)
}

func (w *world) cellOf(m *policy.Machine) string {
	for _, c := range w.Cells {
		if slices.ContainsFunc(c.Machines, func(o policy.Machine) bool { return o.Cluster == m.Cluster }) {
			return c.Name
		}
	}
	panic("no cell of " + m.Name)
}

func (w *world) node(name string) *policy.LiveNode {
	for c := range w.Clusters {
		if i := slices.IndexFunc(w.Clusters[c].Nodes, func(n policy.LiveNode) bool { return n.Name == name }); i >= 0 {
			return &w.Clusters[c].Nodes[i]
		}
	}
	panic("no node " + name)
}

func (w *world) lease(name string) *policy.Lease {
	for c := range w.Clusters {
		if i := slices.IndexFunc(w.Clusters[c].Leases, func(l policy.Lease) bool { return l.Node == name }); i >= 0 {
			return &w.Clusters[c].Leases[i]
		}
	}
	panic("no lease " + name)
}

// fail lets a node's kubelet have been dead for ten minutes, seen by all.
func (w *world) fail(name string) {
	m := w.machine(name)
	w.failed(w.cellOf(m), m, w.node(name), w.lease(name))
}

// failLast is fail for one node of the cluster that was added last.
func (w *world) failLast(i int) {
	cell, live := &w.Cells[len(w.Cells)-1], &w.Clusters[len(w.Clusters)-1]
	first := len(cell.Machines) - len(live.Nodes)
	w.failed(cell.Name, &cell.Machines[first+i], &live.Nodes[i], &live.Leases[i])
}

func (w *world) failed(cell string, m *policy.Machine, n *policy.LiveNode, l *policy.Lease) {
	n.Ready, n.Since, n.Heartbeat = "Unknown", now.Add(-10*time.Minute), now.Add(-11*time.Minute)
	l.Renewed = now.Add(-11 * time.Minute)
	for i := range w.Centrals {
		w.Centrals[i].Unhealthy = append(w.Centrals[i].Unhealthy, policy.NodeSample{
			Cell: cell, Cluster: m.Cluster, Node: m.Node, Zone: m.Zone, Rack: m.Rack, Reason: "Unknown", At: now.Add(-4 * time.Second),
		})
	}
}

// heal lets a node be well again, with another boot id if it rebooted.
func (w *world) heal(name string, rebooted bool) {
	n, l := w.node(name), w.lease(name)
	n.Ready, n.Since = "True", now.Add(-20*time.Second)
	l.Renewed = now.Add(-time.Second)
	if rebooted {
		n.BootID = "boot-2"
	}
	for i := range w.Centrals {
		w.Centrals[i].Unhealthy = slices.DeleteFunc(w.Centrals[i].Unhealthy, func(s policy.NodeSample) bool { return s.Node == name })
	}
}

// open is a repair that is written down, in the given phase.
func (w *world) open(name string, phase api.RemediationPhase) *api.Remediation {
	m := w.machine(name)
	w.Remediations = append(w.Remediations, api.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: "rem-" + name},
		Spec: api.RemediationSpec{
			PolicyName: "nodes", Action: api.ActionReboot, Reason: "for a test",
			Deadline: metav1.NewTime(now.Add(20 * time.Minute)),
			Target: api.RemediationTarget{
				Cell: w.cellOf(m), Namespace: m.Namespace, Cluster: m.Cluster, Machine: name, MachineUID: m.UID,
				Node: m.Node, HardwareID: m.HardwareID, ProviderID: m.ProviderID, BootID: "boot-1",
			},
		},
		Status: api.RemediationStatus{Phase: phase},
	})
	return &w.Remediations[len(w.Remediations)-1]
}

// asked puts the request of a repair on its machine, where it stands for another
// half minute, and the operator's answer if any.
func (w *world) asked(rem *api.Remediation, answer api.RepairPhase) {
	m := w.machine(rem.Spec.Target.Machine)
	m.Request = &api.RemediationRequest{ID: rem.Name, Action: rem.Spec.Action, StartBefore: metav1.NewTime(now.Add(30 * time.Second))}
	acted := metav1.NewTime(now.Add(-5 * time.Minute))
	rem.Status.ActedAt = &acted
	if answer != "" {
		finished := metav1.NewTime(now.Add(-time.Minute))
		m.Response = &api.RemediationResponse{ID: rem.Name, Phase: answer, Message: "said so", FinishedAt: &finished}
	}
}

func (w *world) decide() policy.Plan { return policy.Decide(w.policies, w.Snapshot, now) }

// verdicts lists every decision as "machine verdict reason".
func verdicts(p policy.Plan) []string {
	out := []string{}
	for _, d := range p.Decisions {
		out = append(out, fmt.Sprintf("%s %s %s", d.Machine.Name, d.Verdict, d.Reason))
	}
	return out
}

// withdrawals lists every request to be taken away as "name phase reason" of what
// is written down then.
func withdrawals(p policy.Plan) []string {
	out := []string{}
	for _, w := range p.Withdrawals {
		then := ""
		if w.Then != nil {
			then = fmt.Sprintf(" %s %s", w.Then.Phase, w.Then.Reason)
		}
		out = append(out, w.ID+then)
	}
	return out
}

// updates lists every update as "name phase reason".
func updates(p policy.Plan) []string {
	out := []string{}
	for _, u := range p.Updates {
		out = append(out, fmt.Sprintf("%s %s %s", u.Name, u.Phase, u.Reason))
	}
	return out
}

func acts(p policy.Plan) []policy.Decision {
	return slices.DeleteFunc(slices.Clone(p.Decisions), func(d policy.Decision) bool { return d.Verdict != policy.Act })
}
