package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// A denial holds for the hardware, whatever becomes of its Machine and whichever policy
// speaks; so does what was taken back.
func TestADenialHoldsForAWhile(t *testing.T) {
	for _, mode := range []api.PolicyMode{api.ModeApprove, api.ModeAct} {
		w := asking(api.ModeApprove)
		rem := w.proposed(t)
		answer(rem, api.AnnotationDeniedBy, "bob")
		answer(rem, api.AnnotationAnswerReason, "being moved")
		plan := w.decide()
		require.Equal(t, []string{sick + " Defer InFlight"}, verdicts(plan))
		w.apply(plan)
		require.Equal(t, "bob", rem.Status.Denial.By)
		require.Equal(t, "denied by bob (being moved)", rem.Status.Message)

		w.machine(sick).UID = "made-anew"
		w.policies[0].Name, w.policies[0].Spec.Mode = "another", mode
		w.policies[0].Spec.CooldownSeconds = ptr.To(int32(600))
		plan = w.decide()
		require.Equal(t, []string{sick + " Hold Denied"}, verdicts(plan))
		require.Equal(t, rem.Name+" of the same hardware was denied by bob (being moved); left alone until 2026-03-01T12:10:00Z", plan.Decisions[0].Message)
		require.Equal(t, now.Add(10*time.Minute), plan.NextCheck)
		rem.Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-10 * time.Minute)))
		require.NotEqual(t, []string{sick + " Hold Denied"}, verdicts(w.decide()))
	}
}

func TestWhatHasNotBegunIsTakenBack(t *testing.T) {
	w, rem := recorded(t)
	answer(rem, api.AnnotationDeniedBy, "bob")
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Cancelled Denied"}, updates(plan))
	require.Equal(t, "bob", plan.Updates[0].Denial.By)
	require.Empty(t, acts(plan))

	w.asked(rem, "")
	rem.Status.Phase = api.RemediationActing
	plan = w.decide()
	require.Equal(t, []string{rem.Name + " Cancelled Denied"}, withdrawals(plan), "as a stop does")
	require.Equal(t, "bob", plan.Withdrawals[0].Then.Denial.By)
	require.Empty(t, plan.Late)

	w.machine(sick).Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairRunning}
	plan = w.decide()
	require.Equal(t, []string{rem.Name + " Acting RepairRunning"}, updates(plan), "what runs goes on")
	require.Empty(t, plan.Withdrawals)
	require.Equal(t, []policy.LateAnswer{{Name: rem.Name, Message: "the denial by bob does nothing: the node operator has begun, and what runs is not interrupted"}}, plan.Late)
}

// What nobody answers is proposed again, and less often each time.
func TestAnExpiredProposalIsRepeatedAfterAPause(t *testing.T) {
	w := asking(api.ModeApprove)
	for _, pause := range []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 16 * time.Hour, 24 * time.Hour, 24 * time.Hour} {
		rem := w.proposed(t)
		for i := range len(w.Remediations) - 1 {
			w.Remediations[i].Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-48 * time.Hour)))
		}
		rem.Spec.ExpiresAt = ptr.To(metav1.NewTime(now))
		plan := w.decide()
		require.Equal(t, []string{rem.Name + " Cancelled ProposalExpired"}, updates(plan))
		require.Equal(t, []string{sick + " Defer InFlight"}, verdicts(plan), "it is closed first")
		w.apply(plan)
		rem.Status.EndedAt = ptr.To(metav1.NewTime(now.Add(time.Second - pause)))
		plan = w.decide()
		require.Equal(t, []string{sick + " Hold ProposalExpired"}, verdicts(plan), pause)
		require.Equal(t, now.Add(time.Second), plan.NextCheck)
		rem.Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-pause)))
	}
	w.policies[0].Spec.Mode = api.ModeAct
	require.Len(t, acts(w.decide()), 1, "a policy that asks nobody waits for nobody")
	w.policies[0].Spec.Mode = api.ModeApprove
	for i := range w.Remediations {
		w.Remediations[i].Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-8 * 24 * time.Hour)))
	}
	w.proposed(t)
}

// Two in one cluster are both proposed, since neither has a place. Once both are approved
// they go one after the other.
func TestProposalsHaveNoPlaceUntilTheyAreApproved(t *testing.T) {
	w := asking(api.ModeApprove)
	w.fail("shop-0-11")
	plan := w.decide()
	require.Equal(t, []string{sick + " Propose ApprovalAwaited", "shop-0-11 Propose ApprovalAwaited"}, verdicts(plan))
	for _, d := range plan.Decisions {
		w.Remediations = append(w.Remediations, api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: d.Spec})
	}
	for i := range w.Remediations {
		answer(&w.Remediations[i], api.AnnotationApprovedBy, "alice")
	}
	w.apply(w.decide())
	require.Len(t, acts(w.decide()), 1)
}

func TestAnswersThatComeTooLate(t *testing.T) {
	w := asking(api.ModeApprove)
	rem := w.proposed(t)
	rem.Spec.ExpiresAt = ptr.To(metav1.NewTime(now))
	w.apply(w.decide())
	require.Empty(t, w.decide().Late)
	answer(rem, api.AnnotationApprovedBy, "alice")
	plan := w.decide()
	require.Equal(t, []policy.LateAnswer{{Name: rem.Name, Message: "the approval by alice does nothing: it has ended as Cancelled (ProposalExpired)"}}, plan.Late)
	require.Equal(t, []string{sick + " Hold ProposalExpired"}, verdicts(plan), "and no more than that")
	answer(rem, api.AnnotationDeniedBy, "bob")
	require.Equal(t, "the denial by bob does nothing: it has ended as Cancelled (ProposalExpired)", w.decide().Late[0].Message)
	rem.Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-25 * time.Hour)))
	require.Empty(t, w.decide().Late, "it is no news any more")
}

// Whatever is proposed beside it, the same is done.
func TestProposalsChangeNothingOfWhatIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		before := w.decide()
		for _, c := range w.Cells {
			for _, m := range c.Machines {
				if rapid.IntRange(0, 9).Draw(t, m.Name) > 0 {
					continue
				}
				rem := w.open(m.Name, rapid.SampledFrom([]api.RemediationPhase{"", api.RemediationProposed}).Draw(t, "phase"))
				rem.Name = "proposal-" + m.Name
				rem.Spec.PolicyName = rapid.SampledFrom([]string{"gone", "nodes"}).Draw(t, "policy")
				rem.Spec.Mode, rem.Spec.ExpiresAt = api.ModeApprove, ptr.To(rem.Spec.Deadline)
				if rapid.Bool().Draw(t, "approved") {
					answer(rem, api.AnnotationApprovedBy, "alice")
				}
			}
		}
		// The policy is in mode Act: it stands behind none of them.
		after := w.decide()
		for name := range acted(after) {
			require.Contains(t, acted(before), name)
		}
		for _, u := range after.Updates {
			require.False(t, u.From == api.RemediationProposed && !u.Phase.Final(), "%s %s", u.Name, u.Phase)
		}
		require.Equal(t, withdrawals(before), withdrawals(after))
	})
}

// What people said outlives the bound on records for as long as it counts.
func TestAnswersAreNotForgotten(t *testing.T) {
	w := asking(api.ModeApprove)
	for name, change := range map[string]func(rem *api.Remediation){
		"denied":    func(rem *api.Remediation) { rem.Status.Denial = &api.PersonRecord{By: "bob"} },
		"expired":   func(rem *api.Remediation) { rem.Status.Reason = string(policy.ReasonProposalExpired) },
		"recovered": func(rem *api.Remediation) { rem.Status.Reason = string(policy.ReasonRecovered) },
	} {
		rem := w.open("shop-0-11", api.RemediationCancelled)
		rem.Name, rem.Status.EndedAt = name, ptr.To(metav1.NewTime(now.Add(-2*time.Hour)))
		change(rem)
	}
	gone := policy.Retire(w.Snapshot, policy.Retention{Records: 0, Age: 90 * 24 * time.Hour}, now)
	require.Len(t, gone, 1)
	require.Equal(t, "recovered", gone[0].Name)
}
