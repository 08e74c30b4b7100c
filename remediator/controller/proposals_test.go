package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// says is a person who writes on the one record.
func (f *fleet) says(annotation, by string) {
	rem := f.one()
	f.annotate(&rem, annotation, by)
}

// unwritten means that no request was ever written on any machine.
func (f *fleet) unwritten(before map[string]string) {
	f.untouched()
	for name, version := range f.versions(f.t.Context()) {
		require.Equal(f.t, before[name], version, name)
	}
}

// proposal is a fleet with one sick node, of which a policy of the mode has made a
// proposal, and the versions of its machines and nodes then.
func proposal(t *testing.T, config *rest.Config, mode api.PolicyMode) (*fleet, *Controller, map[string]string) {
	f := newFleet(t, config)
	f.mode(mode)
	f.fail(sick)
	before := f.versions(t.Context())
	c := f.start()
	f.round(c)
	rem := f.one()
	require.Equal(t, api.RemediationProposed, rem.CurrentPhase())
	return f, c, before
}

// A policy that recommends writes to no machine, whatever people say.
func testRecommend(t *testing.T, config *rest.Config) {
	f, c, before := proposal(t, config, api.ModeRecommend)
	rem := f.one()
	require.Equal(t, api.ModeRecommend, rem.Spec.Mode)
	f.round(c)
	require.Equal(t, api.RemediationProposed, f.one().Status.Phase)
	require.Equal(t, sick+" Recommended", f.hold())
	f.says(api.AnnotationApprovedBy, "alice")
	for range 3 {
		clear(c.reworded) // words are written twice a minute at most
		f.round(c)
		f.unwritten(before)
	}
	require.Contains(t, f.one().Status.Message, "policy nodes only recommends, so that the approval by alice does nothing")
	require.Positive(t, f.told(&rem, policy.ReasonRecommended))
	metrics := f.scraped(c)
	require.Contains(t, metrics, `pharos_remediator_proposals_open{mode="Recommend"} 1`)
	require.Contains(t, metrics, `pharos_remediator_proposals_open{mode="Approve"} 0`)
	require.Contains(t, metrics, `pharos_remediator_remediations_total{phase="Proposed"} 1`)
	require.Contains(t, metrics, fmt.Sprintf(`pharos_remediator_proposal_oldest_timestamp_seconds{mode="Recommend"} %.9e`, float64(rem.CreationTimestamp.Unix())))
	require.NotContains(t, metrics, `oldest_timestamp_seconds{mode="Approve"}`)

	f.reboot(sick)
	for _, answers := range f.centrals {
		answers.set(func(c *central) { c.listed = nil })
	}
	f.round(c)
	require.Equal(t, string(policy.ReasonRecovered), f.one().Status.Reason)
	f.round(c)
	require.Contains(t, f.scraped(c), `pharos_remediator_proposals_open{mode="Recommend"} 0`)
	require.Empty(t, f.policy().Status.Holds)
}

func testApprove(t *testing.T, config *rest.Config) {
	f, c, before := proposal(t, config, api.ModeApprove)
	name := f.one().Name
	for range 3 {
		f.round(c)
		f.unwritten(before)
	}
	require.Equal(t, string(policy.ReasonApprovalAwaited), f.one().Status.Reason)
	require.Equal(t, sick+" ApprovalAwaited", f.hold())
	// Whoever may only write the status approves nothing.
	rem := f.one()
	rem.Status.Phase = api.RemediationPending
	rem.Status.Approval = &api.PersonRecord{By: "mallory", At: rem.CreationTimestamp}
	require.NoError(t, f.client.Status().Update(t.Context(), &rem))
	f.round(c)
	require.Equal(t, string(policy.ReasonNotApproved), f.one().Status.Reason)
	f.unwritten(before)
	require.NoError(t, f.client.DeleteAllOf(t.Context(), &api.Remediation{}))

	f.round(c)
	require.Equal(t, name, f.one().Name)
	f.says(api.AnnotationApprovedBy, "alice")
	f.round(c)
	f.unwritten(before)
	rem = f.one()
	require.Equal(t, api.RemediationPending, rem.Status.Phase)
	require.Equal(t, "alice", rem.Status.Approval.By)
	require.Equal(t, "controller.test", rem.Status.Approval.Manager, "the program that wrote it")
	require.WithinDuration(t, time.Now(), rem.Status.Approval.At.Time, time.Minute)
	require.WithinDuration(t, time.Now().Add(30*time.Minute), rem.Status.Deadline.Time, time.Minute)

	f.round(c)
	rem = f.one()
	require.Equal(t, api.RemediationActing, rem.Status.Phase)
	request := f.machine(sick).Spec.Remediation
	require.Equal(t, name, request.ID)
	require.True(t, rem.Status.Deadline.Equal(&request.Deadline), "the node operator has the time that is left from the approval")
	require.Len(t, rem.Status.Confirmation, 4, "all evidence was read again")
}

// Whatever speaks against the repair when a person approves it, nothing is done.
func testApprovedInVain(t *testing.T, config *rest.Config) {
	for name, tc := range map[string]struct {
		change func(f *fleet, c *Controller)
		want   policy.Reason
	}{
		"expired": {func(_ *fleet, c *Controller) {
			// An hour passed in which no round came.
			c.clock, c.now = clock{}, func() time.Time { return time.Now().Add(61 * time.Minute) }
		}, policy.ReasonProposalExpired},
		"denied": {func(f *fleet, _ *Controller) {
			rem := f.one()
			rem.Annotations[api.AnnotationDeniedBy] = "bob"
			require.NoError(f.t, f.client.Update(f.t.Context(), &rem))
		}, policy.ReasonDenied},
		"well again":           {func(f *fleet, _ *Controller) { f.reboot(sick) }, policy.ReasonRecovered},
		"frozen":               {func(f *fleet, _ *Controller) { f.create(freezing("stop")) }, policy.ReasonFrozen},
		"paused":               {func(f *fleet, _ *Controller) { f.annotate(f.machine(sick), api.AnnotationPaused, "") }, policy.ReasonPaused},
		"policy gone":          {func(f *fleet, _ *Controller) { require.NoError(f.t, f.client.Delete(f.t.Context(), f.policy())) }, policy.ReasonNoPolicy},
		"policy only observes": {func(f *fleet, _ *Controller) { f.mode(api.ModeObserve) }, policy.ReasonPolicyChanged},
	} {
		t.Run(name, func(t *testing.T) {
			f, c, _ := proposal(t, config, api.ModeApprove)
			f.says(api.AnnotationApprovedBy, "alice")
			tc.change(f, c)
			before := f.versions(t.Context())
			for range 3 {
				f.round(c)
			}
			rem := f.remediations()[0]
			require.Equal(t, api.RemediationCancelled, rem.Status.Phase, rem.Status.Message)
			require.Equal(t, string(tc.want), rem.Status.Reason)
			require.Len(t, f.remediations(), 1)
			f.unwritten(before)
		})
	}
}

// A person who denies is obeyed in the next rounds, and one who is too late is told.
func testDeny(t *testing.T, config *rest.Config) {
	f, c, before := proposal(t, config, api.ModeApprove)
	f.says(api.AnnotationDeniedBy, "bob")
	f.round(c)
	rem := f.one()
	require.Equal(t, "Cancelled Denied", string(rem.Status.Phase)+" "+rem.Status.Reason)
	require.Equal(t, "bob", rem.Status.Denial.By)
	for range 2 {
		f.round(c)
	}
	require.Equal(t, sick+" Denied", f.hold())
	f.one()
	f.unwritten(before)
	f.says(api.AnnotationApprovedBy, "alice")
	rem = f.one()
	for range 3 {
		f.round(c)
	}
	require.Equal(t, 1, f.told(&rem, policy.ReasonAnsweredTooLate))
	f.unwritten(before)
}

// What was approved is taken back while nobody has answered the request, as a stop does.
func testTakenBack(t *testing.T, config *rest.Config) {
	f, c, _ := proposal(t, config, api.ModeApprove)
	f.says(api.AnnotationApprovedBy, "alice")
	f.round(c)
	f.round(c)
	require.NotNil(t, f.machine(sick).Spec.Remediation)
	f.says(api.AnnotationDeniedBy, "bob")
	f.round(c)
	f.untouched()
	rem := f.one()
	require.Equal(t, "Cancelled Denied", string(rem.Status.Phase)+" "+rem.Status.Reason)
	require.Equal(t, "alice bob", rem.Status.Approval.By+" "+rem.Status.Denial.By)
	f.round(c)
	require.Equal(t, sick+" Denied", f.hold())
}

// A denial that comes between the record and the patch is seen by the last look.
func testDenyBeforePatch(t *testing.T, config *rest.Config) {
	f, c, before := proposal(t, config, api.ModeApprove)
	f.says(api.AnnotationApprovedBy, "alice")
	f.round(c)
	reservations, err := c.ledger.Reservations(t.Context())
	require.NoError(t, err)
	policies, s, err := c.read(t.Context())
	require.NoError(t, err)
	s.Clusters = c.reader.Live(t.Context(), s.Cells, policy.Suspects(policies, s))
	plan := policy.Decide(policies, s, c.now())
	require.Equal(t, policy.Act, plan.Decisions[0].Verdict)
	f.says(api.AnnotationDeniedBy, "bob")
	_, err = c.act(t.Context(), reservations, plan.Decisions)
	require.NoError(t, err)
	require.Equal(t, string(policy.ReasonDenied), f.one().Status.Reason)
	f.unwritten(before)
}

// A proposal is one though the process died before it could say so: who comes next, in
// whatever mode, does not take it for an act.
func testCrashAfterProposal(t *testing.T, config *rest.Config) {
	f, _, before := proposal(t, config, api.ModeApprove)
	require.Empty(t, f.one().Status.Phase)
	c := f.start()
	f.round(c)
	f.one()
	f.unwritten(before)
	rem := f.one()
	_, err := c.ledger.Record(t.Context(), rem.Name, rem.Spec)
	require.ErrorContains(t, err, "it is a proposal that nobody approved")

	f.mode(api.ModeAct)
	f.round(c) // closes the proposal
	f.untouched()
	f.round(c)
	all := f.remediations()
	require.Len(t, all, 2, "the act has a record of its own")
	require.NotEqual(t, rem.Name, f.machine(sick).Spec.Remediation.ID)
}

// A leader that read the proposal before another one moved it on does not set it back.
func testProposalThatMovedOn(t *testing.T, config *rest.Config) {
	f, c, _ := proposal(t, config, api.ModeApprove)
	f.says(api.AnnotationApprovedBy, "alice")
	name := f.one().Name
	f.round(c)
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	late := policy.Update{Name: name, From: api.RemediationProposed, Phase: api.RemediationCancelled, Reason: policy.ReasonProposalExpired, Message: "nobody approved it"}
	require.NoError(t, c.updateOne(context.WithoutCancel(t.Context()), late))
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
}

// Proposals take no place: another policy goes on in the same cluster.
func testProposalHoldsNobody(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	p := f.policy()
	p.Spec.Mode, p.Spec.MatchAll, p.Spec.Pools = api.ModeApprove, "", []string{"workers"}
	p.Spec.Approval.ExpiresSeconds = ptr.To(int32(600))
	require.NoError(t, f.client.Update(t.Context(), p))
	m := f.machine("shop-node-12")
	m.Spec.Pool = "others"
	require.NoError(t, f.client.Update(t.Context(), m))
	m = f.machine("shop-node-13")
	m.Spec.Pool = "others"
	require.NoError(t, f.client.Update(t.Context(), m))
	f.create(policyOf("others"))
	f.fail(sick)
	f.fail("shop-node-12")
	c := f.start()
	f.round(c)
	require.Len(t, f.remediations(), 2)
	require.NotNil(t, f.machine("shop-node-12").Spec.Remediation)
	require.Nil(t, f.machine(sick).Spec.Remediation)
	for _, rem := range f.remediations() {
		if rem.Spec.Target.Machine == sick {
			require.WithinDuration(t, time.Now().Add(10*time.Minute), rem.Spec.ExpiresAt.Time, time.Minute)
		}
	}
}
