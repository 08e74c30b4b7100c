package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Case C40: a check that most nodes fail is suspected itself.
func TestC40_ACheckThatMostNodesFailIsSuspected(t *testing.T) {
	pass, fail, timeout := api.NodeCheckPass, api.NodeCheckFail, api.NodeCheckTimeout
	for name, c := range map[string]struct {
		past   []api.NodeCheckResult // the latest last, each of another machine
		change func(rem *api.Remediation, i int)
		want   string
	}{
		"none":           {nil, nil, "Act Unhealthy"},
		"two":            {[]api.NodeCheckResult{fail, fail}, nil, "Act Unhealthy"},
		"three":          {[]api.NodeCheckResult{fail, timeout, fail}, nil, "Hold NodeCheckSuspect"},
		"three of four":  {[]api.NodeCheckResult{fail, fail, pass, fail}, nil, "Hold NodeCheckSuspect"},
		"half of four":   {[]api.NodeCheckResult{fail, fail, fail, pass, pass}, nil, "Act Unhealthy"},
		"what never ran": {[]api.NodeCheckResult{fail, fail, api.NodeCheckNotRun}, nil, "Act Unhealthy"},
		"one machine three times": {[]api.NodeCheckResult{fail, fail, fail}, func(rem *api.Remediation, _ int) {
			rem.Spec.Target.HardwareID = "hw-lemon"
		}, "Act Unhealthy"},
		"another check": {[]api.NodeCheckResult{fail, fail, fail}, func(rem *api.Remediation, _ int) {
			rem.Spec.Verification.NodeCheck.Image = "other:1"
		}, "Act Unhealthy"},
		"somebody has looked": {[]api.NodeCheckResult{fail, fail, fail}, func(rem *api.Remediation, i int) {
			if i == 2 {
				look(rem)
			}
		}, "Act Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			w, check := checked()
			w.eager()
			for i, result := range c.past {
				w.ended(fmt.Sprintf("shop-0-1%d", i), api.RemediationFailed, time.Duration(20-i)*time.Hour)
				rem := &w.Remediations[len(w.Remediations)-1]
				rem.Spec.Target.HardwareID = fmt.Sprintf("hw-%d", i)
				rem.Spec.Verification.NodeCheck = check.DeepCopy()
				rem.Status.NodeCheck = &api.NodeCheckRecord{Attempt: 1, Result: result}
				if c.change != nil {
					c.change(rem, i)
				}
			}
			require.Equal(t, []string{sick + " " + c.want}, verdicts(w.decide()))
		})
	}
}
