package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// lemon is a fleet of one sick machine whose policy has the given escalation.
func lemon(steps ...api.EscalationStep) *world {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	w.policies[0].Spec.Escalation = steps
	return w
}

func threeSteps() []api.EscalationStep {
	return []api.EscalationStep{
		{Action: api.ActionRestartComponent, TimeoutSeconds: ptr.To(int32(300)), Attempts: ptr.To(int32(2))},
		{Action: api.ActionReboot, Attempts: ptr.To(int32(1))},
		{Action: api.ActionReinstall, TimeoutSeconds: ptr.To(int32(7200)), Attempts: ptr.To(int32(1))},
	}
}

// tried is a repair of the sick machine's hardware that ended a while ago.
func (w *world) tried(action api.RemediationAction, phase api.RemediationPhase, reason policy.Reason, ago time.Duration) *api.Remediation {
	w.ended(sick, phase, ago)
	rem := &w.Remediations[len(w.Remediations)-1]
	rem.Name = fmt.Sprintf("tried-%d", len(w.Remediations))
	rem.Spec.Action, rem.Spec.Target.HardwareID, rem.Status.Reason = action, w.machine(sick).HardwareID, string(reason)
	return rem
}

func (w *world) failedStep(action api.RemediationAction, ago time.Duration) *api.Remediation {
	return w.tried(action, api.RemediationFailed, policy.ReasonDeadlinePassed, ago)
}

func (w *world) helpedStep(action api.RemediationAction, ago time.Duration) *api.Remediation {
	return w.tried(action, api.RemediationSucceeded, policy.ReasonVerified, ago)
}

// unseenStep is one of which nobody could see by its deadline whether it helped.
func (w *world) unseenStep(action api.RemediationAction, ago time.Duration) {
	w.tried(action, api.RemediationFailed, policy.ReasonUnverified, ago)
}

// due is the action that is done next, or why none is.
func (w *world) due() string {
	d := w.decide().Decisions[0]
	if d.Verdict == policy.Act {
		return string(d.Spec.Action)
	}
	return fmt.Sprintf("%s %s", d.Verdict, d.Reason)
}

// Case C22: what has failed is not tried again.
func TestTheStepThatIsDue(t *testing.T) {
	restart, reboot, reinstall := api.ActionRestartComponent, api.ActionReboot, api.ActionReinstall
	for name, c := range map[string]struct {
		past func(w *world)
		want string
	}{
		"nothing was tried":       {func(*world) {}, "RestartComponent"},
		"the first failed":        {func(w *world) { w.failedStep(restart, time.Minute) }, "Reboot"},
		"the second failed":       {func(w *world) { w.failedStep(restart, time.Hour); w.failedStep(reboot, time.Minute) }, "Reinstall"},
		"a harsher one failed":    {func(w *world) { w.failedStep(reboot, time.Minute) }, "Reinstall"},
		"it helped once":          {func(w *world) { w.helpedStep(restart, 2*time.Hour) }, "RestartComponent"},
		"it helped too often":     {func(w *world) { w.helpedStep(restart, 2*time.Hour); w.helpedStep(restart, 4*time.Hour) }, "Reboot"},
		"it helped long ago":      {func(w *world) { w.helpedStep(restart, 2*time.Hour); w.helpedStep(restart, 25*time.Hour) }, "RestartComponent"},
		"it helped a moment ago":  {func(w *world) { w.failedStep(restart, time.Hour); w.helpedStep(reboot, time.Minute) }, "Hold Cooldown"},
		"a failure of last week":  {func(w *world) { w.failedStep(restart, 7*24*time.Hour) }, "Reboot"},
		"made up for since":       {func(w *world) { w.failedStep(restart, 7*24*time.Hour); w.helpedStep(reboot, 6*24*time.Hour) }, "RestartComponent"},
		"made up for today":       {func(w *world) { w.failedStep(restart, 3*time.Hour); w.helpedStep(reboot, 2*time.Hour) }, "Reinstall"},
		"all failed":              {func(w *world) { w.failedStep(reinstall, time.Minute) }, "Escalate Escalated"},
		"something unknown":       {func(w *world) { w.failedStep("Exorcise", time.Minute) }, "Escalate Escalated"},
		"other hardware failed":   {func(w *world) { w.failedStep(reinstall, time.Minute).Spec.Target.HardwareID = "hw-other" }, "RestartComponent"},
		"under another Machine":   {func(w *world) { w.failedStep(restart, time.Minute).Spec.Target.MachineUID = "uid-gone" }, "Reboot"},
		"of another policy":       {func(w *world) { w.failedStep(restart, time.Minute).Spec.PolicyName = "another" }, "Reboot"},
		"it was never begun":      {func(w *world) { w.tried(restart, api.RemediationCancelled, policy.ReasonRepairRefused, 2*time.Hour) }, "RestartComponent"},
		"somebody has looked":     {func(w *world) { look(w.failedStep(reinstall, 2*time.Hour)) }, "RestartComponent"},
		"and it failed again":     {func(w *world) { look(w.failedStep(reinstall, 3*time.Hour)); w.failedStep(restart, 2*time.Hour) }, "Reboot"},
		"looked at after another": {func(w *world) { w.failedStep(reboot, 5*time.Hour); look(w.failedStep(restart, 3*time.Hour)) }, "RestartComponent"},
		"the answer came late": {func(w *world) {
			rem := w.failedStep(restart, time.Minute)
			rem.Status.RepairedAt = nil
			w.machine(sick).Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairFailed, FinishedAt: rem.Status.EndedAt}
		}, "Reboot"},
		"its work has disappeared": {func(w *world) {
			rem := w.failedStep(restart, time.Minute)
			rem.Status.RepairedAt = nil
			w.machine(sick).Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairFailed}
		}, "Escalate Escalated"},
		"nobody could see":          {func(w *world) { w.unseenStep(reboot, 2*time.Hour) }, "RestartComponent"},
		"nobody could see for long": {func(w *world) { w.unseenStep(restart, 200*time.Hour) }, "RestartComponent"},
		"nobody could see of two":   {func(w *world) { w.unseenStep(restart, 2*time.Hour); w.helpedStep(restart, 4*time.Hour) }, "Reboot"},
		"it is said to run": {func(w *world) {
			rem := w.failedStep(restart, time.Minute)
			rem.Status.RepairedAt = nil
			w.machine(sick).Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairRunning, StartedAt: rem.Status.ActedAt}
		}, "Defer InFlight"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lemon(threeSteps()...)
			c.past(w)
			require.Equal(t, c.want, w.due())
		})
	}
}

// look says that a person has looked at it.
func look(rem *api.Remediation) {
	rem.Annotations = map[string]string{policy.AnnotationAcknowledged: "true"}
}

// Case C23: what may have happened is not done again.
// What is not known to be over, or to have been done to this machine, is followed by nothing.
func TestNothingFollowsWhatIsNotKnown(t *testing.T) {
	for name, change := range map[string]func(w *world, rem *api.Remediation){
		"it may run yet": func(_ *world, rem *api.Remediation) { rem.Status.RepairedAt = nil },
		"it is said to run, for too long": func(w *world, rem *api.Remediation) {
			rem.Status.RepairedAt = nil
			w.machine(sick).Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairRunning, StartedAt: ptr.To(metav1.NewTime(now.Add(-48 * time.Hour)))}
		},
		"it was refused": func(w *world, rem *api.Remediation) {
			rem.Status.RepairedAt = nil
			w.machine(sick).Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairRefused}
		},
		"another was answered": func(w *world, rem *api.Remediation) {
			rem.Status.RepairedAt = nil
			w.machine(sick).Response = &api.RemediationResponse{ID: "another", Phase: api.RepairSucceeded}
		},
		"other hardware stood there": func(_ *world, rem *api.Remediation) { rem.Status.Reason = string(policy.ReasonTargetChanged) },
		"the Machine was gone":       func(_ *world, rem *api.Remediation) { rem.Status.Reason = string(policy.ReasonTargetGone) },
		"somebody took the request":  func(_ *world, rem *api.Remediation) { rem.Status.Reason = string(policy.ReasonRequestWithdrawn) },
		"no reason is written down":  func(_ *world, rem *api.Remediation) { rem.Status.Reason = "" },
	} {
		t.Run(name, func(t *testing.T) {
			w := lemon(threeSteps()...)
			rem := w.failedStep(api.ActionRestartComponent, time.Minute)
			change(w, rem)
			require.Equal(t, "Escalate Escalated", w.due())
			require.Contains(t, w.decide().Decisions[0].Message, "nothing may follow it")
			look(rem)
			require.NotEqual(t, "Escalate Escalated", w.due())
		})
	}
}

func TestAStepHasItsOwnTimeout(t *testing.T) {
	w := lemon(threeSteps()...)
	require.Equal(t, now.Add(5*time.Minute), acts(w.decide())[0].Spec.Deadline.Time)
	w.failedStep(api.ActionRestartComponent, time.Minute)
	require.Equal(t, now.Add(30*time.Minute), acts(w.decide())[0].Spec.Deadline.Time, "the policy's, which says nothing")
	w.failedStep(api.ActionReboot, time.Minute)
	require.Equal(t, now.Add(2*time.Hour), acts(w.decide())[0].Spec.Deadline.Time)
}

// Case C08: what a repair helps only for hours is handed to people.
// Case C22: so is what nothing helps.
// A machine that a reboot helps three times in a day is no machine that a reboot mends.
func TestALemonIsHandedToPeople(t *testing.T) {
	w := lemon()
	for _, ago := range []time.Duration{2 * time.Hour, 8 * time.Hour} {
		w.helpedStep(api.ActionReboot, ago)
	}
	require.Equal(t, "Reboot", w.due())
	w.helpedStep(api.ActionReboot, 20*time.Hour)
	plan := w.decide()
	d := plan.Decisions[0]
	require.Equal(t, policy.Escalate, d.Verdict)
	require.False(t, d.Recorded)
	require.Equal(t, "no step of the escalation is left: Reboot helped 3 times and not for long", d.Message)
	require.Equal(t, api.ActionEscalate, d.Spec.Action)
	require.Contains(t, d.Spec.Reason, "Reboot helped 3 times and not for long; node shop-0-03 is Ready=Unknown")
	require.NotEmpty(t, d.Spec.Evidence.Signals)
	require.Zero(t, plan.Escalated, "nobody was told yet")
	require.Len(t, plan.Policies[0].Holds, 1)

	// Written down, it stays so for however long, until somebody has looked.
	w.Remediations = append(w.Remediations, api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: d.Spec})
	plan = w.decide()
	require.Equal(t, []string{d.Name + " Escalated Escalated"}, updates(plan), "as after a crash between the two writes")
	rem := &w.Remediations[len(w.Remediations)-1]
	rem.Status.Phase, rem.Status.EndedAt = api.RemediationEscalated, ptr.To(metav1.NewTime(now.Add(-100*24*time.Hour)))
	plan = w.decide()
	require.Empty(t, plan.Updates)
	require.Equal(t, 1, plan.Escalated)
	require.Equal(t, []string{sick + " Escalate Escalated"}, verdicts(plan))
	require.True(t, plan.Decisions[0].Recorded)
	require.Contains(t, plan.Decisions[0].Message, "kubectl annotate remediation "+d.Name+" pharos.dev/acknowledged=true")

	rem.Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-time.Hour)))
	look(rem)
	w.Remediations[0].Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-2 * time.Hour)))
	plan = w.decide()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(plan), "it begins anew")
	require.Zero(t, plan.Escalated)
}

// Whoever removes the machine has answered, once that is known.
func TestNobodyLooksAtWhatIsGone(t *testing.T) {
	w := lemon()
	w.tried(api.ActionEscalate, api.RemediationEscalated, policy.ReasonEscalated, time.Hour)
	w.Remediations[0].Spec.Target.HardwareID = "hw-gone"
	w.Remediations[0].Spec.Target.MachineUID = "uid-gone"
	require.Zero(t, w.decide().Escalated)
	w.Cells = append(w.Cells, policy.Cell{Name: "dark", Err: "timeout"})
	require.Equal(t, 1, w.decide().Escalated, "it may be in the cell that cannot be read")
}

// A policy that only observes hands nothing to people; it says that it would.
func TestObservingDoesNotEscalate(t *testing.T) {
	w := lemon()
	w.policies[0].Spec.Mode = api.ModeObserve
	w.failedStep(api.ActionReboot, time.Hour)
	d := w.decide().Decisions[0]
	require.Equal(t, policy.Observe, d.Verdict)
	require.Empty(t, d.Name)
	require.Contains(t, d.Message, "it would hand the machine to people: no step of the escalation is left: Reboot of tried-1 failed: DeadlinePassed")
}

// What holds a repair holds an escalation: of a rack that is out, nobody has to look at
// each machine.
func TestAnEscalationNeedsTheSameEvidence(t *testing.T) {
	w := lemon()
	w.failedStep(api.ActionReboot, time.Hour)
	for _, name := range []string{"shop-0-00", "shop-0-01", "shop-0-02"} {
		w.fail(name)
	}
	for _, d := range w.decide().Decisions {
		require.Equal(t, policy.ReasonCorrelatedFailure, d.Reason)
	}
}

// A record that was written for another escalation is not taken up.
func TestAStepThatIsNotDueAnyMore(t *testing.T) {
	w := lemon()
	d := acts(w.decide())[0]
	w.Remediations = append(w.Remediations, api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: d.Spec})
	require.True(t, acts(w.decide())[0].Recorded)
	w.policies[0].Spec.Escalation = threeSteps()
	plan := w.decide()
	require.Equal(t, []string{d.Name + " Cancelled PolicyChanged"}, updates(plan))
	require.Empty(t, acts(plan))
	f := again(w, &w.policies[0], now)
	require.Equal(t, policy.ReasonPolicyChanged, policy.Confirm(d, f, now).Reason)
	w.asked(&w.Remediations[0], "")
	require.Equal(t, []string{d.Name + " Cancelled PolicyChanged"}, withdrawals(w.decide()))
}

// Case C21: that a node was rebooted is proven by another boot id.
// A restart leaves the boot id; what reinstalls a machine does not.
func TestWhatAStepMustShow(t *testing.T) {
	for action, want := range map[api.RemediationAction][]string{
		api.ActionRestartComponent: {"rem-" + sick + " Succeeded Verified"},
		api.ActionReboot:           {"rem-" + sick + " Verifying AwaitingVerification"},
		api.ActionReinstall:        {"rem-" + sick + " Verifying AwaitingVerification"},
	} {
		w := newWorld(1, 4, 5)
		rem := w.open(sick, api.RemediationActing)
		rem.Spec.Action = action
		w.asked(rem, api.RepairSucceeded)
		w.fail(sick)
		w.heal(sick, false)
		require.Equal(t, want, updates(w.decide()), action)
		w.heal(sick, true)
		require.Equal(t, []string{"rem-" + sick + " Succeeded Verified"}, updates(w.decide()), action)
	}
}

// The request of a step that has failed is taken away before the next is asked for, and is
// nobody else's.
func TestTheLastRequestIsTakenAwayFirst(t *testing.T) {
	w := lemon(threeSteps()...)
	rem := w.failedStep(api.ActionRestartComponent, time.Minute)
	w.machine(sick).Request = &api.RemediationRequest{ID: rem.Name, Action: rem.Spec.Action}
	plan := w.decide()
	require.Equal(t, []string{sick + " Defer InFlight"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "the request of "+rem.Name+", which has ended, is being taken away first")
	require.Equal(t, []string{rem.Name}, withdrawals(plan))
}

// The Machine stays and its hardware is another: nobody has to look at what is gone.
func TestNobodyLooksAtHardwareThatWasReplaced(t *testing.T) {
	w := lemon()
	w.tried(api.ActionEscalate, api.RemediationEscalated, policy.ReasonEscalated, time.Hour)
	require.Equal(t, 1, w.decide().Escalated)
	w.machine(sick).HardwareID = "hw-new"
	require.Zero(t, w.decide().Escalated)
}

// A record that somebody deleted leaves its name on the machine, where it is answered.
func TestANameThatIsAnsweredIsNotUsedAgain(t *testing.T) {
	w := lemon()
	name := acts(w.decide())[0].Name
	w.machine(sick).Response = &api.RemediationResponse{ID: name, Phase: api.RepairFailed}
	d := acts(w.decide())[0]
	require.NotEqual(t, name, d.Name)
	w.machine(sick).Response = nil
	w.machine(sick).Request = &api.RemediationRequest{ID: name}
	require.Equal(t, []string{sick + " Hold ForeignRemediation"}, verdicts(w.decide()))
}

// What no record could hold is told, and takes nobody's place.
func TestAnIdentityThatNoRecordCouldHold(t *testing.T) {
	w := lemon()
	w.node(sick).BootID = strings.Repeat("b", 65)
	require.Equal(t, "Hold IdentityUnknown", w.due())
	w.node(sick).BootID = strings.Repeat("b", 64)
	require.Equal(t, "Reboot", w.due())
	w.node(sick).ProviderID, w.machine(sick).ProviderID = strings.Repeat("p", 513), ""
	require.Equal(t, "Hold IdentityUnknown", w.due())
}

// The last look may speak against a repair as often as it likes: a record is written once
// in a minute.
func TestWhatTheLastLookSpeaksAgainstWaits(t *testing.T) {
	w := lemon()
	rem := w.tried(api.ActionReboot, api.RemediationCancelled, policy.ReasonCorrelatedFailure, time.Hour)
	rem.Status.ActedAt, rem.Status.TriedAt = nil, ptr.To(metav1.NewTime(now.Add(-59*time.Second)))
	require.Equal(t, "Hold Cooldown", w.due())
	rem.Status.TriedAt = ptr.To(metav1.NewTime(now.Add(-time.Minute)))
	require.Equal(t, "Reboot", w.due())
}
