package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const day = 24 * time.Hour

// over is a repair of the machine that was asked for, and ended that long ago.
func (w *world) over(name, machine string, phase api.RemediationPhase, ago time.Duration) *api.Remediation {
	rem := w.open(machine, phase)
	at := metav1.NewTime(now.Add(-ago))
	rem.Name, rem.Spec.Deadline, rem.Status.EndedAt = name, at, &at
	rem.Status.ActedAt = &at
	return rem
}

func retired(w *world, keep policy.Retention) []string {
	names := []string{}
	for _, rem := range policy.Retire(w.Snapshot, keep, now) {
		names = append(names, rem.Name)
	}
	return names
}

func TestRetire(t *testing.T) {
	w := newWorld(2, 2, 5)
	keep := policy.Retention{Age: 90 * day, Records: 100}
	require.Empty(t, retired(w, keep))
	w.over("young", "shop-0-00", api.RemediationSucceeded, 90*day)
	require.Empty(t, retired(w, keep))
	w.over("old", "shop-0-01", api.RemediationSucceeded, 91*day)
	w.over("older", "shop-0-02", api.RemediationCancelled, 92*day)
	w.over("acknowledged", "shop-0-03", api.RemediationFailed, 93*day).Annotations = map[string]string{policy.AnnotationAcknowledged: "true"}
	w.over("not acknowledged", "shop-0-04", api.RemediationFailed, 94*day)
	w.over("open", "shop-0-05", api.RemediationVerifying, 95*day)
	w.over("asked", "shop-0-06", api.RemediationSucceeded, 96*day)
	w.machine("shop-0-06").Request = &api.RemediationRequest{ID: "asked"}
	w.over("answered", "shop-0-07", api.RemediationSucceeded, 97*day)
	w.machine("shop-0-07").Response = &api.RemediationResponse{ID: "answered", Phase: api.RepairSucceeded}
	w.over("cell not seen", "shop-1-00", api.RemediationSucceeded, 98*day)
	w.Cells[1].Err = "away"
	require.Equal(t, []string{"acknowledged", "older", "old"}, retired(w, keep), "those that ended first go first")
	w.Cells[1].Err = ""
	require.Equal(t, []string{"cell not seen", "acknowledged", "older", "old"}, retired(w, keep))
}

// Of too many the oldest go, however young, but for what decisions still look back on.
func TestRetireTooMany(t *testing.T) {
	w := newWorld(1, 2, 5)
	for i := range 130 {
		w.over(fmt.Sprintf("r-%03d", i), "shop-0-00", api.RemediationSucceeded, 9*day-time.Duration(i)*time.Minute)
	}
	keep := policy.Retention{Age: 90 * day, Records: 125}
	require.Equal(t, []string{"r-000", "r-001", "r-002", "r-003", "r-004"}, retired(w, keep))
	keep.Records = 100
	require.Len(t, retired(w, keep), 20, "a few in each round")
	for i := range w.Remediations {
		w.Remediations[i].Status.EndedAt = ptr.To(metav1.NewTime(now.Add(-7 * day)))
		w.Remediations[i].Status.ActedAt = w.Remediations[i].Status.EndedAt
	}
	require.Empty(t, retired(w, keep))
	w.Remediations[7].Status.ActedAt, w.Remediations[7].Status.Phase = nil, api.RemediationCancelled
	require.Equal(t, []string{"r-007"}, retired(w, keep), "what never touched anything is needed by nobody")
	w.Remediations[7].Status.TriedAt = w.Remediations[7].Status.EndedAt
	require.Empty(t, retired(w, keep))
}

func TestRetentionRefusals(t *testing.T) {
	require.NoError(t, policy.Retention{Age: 8 * day, Records: 100}.Validate())
	for text, keep := range map[string]policy.Retention{
		"records cannot be kept for 7 days: decisions look back 8": {Age: 7 * day, Records: 1000},
		"records cannot be kept for -1 days":                       {Age: -day, Records: 1000},
		"records cannot be kept for 3651 days":                     {Age: 3651 * day, Records: 1000},
		"cannot be 99: from 100 to 20000":                          {Age: 90 * day, Records: 99},
		"cannot be 100001":                                         {Age: 90 * day, Records: 100_001},
	} {
		require.ErrorContains(t, keep.Validate(), text)
	}
}

// Whatever is taken away, what is decided does not change: with the longest that a
// policy and a budget may look back.
func TestRetiringChangesNoDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		p := &w.policies[0].Spec
		p.CooldownSeconds, p.EscalationWindowSeconds = ptr.To(int32(604800)), ptr.To(int32(604800))
		p.Escalation = threeSteps()[:rapid.IntRange(0, 3).Draw(t, "steps")]
		if rapid.Bool().Draw(t, "limited") {
			p.Mode, p.Limit.PerDay = api.ModeActLimited, ptr.To(int32(rapid.IntRange(1, 3).Draw(t, "per day")))
		}
		w.Budgets = append(w.Budgets, api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: api.FleetDisruptionBudgetSpec{
			Level: api.BudgetFleet, MinIntervalSeconds: ptr.To(int32(86400)), MaxInFlight: ptr.To(int32(5))}})
		for i := range rapid.IntRange(1, 30).Draw(t, "records") {
			anyRecord(t, w, fmt.Sprintf("r-%02d", i))
		}
		before := w.decide()
		gone := map[string]bool{}
		for _, rem := range policy.Retire(w.Snapshot, policy.Retention{Age: time.Second, Records: 0}, now) {
			gone[rem.Name] = true
		}
		var left []api.Remediation
		for _, rem := range w.Remediations {
			if !gone[rem.Name] {
				left = append(left, rem)
			}
		}
		w.Remediations = left
		if diff := cmp.Diff(before, w.decide(), cmpopts.IgnoreUnexported(policy.Decision{}, policy.CheckStart{})); diff != "" {
			t.Fatalf("without %v: %s", gone, diff)
		}
	})
}

// anyRecord adds a record that has ended at some time.
func anyRecord(t *rapid.T, w *world, name string) {
	cell := w.Cells[rapid.IntRange(0, len(w.Cells)-1).Draw(t, "of cell")]
	m := cell.Machines[rapid.IntRange(0, min(3, len(cell.Machines)-1)).Draw(t, "of machine")]
	phase := rapid.SampledFrom([]api.RemediationPhase{api.RemediationSucceeded, api.RemediationFailed, api.RemediationCancelled, api.RemediationEscalated}).Draw(t, "ended")
	rem := w.over(name, m.Name, phase, time.Duration(rapid.IntRange(0, 14*24).Draw(t, "hours"))*time.Hour)
	rem.Status.RepairedAt, rem.Status.Reason = rem.Status.ActedAt, string(policy.ReasonRepairFailed)
	rem.Spec.Action = rapid.SampledFrom([]api.RemediationAction{api.ActionRestartComponent, api.ActionReboot, api.ActionReinstall}).Draw(t, "action")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		rem.Annotations = map[string]string{policy.AnnotationAcknowledged: "true"}
	case 1:
		rem.Status.ActedAt, rem.Status.RepairedAt = nil, nil
	case 2:
		rem.Status.ActedAt, rem.Status.RepairedAt, rem.Status.TriedAt = nil, nil, rem.Status.EndedAt
	case 3:
		rem.Spec.Deadline = metav1.NewTime(now.Add(time.Duration(rapid.IntRange(-24, 24).Draw(t, "deadline")) * time.Hour))
	case 4:
		w.machine(m.Name).Request = &api.RemediationRequest{ID: name}
	case 5:
		w.machine(m.Name).Response = &api.RemediationResponse{ID: name, Phase: api.RepairSucceeded}
	}
}

// What makes up for a failure goes after it: without it the failure would hold again.
func TestAnAnswerGoesAfterWhatItAnswers(t *testing.T) {
	keep := policy.Retention{Age: 90 * day, Records: 100}
	for name, answer := range map[string]func(*api.Remediation){
		"a success": func(rem *api.Remediation) { rem.Status.Phase = api.RemediationSucceeded },
		"a person": func(rem *api.Remediation) {
			rem.Status.Phase, rem.Annotations = api.RemediationEscalated, map[string]string{policy.AnnotationAcknowledged: "true"}
		},
	} {
		w := newWorld(1, 2, 5)
		w.over("failed", "shop-0-00", api.RemediationFailed, 100*day)
		require.Empty(t, retired(w, keep), name)
		answer(w.over("answer", "shop-0-00", api.RemediationFailed, 99*day))
		require.Equal(t, []string{"failed"}, retired(w, keep), name)
		w.Remediations = w.Remediations[1:]
		require.Equal(t, []string{"answer"}, retired(w, keep), name)
	}
}

func TestWhatIsLeftToPeopleStays(t *testing.T) {
	w := newWorld(1, 2, 5)
	w.over("escalated", "shop-0-00", api.RemediationEscalated, 1000*day)
	w.over("mended since", "shop-0-00", api.RemediationSucceeded, 900*day)
	require.Empty(t, retired(w, policy.Retention{Age: 90 * day, Records: 100}))
}

// A clock that is years ahead, or of which nobody says that it is not, takes nothing away.
func TestNothingIsRetiredByAClockThatIsWrong(t *testing.T) {
	keep := policy.Retention{Age: 90 * day, Records: 100}
	w := newWorld(1, 2, 5)
	w.over("old", "shop-0-00", api.RemediationSucceeded, 91*day)
	require.Equal(t, []string{"old"}, retired(w, keep))
	w.Centrals[1].ClockSkew.Duration = -90 * day
	require.Empty(t, retired(w, keep))
	w.Centrals[1].Err = "away"
	require.Equal(t, []string{"old"}, retired(w, keep), "the other one has our time")
	w.Centrals[0].Err = "away"
	require.Empty(t, retired(w, keep))
}
