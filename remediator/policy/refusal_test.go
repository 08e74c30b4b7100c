package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// A machine whose record the hub refuses waits, and keeps nobody from his turn.
func TestRefusedRecordWaits(t *testing.T) {
	w := newWorld(1, 2, 5)
	w.addCluster(0, "mall-0", 2, 5)
	w.fail("mall-0-01")
	w.Refusals = []policy.Refusal{{MachineUID: "uid-mall-0-01", At: now.Add(-10 * time.Second), Until: now.Add(20 * time.Second), Message: "recording it is forbidden"}}
	plan := w.decide()
	require.Equal(t, []string{"mall-0-01 Hold RequestFailed"}, verdicts(plan))
	require.Equal(t, "recording it is forbidden; it is tried again at 2026-03-01T12:00:20Z", plan.Decisions[0].Message)
	require.Equal(t, now.Add(20*time.Second), plan.NextCheck)
	require.Equal(t, metav1.ConditionUnknown, plan.Policies[0].Allowed)
	require.Equal(t, policy.ReasonRequestFailed, plan.Policies[0].Reason)
	require.Contains(t, plan.Policies[0].Message, "1 repairs could not be begun, machine mall-0-01 in cell cell-0: recording it is forbidden")

	w.fail("shop-0-01")
	require.Equal(t, []string{"mall-0-01 Defer InFlight", "shop-0-01 Act Unhealthy"}, verdicts(w.decide()))
	w.Refusals[0].Until = now
	require.Equal(t, []string{"mall-0-01 Defer InFlight", "shop-0-01 Act Unhealthy"}, verdicts(w.decide()), "others come first")
	w.Refusals = nil
	require.Equal(t, []string{"mall-0-01 Act Unhealthy", "shop-0-01 Defer InFlight"}, verdicts(w.decide()))
}
