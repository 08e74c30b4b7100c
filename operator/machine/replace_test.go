package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// toReplace asks for a machine to be replaced by the one on standby.
func toReplace() *v1alpha1.Machine {
	return changed(func(m *v1alpha1.Machine) {
		m.Spec.Remediation.Action, m.Spec.Remediation.Spare = v1alpha1.ActionReplace, &v1alpha1.SpareReference{Name: "m-2", UID: "uid-2"}
	})
}

// standby is a machine that request "a" has claimed.
func standby() *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "m-2", Namespace: "fleet", UID: "uid-2", Annotations: map[string]string{v1alpha1.AnnotationClaimedBy: "a"}},
		Spec:       v1alpha1.MachineSpec{ClusterName: "shop", NodeName: "node-2", HardwareID: "sn-2", State: v1alpha1.MachineStandby},
	}
}

// Case C22: nothing takes the place of a machine but what the request has claimed for that.
func TestReplacementByWhatIsClaimed(t *testing.T) {
	require.True(t, decide(snapshot{machine: toReplace(), cluster: shop(), spare: standby(), now: now}).start)
	for name, c := range map[string]struct {
		change func(m, spare *v1alpha1.Machine)
		want   string
	}{
		"none is named":             {func(m, _ *v1alpha1.Machine) { m.Spec.Remediation.Spare = nil }, "names no machine on standby"},
		"another of its name":       {func(_, spare *v1alpha1.Machine) { spare.UID = "uid-3" }, "m-2, which is to take this one's place, is gone"},
		"it goes":                   {func(_, spare *v1alpha1.Machine) { spare.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, "is gone"},
		"it serves":                 {func(_, spare *v1alpha1.Machine) { spare.Spec.State = v1alpha1.MachineInUse }, "is not on standby"},
		"nobody claimed it":         {func(_, spare *v1alpha1.Machine) { spare.Annotations = nil }, `its annotation pharos.dev/claimed-by is ""`},
		"another did":               {func(_, spare *v1alpha1.Machine) { spare.Annotations[v1alpha1.AnnotationClaimedBy] = "b" }, `is "b"`},
		"it is quarantined":         {func(_, spare *v1alpha1.Machine) { spare.Annotations[v1alpha1.AnnotationQuarantined] = "b" }, "is quarantined, paused or under repair"},
		"it is paused":              {func(_, spare *v1alpha1.Machine) { spare.Annotations[v1alpha1.AnnotationPaused] = "" }, "is quarantined, paused or under repair"},
		"it is asked for something": {func(m, spare *v1alpha1.Machine) { spare.Spec.Remediation = m.Spec.Remediation }, "is quarantined, paused or under repair"},
	} {
		t.Run(name, func(t *testing.T) {
			m, spare := toReplace(), standby()
			c.change(m, spare)
			v := decide(snapshot{machine: m, cluster: shop(), spare: spare, now: now})
			require.False(t, v.start)
			require.Equal(t, v1alpha1.RepairRefused, v.answer.Phase)
			require.Contains(t, v.answer.Message, c.want)
		})
	}
	v := decide(snapshot{machine: toReplace(), cluster: shop(), now: now})
	require.Contains(t, v.answer.Message, "is gone", "there is none of that name")
}

// The claim is looked at live, and the Job gets both machines. With the rights of the
// node operator, and no more.
func replacesBySpare(t *testing.T, w *world) {
	spare := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "reserve-1"}, Spec: v1alpha1.MachineSpec{
		ClusterName: "shop", NodeName: "reserve-1", Address: "10.0.0.9", HardwareID: "sn-2", State: v1alpha1.MachineStandby}}
	require.NoError(t, w.admin.Create(t.Context(), spare))
	ask := func(name, id string) client.ObjectKey {
		m := machineAsking("fleet", name, id, time.Hour)
		m.Spec.Remediation.Action, m.Spec.Remediation.Spare = v1alpha1.ActionReplace, &v1alpha1.SpareReference{Name: spare.Name, UID: string(spare.UID)}
		require.NoError(t, w.admin.Create(t.Context(), m))
		reconcile(t, w.reconciler(t, "repair-job"), client.ObjectKeyFromObject(m))
		return client.ObjectKeyFromObject(m)
	}
	answer := w.get(t, ask("replaced-0", "replace-0")).Status.Remediation
	require.Equal(t, v1alpha1.RepairRefused, answer.Phase)
	require.Contains(t, answer.Message, "machine reserve-1 is not claimed by it")
	w.noJob(t, "repair-replace-0")

	spare.Annotations = map[string]string{v1alpha1.AnnotationClaimedBy: "replace-1"}
	require.NoError(t, w.admin.Update(t.Context(), spare))
	answer = w.get(t, ask("replaced-1", "replace-1")).Status.Remediation
	require.Equal(t, v1alpha1.RepairRunning, answer.Phase, answer.Message)
	env := w.job(t, "repair-replace-1").Spec.Template.Spec.Containers[0].Env
	require.Contains(t, env, corev1.EnvVar{Name: "PHAROS_SPARE_ADDRESS", Value: "10.0.0.9"})
	require.Contains(t, env, corev1.EnvVar{Name: "PHAROS_MACHINE", Value: "replaced-1"})
}
