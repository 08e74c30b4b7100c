package controller

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// stepping is a fleet whose policy restarts first and reboots then.
func stepping(t *testing.T, config *rest.Config) *fleet {
	f := newFleet(t, config)
	p := f.policy()
	p.Spec.Escalation = []api.EscalationStep{{Action: api.ActionRestartComponent, TimeoutSeconds: ptr.To(int32(600))}, {Action: api.ActionReboot}}
	require.NoError(t, f.client.Update(t.Context(), p))
	f.fail(sick)
	return f
}

// failStep lets what was asked for be done in vain, and the request be taken away.
func (f *fleet) failStep(c *Controller) {
	f.t.Helper()
	f.answer(sick, api.RepairFailed)
	f.round(c)
	f.round(c)
}

// exhausted is one in which both steps have failed.
func exhausted(t *testing.T, config *rest.Config) (*fleet, *Controller) {
	f := stepping(t, config)
	c := f.start()
	f.round(c)
	f.failStep(c)
	f.round(c)
	f.failStep(c)
	return f, c
}

// byAction are the records, of which a machine has one for each step here.
func (f *fleet) byAction() map[api.RemediationAction]*api.Remediation {
	all, found := f.remediations(), map[api.RemediationAction]*api.Remediation{}
	for i := range all {
		found[all[i].Spec.Action] = &all[i]
	}
	return found
}

// Case C22: one step after the other, then people.
func testEscalation(t *testing.T, config *rest.Config) {
	f := stepping(t, config)
	c := f.start()
	f.round(c)
	require.Equal(t, api.ActionRestartComponent, f.machine(sick).Spec.Remediation.Action)
	require.WithinDuration(t, time.Now().Add(10*time.Minute), f.machine(sick).Spec.Remediation.Deadline.Time, time.Minute)
	f.failStep(c)
	f.round(c)
	require.Equal(t, api.ActionReboot, f.machine(sick).Spec.Remediation.Action, "the next step, without a pause")
	require.Equal(t, api.RemediationFailed, f.byAction()[api.ActionRestartComponent].Status.Phase)
	f.failStep(c)
	c = f.start() // whoever leads next knows what was tried
	f.round(c)
	f.round(c)
	f.untouched()
	require.Len(t, f.remediations(), 3)
	rem := f.byAction()[api.ActionEscalate]
	require.Equal(t, api.RemediationEscalated, rem.Status.Phase)
	require.NotNil(t, rem.Status.EndedAt)
	require.Nil(t, rem.Status.ActedAt)
	require.Contains(t, rem.Status.Message, "no step of the escalation is left: Reboot of "+f.byAction()[api.ActionReboot].Name+" failed")
	require.Equal(t, sick+" Escalated", f.hold())
	require.InDelta(t, 1, testutil.ToFloat64(c.metrics.escalated), 0)
	require.InDelta(t, 1, testutil.ToFloat64(c.metrics.phases.WithLabelValues("Escalated")), 0)

	f.annotate(rem, policy.AnnotationAcknowledged, "true")
	f.round(c)
	require.Zero(t, testutil.ToFloat64(c.metrics.escalated))
	require.Equal(t, sick+" Cooldown", f.hold(), "it begins anew, and not at once")
}

// A remediator that another has taken over from since it decided calls nobody.
func testEscalationOfAnother(t *testing.T, config *rest.Config) {
	f, c := exhausted(t, config)
	lock, now := c.lock(), metav1.Now()
	_, _, err := lock.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "another", LeaseDurationSeconds: 3600, AcquireTime: now, RenewTime: now}))
	_, err = c.round(t.Context())
	require.ErrorIs(t, err, errNotLeading)
	require.Nil(t, f.byAction()[api.ActionEscalate])
}

// The record is written and its phase is not: the next leader finishes it.
func testEscalationAndCrash(t *testing.T, config *rest.Config) {
	f, _ := exhausted(t, config)
	ctx, die := context.WithCancel(t.Context())
	_, err := f.dying(beforeStatus(die)).round(ctx)
	require.ErrorIs(t, err, errCrash)
	require.Empty(t, f.byAction()[api.ActionEscalate].Status.Phase)
	f.untouched()

	f.round(f.start())
	require.Len(t, f.remediations(), 3)
	require.Equal(t, api.RemediationEscalated, f.byAction()[api.ActionEscalate].Status.Phase)
	f.untouched()
}
