package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Case C26: what another controller works on is left to it, also when it begins between
// the record and the request.
func TestANodeThatAnotherControllerWorksOn(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	d := acts(w.decide())[0]
	w.node(sick).Owner = "Karpenter replaces it, by the taint karpenter.sh/disrupted"
	plan := w.decide()
	require.Equal(t, []string{sick + " Defer ForeignOwner"}, verdicts(plan))
	require.Equal(t, w.node(sick).Owner, plan.Decisions[0].Message)
	require.Equal(t, policy.ReasonForeignOwner, policy.Confirm(d, again(w, &w.policies[0], now), now).Reason)
	w.asked(w.open(sick, api.RemediationActing), "")
	require.Equal(t, []string{"rem-" + sick + " Cancelled ForeignOwner"}, withdrawals(w.decide()), "what stands is taken back")
}

// Case C19: how many members of etcd a repair would leave is not known.
func TestAControlPlaneIsLeftToPeople(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"by its Machine": func(w *world) { w.machine(sick).ControlPlane = true },
		"by its Node":    func(w *world) { w.node(sick).ControlPlane = true },
	} {
		w := newWorld(1, 4, 5)
		w.fail(sick)
		change(w)
		require.Equal(t, []string{sick + " Hold ControlPlaneMachine"}, verdicts(w.decide()), name)
	}
	for role, want := range map[string]bool{"worker": false, "control-plane": true, "etcd": true, "master": true} {
		m := &api.Machine{Spec: api.MachineSpec{Roles: []string{"gpu", role}}}
		require.Equal(t, want, policy.FromMachine(m).ControlPlane, role)
	}
}

// Case C28: a node waits for the roll-out of its cluster.
func TestARollOutIsWaitedFor(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.fail("shop-0-03")
	w.fail("shop-1-03")
	w.Cells[0].Upgrades = map[string]string{"shop-0": "v1.36.3 to v1.37.2"}
	plan := w.decide()
	require.Equal(t, []string{"shop-0-03 Defer RollOutInProgress", "shop-1-03 Act Unhealthy"}, verdicts(plan))
	require.Equal(t, "cluster shop-0 is on its way from v1.36.3 to v1.37.2; the node waits for that, or for people if it is what the roll-out waits for", plan.Decisions[0].Message)
}

// It may begin between the record and the request.
func TestARollOutThatBeginsBeforeTheRequest(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	d := acts(w.decide())[0]
	f := again(w, &w.policies[0], now)
	require.Empty(t, policy.Confirm(d, f, now).Reason)
	f.Upgrade = "v1.36.3 to v1.37.2"
	require.Equal(t, policy.ReasonRollOut, policy.Confirm(d, f, now).Reason)
}
