package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Case C22, its second half: where reinstalled machines do not come back, no other is
// lost to the same cause.
func TestReinstallsThatFail(t *testing.T) {
	failed, ok := api.RemediationFailed, api.RemediationSucceeded
	for name, c := range map[string]struct {
		past   []api.RemediationPhase // the latest last
		change func(*api.Remediation)
		want   string
	}{
		"none":                        {nil, nil, "Act Unhealthy"},
		"two":                         {[]api.RemediationPhase{failed, failed}, nil, "Act Unhealthy"},
		"three":                       {[]api.RemediationPhase{failed, failed, failed}, nil, "Hold RepairsFailing"},
		"three of four":               {[]api.RemediationPhase{failed, ok, failed, failed}, nil, "Hold RepairsFailing"},
		"half of four":                {[]api.RemediationPhase{failed, failed, failed, ok, ok}, nil, "Act Unhealthy"},
		"of another pool":             {[]api.RemediationPhase{failed, failed, failed}, func(r *api.Remediation) { r.Spec.Place.Pool = "gpu" }, "Act Unhealthy"},
		"of another cell":             {[]api.RemediationPhase{failed, failed, failed}, func(r *api.Remediation) { r.Spec.Target.Cell = "cell-9" }, "Act Unhealthy"},
		"reboots":                     {[]api.RemediationPhase{failed, failed, failed}, func(r *api.Remediation) { r.Spec.Action = api.ActionReboot }, "Act Unhealthy"},
		"that somebody has looked at": {[]api.RemediationPhase{failed, failed, failed}, look, "Act Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lemon(threeSteps()...)
			w.eager()
			w.failedStep(api.ActionReboot, 2*time.Hour)
			for i, phase := range c.past {
				w.ended(fmt.Sprintf("shop-0-1%d", i), phase, time.Duration(20-i)*time.Hour)
				rem := &w.Remediations[len(w.Remediations)-1]
				rem.Spec.Action, rem.Spec.Place.Pool = api.ActionReinstall, w.machine(sick).Pool
				if c.change != nil {
					c.change(rem)
				}
			}
			plan := w.decide()
			require.Equal(t, []string{sick + " " + c.want}, verdicts(plan))
		})
	}
}

func TestReinstallsThatFailedLongAgo(t *testing.T) {
	w := lemon(threeSteps()...)
	w.eager()
	w.failedStep(api.ActionReboot, 2*time.Hour)
	for i := range 3 {
		w.ended(fmt.Sprintf("shop-0-1%d", i), api.RemediationFailed, time.Duration(23+i)*time.Hour)
		rem := &w.Remediations[len(w.Remediations)-1]
		rem.Spec.Action, rem.Spec.Place.Pool = api.ActionReinstall, w.machine(sick).Pool
	}
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(w.decide()), "two of them were a day ago")
	// A reboot is done all the same: it is not what fails.
	w.Remediations = w.Remediations[1:]
	w.policies[0].Spec.Escalation = threeSteps()[1:2]
	require.Equal(t, "Reboot", w.due())
}
