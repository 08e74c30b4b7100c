package scenario_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// What must never happen with a node that is drained.
const (
	evictedUnasked = "pods are evicted from a node that its repair has not cordoned, or that is not to be touched"
	fencedUnproven = "a node is declared out of service whose machine runs"
	leftCordoned   = "a node that is well stays cordoned by a repair that has ended"
)

// drain is one round of emptying a node: what begins is written down, the node is cordoned,
// its pods go, and that is written down.
func (f *fleet) drain(m *machine, d policy.Decision) {
	rem := f.record(d.Name)
	if rem.Status.Drain == nil {
		f.update(policy.DrainBegins(rem, f.clock()))
	}
	if rem.Status.Drain == nil || !f.write(func() { f.cordon(m, rem) }) {
		return
	}
	if d.Fences() {
		if f.write(func() { f.fence(m) }) {
			f.update(policy.DrainFenced(rem, f.clock()))
		}
		return
	}
	if f.write(func() { f.evict(m, rem, d) }) {
		f.update(policy.DrainGoesOn(rem, policy.DrainFound{Left: m.pods}, m.ready, f.clock()))
	}
}

func (f *fleet) cordon(m *machine, rem *api.Remediation) {
	if m.cordonedBy != rem.Name {
		m.cordonedBy = rem.Name
		f.say("node %s is cordoned by %s", m.Name, f.alias(rem.Name))
	}
}

// evict takes a pod away, unless its budget keeps it.
func (f *fleet) evict(m *machine, rem *api.Remediation, d policy.Decision) {
	if m.cordonedBy != rem.Name || phase(rem) != api.RemediationDraining || m.cordoned {
		f.violate(evictedUnasked, "%s by %s, %s", m.Name, f.alias(rem.Name), phase(rem))
	}
	f.judgeEvidence(m)
	f.judgeLive(m)
	f.judgePause(m, &f.policies[0])
	for _, level := range []api.BudgetLevel{api.BudgetPool, api.BudgetCluster, api.BudgetCell, api.BudgetGeography, api.BudgetFleet} {
		f.judgeFreeze(m, f.covering(level, m))
	}
	f.judgeShare(m)
	f.judgePast(m, d.Spec.Action)
	if m.pods > 0 && !m.keeps {
		m.pods--
		f.say("a pod goes from node %s, %d are left", m.Name, m.pods)
	}
}

func (f *fleet) fence(m *machine) {
	if m.PowerSeen == nil || !m.off || m.alive {
		f.violate(fencedUnproven, "%s", m.Name)
	}
	m.pods = 0
	f.say("node %s is out of service", m.Name)
}

func (f *fleet) uncordon(u policy.Uncordon) {
	m := f.machine(u.Target.Machine)
	if m.cordonedBy != "" && f.write(func() { m.cordonedBy = "" }) {
		f.say("node %s is uncordoned by %s", m.Name, f.alias(u.Remediation))
	}
}

// strikeDrain is what happens to what runs on a node, or to its power.
func (f *fleet) strikeDrain(m *machine, what string) error {
	switch what {
	case "keeps", "lets-go":
		m.keeps = what == "keeps"
	case "uncordoned":
		m.cordonedBy = ""
	case "switched-off":
		f.switchOff(m)
	default:
		return fmt.Errorf("changing node %s: it cannot be %s", m.Name, what)
	}
	return nil
}

// switchOff has a machine without power, as its provider says from then on.
func (f *fleet) switchOff(m *machine) {
	m.off, m.dead = true, true
	f.turn(m, false)
}

// powerSeen is what the provider says at this moment of a machine that is off.
func (f *fleet) powerSeen(m *machine) *api.PowerStatus {
	if !m.off {
		return nil
	}
	return &api.PowerStatus{State: api.PowerOff, ObservedAt: metav1.NewTime(f.now), HardwareID: m.HardwareID}
}

// judgeCordons is asked once all is calm and every repair has ended.
func (f *fleet) judgeCordons() {
	for _, m := range f.machines {
		left := false
		for _, rem := range f.records {
			left = left || rem.Spec.Target.MachineUID == m.UID && phase(rem) == api.RemediationEscalated && rem.Annotations[policy.AnnotationAcknowledged] != "true"
		}
		if m.cordonedBy != "" && m.alive && m.downFor == 0 && !left && !m.Paused {
			f.violate(leftCordoned, "%s by %s", m.Name, f.alias(m.cordonedBy))
		}
	}
}

// Case C20: killed anywhere, the node is drained once, and used again.
// TestKilledWhileItDrains has two pods go before the reboot.
func TestKilledWhileItDrains(t *testing.T) {
	writes := killedAnywhere(t, []string{"policy drains", "node shop-03 down"}, []string{"run 30m"}, func(f *fleet, where string) {
		f.requireOneReboot(t, where)
		m := f.machine("shop-03")
		require.Zero(t, m.pods, where)
		require.Empty(t, m.cordonedBy, where)
	})
	require.Greater(t, writes, 14, "those of an act, of three rounds of a drain, and the uncordon")
}

// TestKilledWhileADrainIsBlocked hands the machine to people, whatever is lost in between.
func TestKilledWhileADrainIsBlocked(t *testing.T) {
	killedAnywhere(t, []string{"policy drains", "node shop-03 keeps", "node shop-03 down"}, []string{"run 40m"}, func(f *fleet, where string) {
		require.NoError(t, f.expect("shop-03 Escalate Escalated"), where)
		m := f.machine("shop-03")
		require.Equal(t, 2, m.pods, where)
		require.Equal(t, 1, m.boots, where)
		require.Equal(t, f.records[0].Name, m.cordonedBy, where)
		require.Empty(t, f.asked, where)
	})
}
