package controller

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const spare = "shop-spare"

// replacing is a fleet whose policy replaces a machine at once, which has one on standby.
func replacing(t *testing.T, config *rest.Config) *fleet {
	f := newFleet(t, config)
	p := f.policy()
	p.Spec.Escalation = []api.EscalationStep{{Action: api.ActionReplace}}
	require.NoError(t, f.client.Update(t.Context(), p))
	f.create(&api.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cellNamespace, Name: spare}, Spec: api.MachineSpec{
		ClusterName: clusterName, NodeName: spare, Pool: "workers", HardwareID: "hw-" + spare, ProviderID: "kwok://" + spare,
		FailureDomain: api.FailureDomain{Zone: "zone-a", Rack: "rack-4"}, State: api.MachineStandby}})
	f.fail(sick)
	return f
}

// joins plays the site: the spare is a node of the cluster, and well.
func (f *fleet) joins() {
	f.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: spare}, Spec: corev1.NodeSpec{ProviderID: "kwok://" + spare}})
	f.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: spare},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: ptr.To(metav1.NowMicro())}})
	f.setNode(spare, corev1.ConditionTrue, 0, "boot-1")
}

// spareIs says what the Machine on standby has become.
func (f *fleet) spareIs(state api.MachineState, claimed, quarantined string) {
	f.t.Helper()
	m := f.machine(spare)
	require.Equal(f.t, state, m.Spec.State)
	require.Equal(f.t, claimed, m.Annotations[api.AnnotationClaimedBy], "claimed by")
	require.Equal(f.t, quarantined, m.Annotations[api.AnnotationQuarantined], "quarantined by")
	require.Nil(f.t, m.Spec.Remediation)
}

// Case C22: the last step. A spare takes the place, and what was replaced waits for people.
func testReplace(t *testing.T, config *rest.Config) {
	f := replacing(t, config)
	c := f.start()
	f.round(c)
	rem := f.one()
	require.Equal(t, spare, rem.Spec.Replacement.Machine)
	f.spareIs(api.MachineStandby, rem.Name, "")
	request := f.machine(sick).Spec.Remediation
	require.Equal(t, api.ActionReplace, request.Action)
	require.Equal(t, &api.SpareReference{Name: spare, UID: string(f.machine(spare).UID)}, request.Spare)

	f.answer(sick, api.RepairSucceeded)
	f.round(c)
	require.Equal(t, api.RemediationVerifying, f.one().Status.Phase, "%s", f.one().Status.Message)
	f.joins()
	f.round(c)
	require.Equal(t, api.RemediationSucceeded, f.one().Status.Phase, "%s", f.one().Status.Message)
	f.round(c)
	f.spareIs(api.MachineInUse, "", "")
	was := f.machine(sick)
	require.Equal(t, api.MachineStandby, was.Spec.State)
	require.Equal(t, rem.Name, was.Annotations[api.AnnotationQuarantined])
	require.Nil(t, was.Spec.Remediation)
	f.round(c)
	require.Len(t, f.remediations(), 1)
	require.Equal(t, sick+" Quarantined", f.hold())

	// Somebody has mended it, and it is the spare now.
	delete(was.Annotations, api.AnnotationQuarantined)
	require.NoError(t, f.client.Update(t.Context(), was))
	f.round(c)
	require.Equal(t, api.MachineStandby, f.machine(sick).Spec.State)
	require.Empty(t, f.machine(sick).Annotations[api.AnnotationQuarantined], "it is not quarantined a second time")
}

func testReplaceWithoutASpare(t *testing.T, config *rest.Config) {
	f := replacing(t, config)
	f.annotate(f.machine(spare), api.AnnotationQuarantined, "an-old-one")
	f.round(f.start())
	f.untouched()
	require.Empty(t, f.remediations())
	require.Equal(t, sick+" NoSpare", f.hold())
}

// Between record and request the spare becomes another's, or nobody's.
func testSpareThatIsTakenInBetween(t *testing.T, config *rest.Config) {
	for name, c := range map[string]struct {
		key, value string
	}{
		"claimed": {api.AnnotationClaimedBy, "another"}, "quarantined": {api.AnnotationQuarantined, "another"}, "paused": {api.AnnotationPaused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := replacing(t, config)
			f.round(f.dying(afterRecord(func() error {
				f.annotate(f.machine(spare), c.key, c.value)
				return nil
			})))
			f.untouched()
			f.round(f.start())
			f.untouched()
			rem := f.one()
			require.Equal(t, api.RemediationCancelled, rem.Status.Phase)
			require.Equal(t, string(policy.ReasonNoSpare), rem.Status.Reason, rem.Status.Message)
			require.Nil(t, rem.Status.ActedAt)
			require.Equal(t, c.value, f.machine(spare).Annotations[c.key])
		})
	}
}

// Killed between claim and request, and after the request: one spare is claimed, once.
func testReplaceAndCrash(t *testing.T, config *rest.Config) {
	f := replacing(t, config)
	ctx, die := context.WithCancel(t.Context())
	_, err := f.dying(beforeStatus(die)).round(ctx)
	require.ErrorIs(t, err, errCrash)
	name := f.one().Name
	f.spareIs(api.MachineStandby, name, "")

	m := f.machine(sick) // as if it had died before the request, too
	m.Spec.Remediation = nil
	require.NoError(t, f.client.Update(t.Context(), m))
	f.round(f.start())
	require.Equal(t, name, f.one().Name)
	require.Equal(t, name, f.machine(sick).Spec.Remediation.ID)
	f.spareIs(api.MachineStandby, name, "")
}

// A replacement that failed leaves the spare to people, and the machine as well.
func testReplaceThatFails(t *testing.T, config *rest.Config) {
	f := replacing(t, config)
	c := f.start()
	f.round(c)
	name := f.one().Name
	f.failStep(c)
	f.round(c)
	f.spareIs(api.MachineStandby, "", name)
	require.Equal(t, api.RemediationEscalated, f.byAction()[api.ActionEscalate].Status.Phase)
	require.Equal(t, api.MachineState(""), f.machine(sick).Spec.State)
	f.untouched()
}

// What was refused gives the spare back.
func testReplaceThatIsRefused(t *testing.T, config *rest.Config) {
	f := replacing(t, config)
	c := f.start()
	f.round(c)
	f.answer(sick, api.RepairRefused)
	f.round(c)
	f.round(c)
	require.Equal(t, api.RemediationCancelled, f.remediations()[0].Status.Phase)
	f.spareIs(api.MachineStandby, "", "")
}
