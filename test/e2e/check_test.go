package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Case C40: a node of the whole fleet that does not pass its check.
// failedCheck asks for a restart first, which this site's repair Job does not know, then
// reboots a node that is well again by all evidence, and fails its check: kwok plays the
// command `false` as it is.
func failedCheck(t *testing.T, p *person, w *world) {
	policy := w.policy()
	passing := policy.DeepCopy()
	policy.Spec.Verification.NodeCheck.Command = []string{"false"}
	policy.Spec.Escalation = []v1alpha1.EscalationStep{{Action: v1alpha1.ActionRestartComponent}, {Action: v1alpha1.ActionReboot}}
	require.NoError(t, w.client("hub").Patch(t.Context(), &policy, client.MergeFrom(passing)))
	p.must("fault", "inject", "node-stop", "--node", "bank-node-12")
	var rem *v1alpha1.Remediation
	// On a machine that is busy a cluster may be called down for a moment: that is an
	// incident, which holds its nodes for five minutes after it.
	eventually(t, 8*time.Minute, "the end of the repair", func() string {
		rem = w.remediationOf("bank-node-12", v1alpha1.ActionReboot)
		if rem == nil || !rem.Status.Phase.Final() {
			return fmt.Sprintf("%+v, held are %+v", rem, w.policy().Status.Holds)
		}
		return ""
	})
	require.Equal(t, v1alpha1.RemediationFailed, rem.Status.Phase, rem.Status.Message)
	require.Equal(t, "NodeCheckFailed", rem.Status.Reason)
	require.Contains(t, rem.Status.Message, "exit code 1, Error: a failure played by kwok")
	require.Equal(t, v1alpha1.NodeCheckFail, rem.Status.NodeCheck.Result)
	require.Empty(t, w.notReady("bank"), "the node itself is Ready")
	restart := w.remediationOf("bank-node-12", v1alpha1.ActionRestartComponent)
	require.Equal(t, v1alpha1.RemediationFailed, restart.Status.Phase, restart.Status.Message)
	require.Equal(t, "RepairFailed", restart.Status.Reason)
	require.False(t, rem.CreationTimestamp.Before(restart.Status.EndedAt), "one step at a time")
	eventually(t, time.Minute, "cleaning up after the check", func() string {
		var pods corev1.PodList
		require.NoError(t, w.client("bank").List(t.Context(), &pods, client.InNamespace(v1alpha1.NodeCheckNamespace)))
		if len(pods.Items) > 0 {
			return pods.Items[0].Name + " is left"
		}
		return ""
	})
	eventually(t, time.Minute, "telling of it", func() string { return w.told("PharosRemediationFailed") })

	before := w.policy()
	after := before.DeepCopy()
	after.Spec.Verification, after.Spec.Escalation = passing.Spec.Verification, nil
	require.NoError(t, w.client("hub").Patch(t.Context(), after, client.MergeFrom(&before)))
}

// remediationOf is the record of a step of a node's repair, or nil.
func (w *world) remediationOf(node string, action v1alpha1.RemediationAction) *v1alpha1.Remediation {
	w.t.Helper()
	all := w.remediations()
	for i := range all {
		if all[i].Spec.Target.Node == node && all[i].Spec.Action == action {
			return &all[i]
		}
	}
	return nil
}
