package scenario_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// noSpare is what must never happen.
const noSpare = "a machine takes the place of another that is no spare of its repair"

// addSpare puts a machine on standby that is no node yet.
func (f *fleet) addSpare(cluster, name string) error {
	like := f.machines[slices.IndexFunc(f.machines, func(m *machine) bool { return m.Cluster == cluster })]
	m := &machine{Machine: like.Machine, cell: like.cell, absent: true, changed: f.now, ready: "True", boots: 1}
	m.Name, m.Node, m.UID, m.HardwareID, m.ProviderID = name, name, "uid-"+name, "hw-"+name, "metal://"+name
	m.InUse, m.Rack = false, "rack-2"
	f.machines = append(f.machines, m)
	return nil
}

// claim is what the remediator writes on a spare, unless somebody was there before.
func (f *fleet) claim(d policy.Decision) bool {
	if d.Spec.Replacement == nil {
		return true
	}
	m := f.machine(d.Spec.Replacement.Machine)
	if m.ClaimedBy == d.Name {
		return true
	}
	f.judgeSpare(m, d.Name)
	if m.ClaimedBy != "" || m.InUse || m.Quarantined != "" || m.Paused || m.Request != nil {
		f.say("%s is not there for %s", m.Name, f.alias(d.Name))
		return false
	}
	return f.write(func() {
		m.ClaimedBy = d.Name
		f.say("%s is claimed by %s", m.Name, f.alias(d.Name))
	})
}

// judgeSpare is asked just before a spare is claimed.
func (f *fleet) judgeSpare(m *machine, name string) {
	rem := f.record(name)
	if rem == nil || rem.Spec.Replacement == nil || rem.Spec.Replacement.MachineUID != m.UID || phase(rem).Final() {
		f.violate(notRecorded, "%s is claimed by %s", m.Name, name)
	}
	if !m.absent || m.InUse || m.Quarantined != "" || m.ClaimedBy != "" || m.Paused {
		f.violate(noSpare, "%s is claimed by %s: %+v", m.Name, name, m.Machine)
	}
}

// handOver ends a claim, in two writes after a success.
func (f *fleet) handOver(h policy.Handover) {
	m, failed := f.machine(h.Spare), f.machine(h.Failed)
	if h.Phase == api.RemediationSucceeded && (failed.InUse || failed.Quarantined != h.Remediation) {
		if !f.write(func() { failed.InUse, failed.Quarantined = false, h.Remediation }) {
			return
		}
		f.say("%s is quarantined by %s", failed.Name, f.alias(h.Remediation))
	}
	if m.ClaimedBy == h.Remediation && f.write(func() { f.endClaim(m, h) }) {
		f.say("%s is free of the claim of %s", m.Name, f.alias(h.Remediation))
	}
}

func (f *fleet) endClaim(m *machine, h policy.Handover) {
	m.ClaimedBy = ""
	switch h.Phase {
	case api.RemediationSucceeded:
		m.InUse = true
	case api.RemediationFailed:
		m.Quarantined = h.Remediation
	}
}

// join is the site's work: the spare becomes a node, and what it replaces does not come back.
// A Job that ends after its repair has failed finds the spare quarantined.
func (f *fleet) join(m *machine) {
	spare := f.machine(m.job.spare)
	if spare.ClaimedBy != m.job.id && spare.Quarantined != m.job.id || spare.InUse {
		f.violate(noSpare, "%s takes the place of %s", spare.Name, m.Name)
	}
	m.dead, spare.absent, spare.since = true, false, f.now
	f.turn(spare, !spare.dead)
	f.say("node %s joins", spare.Name)
}

// Case C22: killed anywhere, one spare takes one place.
// TestKilledWhileItReplaces has the last step, with the remediator killed between any two writes.
func TestKilledWhileItReplaces(t *testing.T) {
	writes := killedAnywhere(t, []string{"spare shop spare-1", "spare shop spare-2", "policy replaces", "node shop-03 dead"}, []string{"run 30m"}, func(f *fleet, where string) {
		require.NoError(t, f.expect("repair-1 Succeeded Verified"), where)
		require.Len(t, f.records, 1, where)
		require.Len(t, f.asked, 1, where)
		first, second, was := f.machine("spare-1"), f.machine("spare-2"), f.machine("shop-03")
		require.True(t, first.InUse && first.ClaimedBy == "" && first.Quarantined == "", where)
		require.True(t, !second.InUse && second.ClaimedBy == "" && second.Quarantined == "", where)
		require.True(t, !was.InUse && was.Quarantined == f.records[0].Name, where)
	})
	require.Greater(t, writes, 8, "those of an act, the claim and its end")
}
