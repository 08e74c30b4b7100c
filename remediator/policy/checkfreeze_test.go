package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// stopped is a person's word to stop.
func stopped(level api.BudgetLevel, names ...string) []api.FleetDisruptionBudget {
	return []api.FleetDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Name: "stop"},
		Spec: api.FleetDisruptionBudgetSpec{Level: level, Names: names, Freeze: api.Now, Reason: "storm"}}}
}

// A check is an act on a node. None begins where repairs are frozen, and what is
// being checked there goes on.
func TestNoNodeCheckBeginsInAFreeze(t *testing.T) {
	w, rem := repaired()
	w.Budgets = stopped(api.BudgetCluster, "shop-0")
	waits := func(reason, says string) {
		t.Helper()
		plan := w.decide()
		require.Equal(t, []string{rem.Name + " Verifying " + reason}, updates(plan))
		require.Contains(t, plan.Updates[0].Message, "the node check is not begun: "+says)
		require.Empty(t, plan.Checks)
	}
	waits("Frozen", "in cluster shop-0")
	rem.Status.NodeCheck = checkRecord(api.NodeCheckPending, 5*time.Second)
	w.NodeChecks = []policy.NodeChecks{{Remediation: rem.Name}}
	waits("Frozen", "in cluster shop-0")
	w.Budgets, w.BudgetsErr = nil, "away"
	waits("EvidenceMissing", "whether somebody stopped repairs is not known: away")

	w.BudgetsErr = ""
	w.Budgets = stopped(api.BudgetCluster, "another")
	plan := w.decide()
	require.Len(t, plan.Checks, 1)
	require.Empty(t, plan.Checks[0].Frozen(w.Budgets, now))
	require.Contains(t, plan.Checks[0].Frozen(stopped(api.BudgetPool, "workers"), now), "budget stop freezes repairs")
	until := stopped(api.BudgetFleet)
	until[0].Spec.Freeze = ""
	until[0].Spec.Freezes = []api.FreezeWindow{{From: metav1.NewTime(now), Until: metav1.NewTime(now.Add(90 * time.Second)), Reason: "storm"}}
	w.Budgets = until
	waits("Frozen", "in the fleet")
	require.Equal(t, now.Add(90*time.Second), w.decide().NextCheck)

	rem.Status.NodeCheck = checkRecord(api.NodeCheckRunning, 5*time.Second)
	rem.Status.NodeCheck.PodUID = checkPod(api.NodeCheckPass, 5*time.Second).UID
	w.NodeChecks[0].Pods = []policy.CheckPod{checkPod(api.NodeCheckPass, 5*time.Second)}
	require.Equal(t, []string{rem.Name + " Succeeded Verified"}, updates(w.decide()))
}
