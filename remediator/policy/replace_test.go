package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// replacing is a fleet of one machine that a reboot did not mend, to be replaced by one of
// the given machines on standby.
func replacing(spares ...string) *world {
	w := lemon(api.EscalationStep{Action: api.ActionReboot}, api.EscalationStep{Action: api.ActionReplace, Attempts: ptr.To(int32(1))})
	w.failedStep(api.ActionReboot, time.Minute)
	for _, name := range spares {
		w.addSpare(name)
	}
	return w
}

// addSpare adds a machine on standby, of the second rack.
func (w *world) addSpare(name string) *policy.Machine {
	cell := &w.Cells[0]
	cell.Machines = append(cell.Machines, policy.Machine{
		Namespace: "fleet", Name: name, UID: "uid-" + name, Cluster: cell.Machines[0].Cluster, Node: name, Pool: "workers",
		HardwareID: "hw-" + name, ProviderID: "kwok://" + name, Zone: "zone-a", Rack: "rack-1",
	})
	return &cell.Machines[len(cell.Machines)-1]
}

// joins has the spare's node be in the cluster, and well.
func (w *world) joins(name string) *policy.LiveNode {
	live := &w.Clusters[0]
	live.Leases = append(live.Leases, policy.Lease{Node: name, Renewed: now.Add(-time.Second), Duration: metav1.Duration{Duration: 40 * time.Second}})
	live.Nodes = append(live.Nodes, policy.LiveNode{Name: name, Ready: "True", Since: now.Add(-30 * time.Second), UID: "node-uid-" + name, BootID: "boot-9", ProviderID: "kwok://" + name})
	return &live.Nodes[len(live.Nodes)-1]
}

// replacement is a record by which the spare takes the place of the sick machine.
func (w *world) replacement(spare string, phase api.RemediationPhase) *api.Remediation {
	m := w.machine(spare)
	rem := w.open(sick, phase)
	rem.Spec.Action = api.ActionReplace
	rem.Spec.Replacement = &api.ReplacementTarget{Machine: m.Name, MachineUID: m.UID, Node: m.Node, HardwareID: m.HardwareID, ProviderID: m.ProviderID}
	return rem
}

func TestASpareTakesThePlace(t *testing.T) {
	w := replacing("spare-1", "spare-2", "spare-3")
	w.machine("spare-1").Zone = "zone-b"
	w.machine("spare-2").Rack = w.machine(sick).Rack
	d := w.decide().Decisions[0]
	require.Equal(t, policy.Act, d.Verdict, "%s: %s", d.Reason, d.Message)
	require.Equal(t, api.ActionReplace, d.Spec.Action)
	require.Equal(t, &api.ReplacementTarget{Machine: "spare-3", MachineUID: "uid-spare-3", Node: "spare-3", HardwareID: "hw-spare-3", ProviderID: "kwok://spare-3"},
		d.Spec.Replacement, "of the same zone, and of another rack")
	require.Equal(t, sick, d.Spec.Target.Machine)
}

func TestASpareOfAnotherPool(t *testing.T) {
	w := replacing("spare-1")
	w.machine("spare-1").Pool = "reserve"
	require.Equal(t, []string{sick + " Hold NoSpare"}, verdicts(w.decide()))
	w.policies[0].Spec.Escalation[1].SparePool = "reserve"
	require.Equal(t, "spare-1", w.decide().Decisions[0].Spec.Replacement.Machine)
}

// What is not certainly a spare is none.
func TestWhatIsNoSpare(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, m *policy.Machine)
		says   string
	}{
		"in use":             {func(_ *world, m *policy.Machine) { m.InUse = true }, `no machine on standby in pool "workers" of cluster shop-0 can take its place`},
		"of another cluster": {func(_ *world, m *policy.Machine) { m.Cluster = "other" }, "no machine on standby"},
		"in a namespace":     {func(_ *world, m *policy.Machine) { m.Namespace = "other" }, "no machine on standby"},
		"quarantined":        {func(_ *world, m *policy.Machine) { m.Quarantined = "old" }, "spare-1: quarantined by old"},
		"claimed":            {func(_ *world, m *policy.Machine) { m.ClaimedBy = "other" }, "claimed by other"},
		"chosen": {func(w *world, _ *policy.Machine) {
			rem := w.replacement("spare-1", api.RemediationPending)
			rem.Name, rem.Spec.Target.MachineUID = "other", "uid-of-another"
		}, "chosen by other"},
		"paused":              {func(_ *world, m *policy.Machine) { m.Paused = true }, "paused"},
		"being deleted":       {func(_ *world, m *policy.Machine) { m.Deleting = true }, "being deleted"},
		"of a control plane":  {func(_ *world, m *policy.Machine) { m.ControlPlane = true }, "control plane"},
		"asked for something": {func(_ *world, m *policy.Machine) { m.Request = &api.RemediationRequest{ID: "x"} }, "under repair"},
		"under repair": {func(_ *world, m *policy.Machine) {
			m.Response = &api.RemediationResponse{ID: "x", Phase: api.RepairRunning}
		}, "under repair"},
		"without a node":        {func(_ *world, m *policy.Machine) { m.Node = "" }, "names no node"},
		"without hardware":      {func(_ *world, m *policy.Machine) { m.HardwareID = "" }, "names no node, hardware"},
		"without a provider id": {func(_ *world, m *policy.Machine) { m.ProviderID = "" }, "provider id"},
		"without a rack":        {func(_ *world, m *policy.Machine) { m.Rack = "" }, "rack"},
		"of a node of another":  {func(w *world, m *policy.Machine) { m.Node = w.Cells[0].Machines[0].Node }, "several machines claim node"},
		"of known hardware":     {func(w *world, m *policy.Machine) { m.HardwareID = w.Cells[0].Machines[0].HardwareID }, "several machines claim hardware"},
		"hardware that failed": {func(w *world, m *policy.Machine) {
			w.failedStep(api.ActionReboot, time.Hour).Spec.Target.HardwareID = m.HardwareID
		}, "its hardware failed"},
		"a node that lives": {func(w *world, _ *policy.Machine) { w.joins("spare-1") }, "in the cluster already"},
		"in an incident": {func(w *world, _ *policy.Machine) {
			w.Incidents = append(w.Incidents, api.Incident{ObjectMeta: metav1.ObjectMeta{Name: "incident-1"},
				Spec: api.IncidentSpec{Kind: api.IncidentRack, Value: "rack-1", Zone: "zone-a", Cells: []string{"cell-0"}, MaxUnhealthyPercent: ptr.To(int32(20))}, Status: api.IncidentStatus{Phase: api.IncidentOpen}})
			w.machine(sick).Rack = "rack-9"
		}, "incident-1 of rack rack-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := replacing("spare-1")
			require.Len(t, acts(w.decide()), 1)
			c.change(w, w.machine("spare-1"))
			plan := w.decide()
			i := slices.IndexFunc(plan.Decisions, func(d policy.Decision) bool { return d.Machine.Name == sick })
			require.Equal(t, "Hold NoSpare", fmt.Sprintf("%s %s", plan.Decisions[i].Verdict, plan.Decisions[i].Reason))
			require.Contains(t, plan.Decisions[i].Message, c.says)
		})
	}
}

// The spare that was written down is taken, or none: a record does not change its mind.
func TestTheSpareThatWasChosen(t *testing.T) {
	w := replacing("spare-1", "spare-2")
	first := w.decide().Decisions[0]
	require.Equal(t, "spare-1", first.Spec.Replacement.Machine)
	w.Remediations = append(w.Remediations, api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: first.Name}, Spec: first.Spec})
	w.machine("spare-1").ClaimedBy = first.Name
	again := w.decide().Decisions[0]
	require.Equal(t, policy.Act, again.Verdict)
	require.Equal(t, first.Spec.Replacement, again.Spec.Replacement)

	w.machine("spare-1").ClaimedBy = "somebody"
	plan := w.decide()
	require.Equal(t, []string{first.Name + " Cancelled NoSpare"}, updates(plan))
	require.Empty(t, acts(plan))
}

// Taken together, whatever is true of machines: one that is chosen is on standby, free,
// known and alone, and no two repairs choose one.
func TestNothingButASpareIsEverTaken(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	taken := 0
	for range 3000 {
		w := replacing("spare-1", "spare-2", "spare-3")
		for _, name := range []string{"spare-1", "spare-2", "spare-3"} {
			m := w.machine(name)
			for _, change := range []func(){
				func() { m.InUse = true }, func() { m.Quarantined = "q" }, func() { m.ClaimedBy = "c" }, func() { m.Paused = true },
				func() { m.Deleting = true }, func() { m.Pool = "other" }, func() { m.HardwareID = "hw-spare-1" }, func() { m.Node = "spare-2" },
				func() { m.ProviderID = "" }, func() { w.joins(name) }, func() { m.Cluster = "other" }, func() { m.Rack = "" },
			} {
				if r.IntN(8) == 0 {
					change()
				}
			}
		}
		for _, d := range acts(w.decide()) {
			taken++
			w.requireSpare(t, d)
		}
	}
	require.Greater(t, taken, 500)
}

func (w *world) requireSpare(t *testing.T, d policy.Decision) {
	m, alike := w.machine(d.Spec.Replacement.Machine), 0
	for _, o := range w.Cells[0].Machines {
		if o.HardwareID == m.HardwareID || o.Node == m.Node && o.Cluster == d.Machine.Cluster {
			alike++
		}
	}
	require.Equal(t, 1, alike, "%+v", m)
	require.False(t, m.InUse || m.Paused || m.Deleting, "%+v", m)
	require.Empty(t, m.Quarantined+m.ClaimedBy, "%+v", m)
	require.Equal(t, []string{"workers", d.Machine.Cluster}, []string{m.Pool, m.Cluster})
	require.NotContains(t, []string{m.ProviderID, m.Rack, m.HardwareID}, "", "%+v", m)
	require.False(t, slices.ContainsFunc(w.Clusters[0].Leases, func(l policy.Lease) bool { return l.Node == m.Node }), "%+v", m)
}

// What must be well is the machine that took the place.
func TestAReplacementIsVerifiedByTheSparesNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"its node is well":       {func(w *world) { w.joins("spare-1") }, "Succeeded Verified"},
		"its node is not there":  {func(*world) {}, "Verifying AwaitingVerification"},
		"not ready":              {func(w *world) { w.joins("spare-1").Ready = "False" }, "Verifying AwaitingVerification"},
		"no boot id":             {func(w *world) { w.joins("spare-1").BootID = "" }, "Verifying AwaitingVerification"},
		"no provider id yet":     {func(w *world) { w.joins("spare-1").ProviderID = "" }, "Verifying AwaitingVerification"},
		"another machine's node": {func(w *world) { w.joins("spare-1").ProviderID = "kwok://x" }, "Failed TargetChanged"},
		"a central lists it": {func(w *world) {
			w.joins("spare-1")
			w.Centrals[0].Unhealthy = append(w.Centrals[0].Unhealthy, policy.NodeSample{Cell: "cell-0", Cluster: "shop-0", Node: "spare-1", At: now.Add(-4 * time.Second)})
		}, "Verifying AwaitingVerification"},
		"other hardware":    {func(w *world) { w.joins("spare-1"); w.machine("spare-1").HardwareID = "x" }, "Failed TargetChanged"},
		"the spare is gone": {func(w *world) { w.Cells[0].Machines = w.Cells[0].Machines[:20] }, "Failed TargetGone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := replacing("spare-1")
			rem := w.replacement("spare-1", api.RemediationVerifying)
			w.asked(rem, api.RepairSucceeded)
			c.change(w)
			require.Equal(t, []string{rem.Name + " " + c.want}, updates(w.decide()))
		})
	}
}

// The failed machine's own node does not speak for or against it any more.
func TestTheSparesNodeIsReadWhileItTakesThePlace(t *testing.T) {
	w := replacing("spare-1")
	w.asked(w.replacement("spare-1", api.RemediationActing), api.RepairRunning)
	require.Contains(t, policy.Suspects(w.policies, w.Snapshot), policy.NodeRef{Cell: "cell-0", Cluster: "shop-0", Node: "spare-1"})
}

// A claim is ended once its repair has, and by what its repair ended with.
func TestHandovers(t *testing.T) {
	for _, phase := range []api.RemediationPhase{api.RemediationSucceeded, api.RemediationFailed, api.RemediationCancelled} {
		w := replacing("spare-1")
		rem := w.replacement("spare-1", phase)
		w.machine("spare-1").ClaimedBy = rem.Name
		require.Equal(t, []policy.Handover{{
			Cell: "cell-0", Namespace: "fleet", Remediation: rem.Name, Spare: "spare-1", SpareUID: "uid-spare-1",
			Failed: sick, FailedUID: w.machine(sick).UID, Phase: phase,
		}}, w.decide().Handovers)
	}
	for name, change := range map[string]func(w *world, rem *api.Remediation){
		"it is open":           func(_ *world, rem *api.Remediation) { rem.Status.Phase = api.RemediationActing },
		"of no record":         func(_ *world, rem *api.Remediation) { rem.Name = "another" },
		"of another spare":     func(_ *world, rem *api.Remediation) { rem.Spec.Replacement.MachineUID = "x" },
		"of no replacement":    func(_ *world, rem *api.Remediation) { rem.Spec.Replacement = nil },
		"of another cell":      func(_ *world, rem *api.Remediation) { rem.Spec.Target.Cell = "x" },
		"that is not standing": func(w *world, _ *api.Remediation) { w.machine("spare-1").ClaimedBy = "" },
	} {
		w := replacing("spare-1")
		rem := w.replacement("spare-1", api.RemediationSucceeded)
		w.machine("spare-1").ClaimedBy = rem.Name
		change(w, &w.Remediations[len(w.Remediations)-1])
		require.Empty(t, w.decide().Handovers, name)
	}
}

// What a claim or a quarantine names is not forgotten: somebody will ask why.
func TestARecordOfAClaimIsKept(t *testing.T) {
	for _, mark := range []func(m *policy.Machine, name string){
		func(m *policy.Machine, name string) { m.ClaimedBy = name },
		func(m *policy.Machine, name string) { m.Quarantined = name },
		nil,
	} {
		w := replacing("spare-1")
		w.Remediations = nil
		rem := w.replacement("spare-1", api.RemediationSucceeded)
		rem.Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-400 * 24 * time.Hour)))
		rem.Spec.Deadline = *rem.Status.EndedAt
		if mark != nil {
			mark(w.machine("spare-1"), rem.Name)
		}
		gone := policy.Retire(w.Snapshot, policy.Retention{Age: 90 * 24 * time.Hour, Records: 1000}, now)
		require.Equal(t, mark == nil, len(gone) == 1)
	}
}

// A machine that was replaced is no machine to repair, also when somebody has it serve again
// and has not said that he looked.
func TestAQuarantinedMachineIsLeftAlone(t *testing.T) {
	w := lemon()
	w.machine(sick).Quarantined = "old"
	require.Equal(t, []string{sick + " Hold Quarantined"}, verdicts(w.decide()))
}
