package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// asking is a fleet with one sick node, whose policy has the mode.
func asking(mode api.PolicyMode) *world {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	w.policies[0].Spec.Mode = mode
	return w
}

// proposed writes down what the plan proposes, and lets the record stand since.
func (w *world) proposed(t testing.TB) *api.Remediation {
	t.Helper()
	plan := w.decide()
	require.Len(t, plan.Decisions, 1)
	d := plan.Decisions[0]
	require.Equal(t, policy.Propose, d.Verdict, d.Message)
	require.False(t, d.Recorded)
	w.Remediations = append(w.Remediations, api.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, CreationTimestamp: metav1.NewTime(now)}, Spec: d.Spec})
	return &w.Remediations[len(w.Remediations)-1]
}

func answer(rem *api.Remediation, annotation, by string) {
	if rem.Annotations == nil {
		rem.Annotations = map[string]string{}
	}
	rem.Annotations[annotation] = by
}

// approved lets a person approve the proposal, and the remediator see it.
func (w *world) approved(t testing.TB, rem *api.Remediation) {
	t.Helper()
	answer(rem, api.AnnotationApprovedBy, "alice")
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Pending Approved"}, updates(plan))
	w.apply(plan)
}

// apply writes down what the plan says of records.
func (w *world) apply(p policy.Plan) {
	for _, u := range p.Updates {
		for i := range w.Remediations {
			rem := &w.Remediations[i]
			if rem.Name != u.Name {
				continue
			}
			s := &rem.Status
			s.Phase, s.Reason, s.Message = u.Phase, string(u.Reason), u.Message
			if u.Approval != nil {
				s.Approval, s.Deadline = u.Approval, &metav1.Time{Time: u.Deadline}
			}
			if u.Denial != nil {
				s.Denial = u.Denial
			}
			if u.Phase.Final() {
				s.EndedAt = ptr.To(metav1.NewTime(now))
			}
		}
	}
}

func TestARecommendationIsNeverDone(t *testing.T) {
	w := asking(api.ModeRecommend)
	rem := w.proposed(t)
	require.Nil(t, rem.Spec.ExpiresAt, "there is nothing that could be approved, and so nothing that expires")
	require.Equal(t, api.ModeRecommend, rem.Spec.Mode)
	for range 2 {
		plan := w.decide()
		require.Equal(t, []string{sick + " Propose Recommended"}, verdicts(plan))
		require.True(t, plan.Decisions[0].Recorded, "one proposal is enough")
		require.Equal(t, metav1.ConditionFalse, plan.Policies[0].Allowed)
		w.apply(plan)
		require.Equal(t, api.RemediationProposed, rem.Status.Phase)
		answer(rem, api.AnnotationApprovedBy, "alice")
	}
	require.Contains(t, rem.Status.Message, "policy nodes only recommends, so that the approval by alice does nothing")
	require.Empty(t, w.decide().Updates, "what changes nothing is not written again")
}

func TestAnApprovedProposalIsAnActThatWaitsForItsTurn(t *testing.T) {
	w := asking(api.ModeApprove)
	rem := w.proposed(t)
	require.Equal(t, now.Add(time.Hour), rem.Spec.ExpiresAt.Time)
	require.Equal(t, now.Add(time.Hour+30*time.Minute), rem.Spec.Deadline.Time, "the repair has its time after the last moment to approve it")
	plan := w.decide()
	require.Equal(t, []string{sick + " Propose ApprovalAwaited"}, verdicts(plan))
	require.Equal(t, []string{rem.Name + " Proposed ApprovalAwaited"}, updates(plan))
	require.Equal(t, now.Add(time.Hour), plan.NextCheck)
	w.apply(plan)

	rem.ManagedFields = []metav1.ManagedFieldsEntry{
		wrote("pharos", api.AnnotationAnswerReason, time.Minute), wrote("kubectl-annotate", api.AnnotationApprovedBy, 2*time.Minute)}
	answer(rem, api.AnnotationAnswerReason, "seen the console")
	w.approved(t, rem)
	require.Equal(t, api.PersonRecord{By: "alice", Manager: "kubectl-annotate", At: metav1.NewTime(now.Add(-2 * time.Minute)), Reason: "seen the console"}, *rem.Status.Approval)
	require.Contains(t, rem.Status.Message, "approved by alice (seen the console)")

	plan = w.decide()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(plan))
	require.Equal(t, rem.Name, plan.Decisions[0].Name)
	require.Equal(t, now.Add(30*time.Minute), plan.Decisions[0].Spec.Deadline.Time, "its time counts from the approval")
	require.True(t, plan.Decisions[0].Recorded)

	f := again(w, &w.policies[0], now)
	f.Record = rem
	require.Empty(t, policy.Confirm(plan.Decisions[0], f, now).Reason)
	w.Clusters[0].Err = "away"
	require.Equal(t, []string{rem.Name + " Pending LiveUnknown"}, updates(w.decide()), "it waits as every record does")
}

func wrote(manager, annotation string, ago time.Duration) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(now.Add(-ago))
	return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(
		fmt.Sprintf(`{"f:metadata":{"f:annotations":{".":{},"f:%s":{}}}}`, annotation))}
}

// What is written into the status alone lets nothing begin, nor what was taken away again.
func TestNothingUnapprovedBegins(t *testing.T) {
	for name, change := range map[string]func(w *world, rem *api.Remediation){
		"not approved at all": func(_ *world, rem *api.Remediation) {
			delete(rem.Annotations, api.AnnotationApprovedBy)
			rem.Status.Approval = nil
		},
		"approved by status only":   func(_ *world, rem *api.Remediation) { delete(rem.Annotations, api.AnnotationApprovedBy) },
		"approved by annotation":    func(_ *world, rem *api.Remediation) { rem.Status.Approval = nil },
		"approved by nobody":        func(_ *world, rem *api.Remediation) { answer(rem, api.AnnotationApprovedBy, " ") },
		"policy recommends now":     func(w *world, _ *api.Remediation) { w.policies[0].Spec.Mode = api.ModeRecommend },
		"approved for another":      func(_ *world, rem *api.Remediation) { rem.Spec.PolicyName = "another" },
		"recorded without a person": func(_ *world, rem *api.Remediation) { rem.Spec.Mode = api.ModeAct },
		"recommended":               func(_ *world, rem *api.Remediation) { rem.Spec.Mode = api.ModeRecommend },
		"policy acts now, without an approval": func(w *world, rem *api.Remediation) {
			w.policies[0].Spec.Mode, rem.Status.Approval = api.ModeAct, nil
		},
	} {
		for _, stands := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", request stands: ", stands), func(t *testing.T) {
				w := asking(api.ModeApprove)
				rem := w.proposed(t)
				w.approved(t, rem)
				if stands {
					w.asked(rem, "")
					rem.Status.Phase = api.RemediationActing
				}
				require.Len(t, append(acts(w.decide()), make([]policy.Decision, len(w.decide().Updates))...), 1, "it would go on")
				change(w, rem)
				plan := w.decide()
				require.Empty(t, acts(plan))
				if stands {
					require.Equal(t, []string{rem.Name + " Cancelled NotApproved"}, withdrawals(plan))
				} else {
					require.Equal(t, []string{rem.Name + " Cancelled NotApproved"}, updates(plan))
				}
			})
		}
	}
}

func TestALastLookAtTheRecord(t *testing.T) {
	w := asking(api.ModeApprove)
	rem := w.proposed(t)
	w.approved(t, rem)
	d := acts(w.decide())[0]
	for reason, change := range map[policy.Reason]func(rem *api.Remediation){
		policy.ReasonDenied:      func(rem *api.Remediation) { answer(rem, api.AnnotationDeniedBy, "bob") },
		policy.ReasonNotApproved: func(rem *api.Remediation) { rem.Annotations = nil },
	} {
		f := again(w, &w.policies[0], now)
		f.Record = rem.DeepCopy()
		require.Empty(t, policy.Confirm(d, f, now).Reason)
		change(f.Record)
		seen := policy.Confirm(d, f, now)
		require.Equal(t, reason, seen.Reason)
		require.True(t, policy.Settled(seen.Reason))
		u := policy.Withheld(f.Record, seen.Reason, seen.Message, now)
		require.Equal(t, reason == policy.ReasonDenied, u.Denial != nil)
	}
	tightened := w.policies[0].DeepCopy()
	tightened.Spec.Mode = api.ModeRecommend
	f := again(w, tightened, now)
	f.Record = rem
	require.Equal(t, policy.ReasonNotApproved, policy.Confirm(d, f, now).Reason)
}

// What becomes of an open proposal, and of its approval, by what is known now.
func TestProposalsAreSettledByCurrentEvidence(t *testing.T) {
	cancelled := func(r policy.Reason) [2]string {
		return [2]string{fmt.Sprint("Cancelled ", r), fmt.Sprint("Cancelled ", r)}
	}
	for name, tc := range map[string]struct {
		change func(w *world, rem *api.Remediation)
		// want is what is written down, without an approval and with one.
		want [2]string
	}{
		"recovered":           {func(w *world, _ *api.Remediation) { w.heal(sick, false) }, cancelled(policy.ReasonRecovered)},
		"live node recovered": {func(w *world, _ *api.Remediation) { w.node(sick).Ready = "True" }, cancelled(policy.ReasonRecovered)},
		"ready in between":    {func(w *world, _ *api.Remediation) { w.node(sick).Since = now.Add(-6 * time.Minute) }, cancelled(policy.ReasonRecovered)},
		"rebooted":            {func(w *world, _ *api.Remediation) { w.node(sick).BootID = "boot-2" }, cancelled(policy.ReasonRecovered)},
		"machine gone":        {func(w *world, _ *api.Remediation) { w.machine(sick).UID = "another" }, cancelled(policy.ReasonTargetGone)},
		"hardware swapped":    {func(w *world, _ *api.Remediation) { w.machine(sick).HardwareID = "hw-new" }, cancelled(policy.ReasonTargetChanged)},
		"policy gone":         {func(w *world, _ *api.Remediation) { w.policies = nil }, cancelled(policy.ReasonNoPolicy)},
		"policy elsewhere": {func(w *world, _ *api.Remediation) {
			w.policies[0].Spec.MatchAll, w.policies[0].Spec.Pools = "", []string{"elsewhere"}
		}, cancelled(policy.ReasonNoPolicy)},
		"another policy speaks": {func(w *world, _ *api.Remediation) {
			first := w.policies[0].DeepCopy()
			first.Name = "first"
			w.policies = append(w.policies, *first)
		}, cancelled(policy.ReasonNoPolicy)},
		"policy observes":   {func(w *world, _ *api.Remediation) { w.policies[0].Spec.Mode = "" }, cancelled(policy.ReasonPolicyChanged)},
		"policy acts":       {func(w *world, _ *api.Remediation) { w.policies[0].Spec.Mode = api.ModeAct }, cancelled(policy.ReasonPolicyChanged)},
		"policy recommends": {func(w *world, _ *api.Remediation) { w.policies[0].Spec.Mode = api.ModeRecommend }, cancelled(policy.ReasonPolicyChanged)},
		"expired":           {func(_ *world, rem *api.Remediation) { rem.Spec.ExpiresAt = ptr.To(metav1.NewTime(now)) }, cancelled(policy.ReasonProposalExpired)},
		"expired, cell away": {func(w *world, rem *api.Remediation) {
			w.Cells[0].Err = "away"
			rem.Spec.ExpiresAt = ptr.To(metav1.NewTime(now))
		}, cancelled(policy.ReasonProposalExpired)},
		"denied": {func(_ *world, rem *api.Remediation) { answer(rem, api.AnnotationDeniedBy, "") }, cancelled(policy.ReasonDenied)},
		"paused": {func(w *world, _ *api.Remediation) { w.machine(sick).Paused = true }, [2]string{"Proposed Paused", "Cancelled Paused"}},
		"frozen": {func(w *world, _ *api.Remediation) {
			w.Budgets = append(w.Budgets, api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "stop"},
				Spec: api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "storm"}})
		}, [2]string{"Proposed Frozen", "Cancelled Frozen"}},
		"rack went down":          {func(w *world, _ *api.Remediation) { w.fail("shop-0-04"); w.lease("shop-0-04").Renewed = now }, [2]string{"Proposed CorrelatedFailure", "Cancelled CorrelatedFailure"}},
		"somebody else's request": {func(w *world, _ *api.Remediation) { w.machine(sick).Request = &api.RemediationRequest{ID: "by-hand"} }, [2]string{"Proposed ForeignRemediation", "Cancelled ForeignRemediation"}},
		"another record":          {func(w *world, _ *api.Remediation) { w.open(sick, api.RemediationVerifying) }, [2]string{"Proposed ForeignRemediation", "Cancelled ForeignRemediation"}},
		"central silent":          {func(w *world, _ *api.Remediation) { w.Centrals[0].Err = "away" }, [2]string{"Proposed EvidenceMissing", "Pending Approved"}},
		"cell away":               {func(w *world, _ *api.Remediation) { w.Cells[0].Err = "away" }, [2]string{"Proposed InventoryUnknown", "Pending Approved"}},
	} {
		for i, by := range []string{"", "alice"} {
			t.Run(fmt.Sprint(name, ", approved by ", by), func(t *testing.T) {
				w := asking(api.ModeApprove)
				w.proposed(t)
				tc.change(w, &w.Remediations[0])
				rem := &w.Remediations[0]
				if by != "" {
					answer(rem, api.AnnotationApprovedBy, by)
				}
				plan := w.decide()
				require.Contains(t, updates(plan), rem.Name+" "+tc.want[i])
				for _, d := range acts(plan) {
					require.NotEqual(t, rem.Name, d.Name, "what nobody approved keeps its name to itself")
				}
				for _, d := range plan.Decisions {
					require.False(t, d.Verdict == policy.Propose && d.Policy == "nodes" && d.Machine.UID == "uid-"+sick && !d.Recorded, "one open proposal of a machine and policy")
				}
			})
		}
	}
}
