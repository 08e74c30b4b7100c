package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// failingOf is how many reinstalls and replacements of a pool are looked at, the last ones, and
	// failingAt how many of them may not fail.
	failingOf, failingAt = 4, 3
	// failingWindow is for how long one counts.
	failingWindow = 24 * time.Hour
)

// cellPool is a pool in all clusters of a cell, whose machines are installed alike.
type cellPool struct{ cell, pool string }

// failing asks whether machines of the pool come back from being reinstalled, or others in
// their place. Where most
// do not, the cause is an image, a quota or the repair Job, and one machine after another
// would be lost to it. A reboot that does not help is no such sign: it is what broken
// hardware does.
func (r *run) failing(s subject, p place) (Reason, string) {
	if rank(s.step.action) < rank(api.ActionReinstall) {
		return "", ""
	}
	last := r.reinstalls()[cellPool{p.cell.Name, p.machine.Pool}]
	n := 0
	for _, rem := range last {
		if rem.Status.Phase == api.RemediationFailed {
			n++
		}
	}
	if n < failingAt {
		return "", ""
	}
	return ReasonRepairsFailing, fmt.Sprintf(
		"%d of the last %d machines of pool %s in cell %s that were reinstalled or replaced failed, last %s: suspect the image or the repair Job; when it is mended, acknowledge them: kubectl annotate remediation %s %s=true",
		n, len(last), p.machine.Pool, p.cell.Name, last[0].Name, last[0].Name, AnnotationAcknowledged)
}

// reinstalls are, for each pool of a cell, the last few that ended and that nobody has
// looked at, the latest first.
func (r *run) reinstalls() map[cellPool][]*api.Remediation {
	if r.installed != nil {
		return r.installed
	}
	r.installed = map[cellPool][]*api.Remediation{}
	for i := range r.ix.snapshot.Remediations {
		rem := &r.ix.snapshot.Remediations[i]
		ended := rem.Status.Phase == api.RemediationFailed || rem.Status.Phase == api.RemediationSucceeded
		if ended && rank(rem.Spec.Action) >= rank(api.ActionReinstall) && Reason(rem.Status.Reason) != ReasonDrainBlocked && !acknowledged(rem) && r.now.Sub(endedAt(rem, r.now)) < failingWindow {
			in := cellPool{rem.Spec.Target.Cell, rem.Spec.Place.Pool}
			r.installed[in] = append(r.installed[in], rem)
		}
	}
	for in, all := range r.installed {
		slices.SortFunc(all, func(a, b *api.Remediation) int {
			return cmp.Or(endedAt(b, r.now).Compare(endedAt(a, r.now)), cmp.Compare(a.Name, b.Name))
		})
		r.installed[in] = all[:min(len(all), failingOf)]
	}
	return r.installed
}
