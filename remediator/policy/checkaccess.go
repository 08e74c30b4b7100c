package policy

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// accessAge is how long it is believed that a check could be made. Just before
	// a repair is asked for it is tried once more in any case.
	accessAge = time.Minute
	// checkRoom lies at least between the end of a check and its repair's deadline,
	// for the node to come back and for the check to be asked for.
	checkRoom = time.Minute
)

// CheckProbe asks whether the pod of a check could be made on a node.
type CheckProbe struct {
	// Target has cell, namespace, cluster and node only.
	Target api.RemediationTarget
	Check  api.NodeCheckPod
}

// Timeout of the pod, the default resolved.
func (p CheckProbe) Timeout() time.Duration { return checkTimeout(&p.Check) }

// CheckAccess is the answer: whether the credential for node checks was seen to
// work in a cluster, for this very check.
type CheckAccess struct {
	Cell    string           `json:"cell"`
	Cluster string           `json:"cluster"`
	Check   api.NodeCheckPod `json:"check"`
	// Err says why the pod could not be made; empty means that it could.
	Err    string    `json:"err,omitempty"`
	SeenAt time.Time `json:"seenAt"`
}

// Answers says whether an answer is one to the probe.
func (a *CheckAccess) Answers(p CheckProbe) bool {
	return a.Cell == p.Target.Cell && a.Cluster == p.Target.Cluster && sameCheck(&a.Check, &p.Check)
}

func sameCheck(a, b *api.NodeCheckPod) bool {
	return checkTimeout(a) == checkTimeout(b) && a.Image == b.Image &&
		equality.Semantic.DeepEqual(a.Command, b.Command) && equality.Semantic.DeepEqual(a.Args, b.Args)
}

// checkTimeout is a check's own, or the default.
func checkTimeout(c *api.NodeCheckPod) time.Duration {
	return seconds(c.TimeoutSeconds, defaultCheckTimeout)
}

// demand is the check that a repair must be verified by. Nil asks for none.
type demand struct {
	check *api.NodeCheckPod
	// policy that asks for it.
	policy string
	// conflict says that two policies ask for different checks.
	conflict string
}

// demand is what all policies that select a machine ask for together: the policy
// that speaks for the machine does not waive what another one demands. Policies
// that only observe count, those that are paused or being deleted do not.
func (r *run) demand(p place) demand {
	var d demand
	for _, candidate := range r.policies {
		check := candidate.Spec.Verification.NodeCheck
		switch {
		case check == nil || paused(candidate) || !selects(candidate, p.cell.Name, p.machine.Pool):
		case d.check == nil:
			d.check, d.policy = check, candidate.Name
		case d.conflict == "" && !sameCheck(d.check, check):
			d.conflict = fmt.Sprintf("policies %s and %s both select the machine and ask for different node checks; make them the same, or let one of them not select it",
				d.policy, candidate.Name)
		}
	}
	return d
}

// demanded is the check of a record if it has one, whatever became of the policies.
func demanded(rem *api.Remediation, d demand) demand {
	if check := rem.Spec.Verification.NodeCheck; check != nil {
		return demand{check: check, policy: rem.Spec.PolicyName}
	}
	return d
}

// CheckProbes lists what to try before deciding: for each cluster with a suspect,
// each check that a repair in it would need, on the first suspect's node.
func CheckProbes(policies []api.RemediationPolicy, s Snapshot) []CheckProbe {
	if !anyCheck(policies, s.Remediations) {
		return nil
	}
	r := &run{ix: newIndex(&s, time.Time{}), policies: sorted(policies)}
	known := map[clusterRef][]*api.NodeCheckPod{}
	var probes []CheckProbe
	for _, p := range r.suspects() {
		s, ref := r.subject(p), clusterRef{p.cell.Name, p.machine.Cluster}
		if s.needs.check == nil || s.needs.conflict != "" || !s.checkable || knows(known[ref], s.needs.check) {
			continue
		}
		known[ref] = append(known[ref], s.needs.check)
		probes = append(probes, CheckProbe{Check: *s.needs.check.DeepCopy(), Target: api.RemediationTarget{
			Cell: ref.cell, Namespace: p.machine.Namespace, Cluster: ref.cluster, Node: p.machine.Node}})
	}
	return probes
}

func knows(checks []*api.NodeCheckPod, c *api.NodeCheckPod) bool {
	for _, known := range checks {
		if sameCheck(known, c) {
			return true
		}
	}
	return false
}

// anyCheck spares the index of a large fleet that asks for no check.
func anyCheck(policies []api.RemediationPolicy, remediations []api.Remediation) bool {
	for i := range policies {
		if policies[i].Spec.Verification.NodeCheck != nil {
			return true
		}
	}
	for i := range remediations {
		if rem := &remediations[i]; rem.Spec.Verification.NodeCheck != nil && !phase(rem).Final() {
			return true
		}
	}
	return false
}

// CheckProbe is what to try once more before a decision is carried out; false
// means that its repair needs no check.
func (d Decision) CheckProbe() (CheckProbe, bool) {
	check := d.Spec.Verification.NodeCheck
	if check == nil {
		return CheckProbe{}, false
	}
	return CheckProbe{Target: d.Spec.Target, Check: *check}, true
}

// access is what is known of a check in a cluster; nil means nothing.
func (ix *index) access(ref NodeRef, check *api.NodeCheckPod) *CheckAccess {
	if check == nil {
		return nil
	}
	probe := CheckProbe{Target: api.RemediationTarget{Cell: ref.Cell, Cluster: ref.Cluster}, Check: *check}
	for i := range ix.snapshot.CheckAccess {
		if a := &ix.snapshot.CheckAccess[i]; a.Answers(probe) {
			return a
		}
	}
	return nil
}

// provable says why a repair could not be verified in the way that is asked for.
func (s subject) provable(now time.Time) (Reason, string) {
	if s.needs.conflict != "" {
		return ReasonNodeCheckConflict, s.needs.conflict
	}
	if s.needs.check == nil {
		return "", ""
	}
	why := tooLong(s.needs.check, s.step.timeout)
	switch {
	case why != "":
	case !s.checkable:
		why = fmt.Sprintf("Cluster %s names no spec.nodeCheckKubeconfigSecret", s.ref.Cluster)
	case s.access == nil:
		why = "whether a check can be made in cluster " + s.ref.Cluster + " was not tried"
	case s.access.Err != "":
		why = s.access.Err
	case !fresh(s.access.SeenAt, accessAge, now):
		why = fmt.Sprintf("that a check can be made in cluster %s was last seen %s ago", s.ref.Cluster, now.Sub(s.access.SeenAt).Round(time.Second))
	default:
		return "", ""
	}
	return ReasonNodeCheckUnavailable, fmt.Sprintf("policy %s asks for a node check and the repair could not be verified: %s", s.needs.policy, why)
}

// tooLong refuses a check whose repair would be over before it.
func tooLong(check *api.NodeCheckPod, timeout time.Duration) string {
	if checkTimeout(check)+checkRoom <= timeout {
		return ""
	}
	return fmt.Sprintf("the check may take %s and the repair %s; raise timeoutSeconds or lower verification.nodeCheck.timeoutSeconds, %s must lie between",
		checkTimeout(check), timeout, checkRoom)
}
