package policy

import (
	"cmp"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// checksKept is how long after its deadline a repair that has ended still has its
// pods looked for. They have ended long before; what is left of them by then is
// in a cluster that cannot be reached.
const checksKept = time.Hour

// CheckStart is a pod to make. Its record is written down.
type CheckStart struct {
	Remediation string
	Policy      string
	Target      api.RemediationTarget
	Check       api.NodeCheckPod
	// Timeout of the pod, the default resolved.
	Timeout time.Duration
	Record  api.NodeCheckRecord
	// update is what is written down of the repair in this round.
	update Update
	// domains are those of the machine.
	domains [5]domain
}

// Frozen says which of the budgets, as they are now, stops the check, or nothing.
func (s CheckStart) Frozen(budgets []api.FleetDisruptionBudget, now time.Time) string {
	r := &run{budgets: sorted(budgets), bounds: map[domain]limits{}, now: now}
	_, says := r.frozenIn(s.domains)
	return says
}

// CheckRemoval is a pod to delete: its result is written down, or of no use.
type CheckRemoval struct {
	Remediation string
	Target      api.RemediationTarget
	Pod         string
	UID         string
}

// CheckRead names a repair whose pods the decision will ask for.
type CheckRead struct {
	Remediation string
	Target      api.RemediationTarget
	// Ended means that they are only looked for to be deleted.
	Ended bool
}

// CheckReads lists the repairs for which a pod may have been made.
func CheckReads(remediations []api.Remediation, now time.Time) []CheckRead {
	var reads []CheckRead
	for i := range remediations {
		rem := &remediations[i]
		ended := phase(rem).Final()
		if rem.Status.NodeCheck == nil || ended && now.Sub(rem.Spec.Deadline.Time) > checksKept {
			continue
		}
		reads = append(reads, CheckRead{rem.Name, rem.Spec.Target, ended})
	}
	slices.SortFunc(reads, func(a, b CheckRead) int { return cmp.Compare(a.Remediation, b.Remediation) })
	return reads
}

// NotMade is what to write down when the pod could not be made.
func (s CheckStart) NotMade(why string) Update {
	u := s.update
	u.NodeCheck = s.Record.DeepCopy()
	u.NodeCheck.Reason, u.NodeCheck.Message = wordNotMade, clip(why, 512)
	u.Reworded = s.Record.Message != ""
	return u
}

func (r *run) startCheck(rem *api.Remediation, u Update) {
	u.Name, u.Target, u.Message = rem.Name, rem.Spec.Target, clip(u.Message, 1024)
	r.plan.Checks = append(r.plan.Checks, CheckStart{
		Remediation: rem.Name, Policy: rem.Spec.PolicyName, Target: rem.Spec.Target,
		Check: *rem.Spec.Verification.NodeCheck, Timeout: timeoutOf(rem), Record: *u.NodeCheck, update: u,
		domains: r.ix.byUID[rem.Spec.Target.MachineUID].domains(),
	})
}

// sortChecks makes the order of the plan that of names.
func (r *run) sortChecks() {
	slices.SortFunc(r.plan.Checks, func(a, b CheckStart) int { return cmp.Compare(a.Remediation, b.Remediation) })
	slices.SortFunc(r.plan.Removals, func(a, b CheckRemoval) int {
		return cmp.Or(cmp.Compare(a.Remediation, b.Remediation), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID))
	})
}

// removals lists the pods of repairs that have ended, of earlier attempts, and
// those whose result stands in the record as it was read: never one whose result
// is only being written down in this round.
func (ix *index) removals() []CheckRemoval {
	var found []CheckRemoval
	for i := range ix.snapshot.Remediations {
		rem := &ix.snapshot.Remediations[i]
		pods := ix.checks[rem.Name]
		if pods == nil || pods.Err != "" {
			continue
		}
		for _, pod := range pods.Pods {
			if !pod.Deleting && !wanted(rem, pod) {
				found = append(found, CheckRemoval{rem.Name, rem.Spec.Target, pod.Name, pod.UID})
			}
		}
	}
	return found
}

// wanted says whether something may still be learned from a pod.
func wanted(rem *api.Remediation, pod CheckPod) bool {
	rec := rem.Status.NodeCheck
	return !phase(rem).Final() && rec != nil && !rec.Result.Ended() && rec.Pod == pod.Name && (rec.PodUID == "" || rec.PodUID == pod.UID)
}
