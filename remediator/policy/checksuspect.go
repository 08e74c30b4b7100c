package policy

import (
	"cmp"
	"fmt"
	"slices"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// suspectCheck asks whether the node check is to be believed. One that nodes fail which
// have just been repaired, on one machine after the other, says more of itself than of
// them: an image that is broken, a network that it cannot reach. Each would be taken for
// a repair that did not help, and be followed by a harsher one.
func (r *run) suspectCheck(s subject) (Reason, string) {
	if s.needs.check == nil {
		return "", ""
	}
	last := r.lastChecked(s.needs.check)
	bad := pick(last, func(rem *api.Remediation) bool { return rem.Status.NodeCheck.Result != api.NodeCheckPass })
	if len(bad) < failingAt {
		return "", ""
	}
	return ReasonNodeCheckSuspect, fmt.Sprintf(
		"%d of the last %d machines did not pass the node check with image %s, last in %s: suspect the check; when it is mended, acknowledge them: kubectl annotate remediation %s %s=true",
		len(bad), len(last), clip(s.needs.check.Image, 128), bad[0].Name, bad[0].Name, AnnotationAcknowledged)
}

// lastChecked are the last few repairs that the check has judged within a day, the latest
// first and of each machine the latest, without those that somebody has looked at.
func (r *run) lastChecked(check *api.NodeCheckPod) []*api.Remediation {
	var all []*api.Remediation
	for i := range r.ix.snapshot.Remediations {
		rem := &r.ix.snapshot.Remediations[i]
		asked, judged := rem.Spec.Verification.NodeCheck, rem.Status.NodeCheck
		if asked == nil || judged == nil || !sameCheck(asked, check) || acknowledged(rem) || !phase(rem).Final() || r.now.Sub(endedAt(rem, r.now)) >= failingWindow {
			continue
		}
		if slices.Contains([]api.NodeCheckResult{api.NodeCheckPass, api.NodeCheckFail, api.NodeCheckTimeout}, judged.Result) {
			all = append(all, rem)
		}
	}
	slices.SortFunc(all, func(a, b *api.Remediation) int {
		return cmp.Or(endedAt(b, r.now).Compare(endedAt(a, r.now)), cmp.Compare(a.Name, b.Name))
	})
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(rem *api.Remediation) bool {
		key := identity(rem.Spec.Target.HardwareID, rem.Spec.Target.MachineUID)
		again := seen[key]
		seen[key] = true
		return again
	})
	return all[:min(len(all), failingOf)]
}
