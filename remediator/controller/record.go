package controller

import (
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

// record offers what was decided on to the recorder, before anything is done: a plan of
// which something failed could not be made again from it. What is offered is only read
// from then on. Repairs that are written down next name the file; nothing waits for it.
func (c *Controller) record(policies []api.RemediationPolicy, s policy.Snapshot, plan policy.Plan, now time.Time) {
	if c.recording == nil {
		return
	}
	file := c.recording.Offer(snapshot.Snapshot{Now: now, Policies: policies, Snapshot: s}, snapshot.VerdictOf(plan, now))
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Name != "" && !d.Recorded {
			d.Spec.Snapshot = file
		}
	}
}
