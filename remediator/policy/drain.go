package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Uncordon names a node from which our own cordon is to be taken.
type Uncordon struct {
	Remediation string
	Target      api.RemediationTarget
}

// DrainFound is what was found of a node's pods when they were last evicted.
type DrainFound struct {
	// Left are the pods that must go and were not asked to yet, Leaving those that were
	// and are still there.
	Left, Leaving int
	Blocked       []api.BlockedPod
}

// ToDrain says whether the node of a repair that is written down must be drained first.
func ToDrain(rem *api.Remediation) bool {
	return rem.Spec.Drain != nil && (rem.Status.Drain == nil || rem.Status.Drain.EndedAt == nil)
}

// DrainBegins is what is written down before the node is touched.
func DrainBegins(rem *api.Remediation, now time.Time) Update {
	return drainUpdate(rem, &api.DrainRecord{StartedAt: metav1.NewTime(now)}, "the node is being cordoned")
}

// DrainGoesOn is what is written down after the node was cordoned and its pods were evicted.
// Pods that a kubelet is to end are waited for while it can do so; one that is silent ends
// them by the repair.
func DrainGoesOn(rem *api.Remediation, found DrainFound, ready string, now time.Time) Update {
	rec := rem.Status.Drain.DeepCopy()
	if rec.CordonedAt == nil {
		rec.CordonedAt = &metav1.Time{Time: now}
	}
	rec.Left, rec.Leaving, rec.Blocked = int32(found.Left), int32(found.Leaving), found.Blocked
	late := !now.Before(drainDeadline(rem))
	if found.Left == 0 && (found.Leaving == 0 || ready == "Unknown" || late) {
		rec.EndedAt = &metav1.Time{Time: now}
		return drainUpdate(rem, rec, "the node is drained")
	}
	return drainUpdate(rem, rec, fmt.Sprintf("%d pods must go, %d more are going%s", rec.Left, rec.Leaving, blockedBy(rec.Blocked)))
}

// DrainFenced ends a drain of a machine that is known to be off.
func DrainFenced(rem *api.Remediation, now time.Time) Update {
	rec := rem.Status.Drain.DeepCopy()
	rec.EndedAt = &metav1.Time{Time: now}
	return drainUpdate(rem, rec, "the machine is off, so that its pods do not run: the node is declared out of service")
}

func drainUpdate(rem *api.Remediation, rec *api.DrainRecord, message string) Update {
	return Update{Name: rem.Name, Target: rem.Spec.Target, Phase: api.RemediationDraining, Reason: ReasonDraining, Message: clip(message, 1024), Drain: rec}
}

func drainDeadline(rem *api.Remediation) time.Time {
	return rem.Status.Drain.StartedAt.Add(seconds(rem.Spec.Drain.TimeoutSeconds, 0))
}

func blockedBy(pods []api.BlockedPod) string {
	var said []string
	for _, b := range pods[:min(len(pods), 3)] {
		said = append(said, fmt.Sprintf("%s/%s: %s", b.Namespace, b.Pod, b.Reason))
	}
	if len(said) == 0 {
		return ""
	}
	return "; blocked are " + strings.Join(said, "; ")
}

// Fences says whether a repair's drain is to be ended by the proof that the machine is off.
func (d Decision) Fences() bool { return d.fences }

// off says whether the provider saw, since the drain began and lately, that the very
// hardware has no power. That it was off for as long as somebody believes is no proof.
func (m *Machine) off(since time.Time, maxAge time.Duration, now time.Time) bool {
	p := m.PowerSeen
	return p != nil && p.State == api.PowerOff && p.HardwareID == m.HardwareID && p.ObservedAt.After(since) && fresh(p.ObservedAt.Time, maxAge, now)
}

// unbegun says whether a repair is not asked for yet, as far as is written down.
func unbegun(rem *api.Remediation) bool {
	return phase(rem) == api.RemediationPending || phase(rem) == api.RemediationDraining
}

// drainable asks whether the node can be drained, where the step says so.
func (s subject) drains() (Reason, string) {
	if s.step.drain == nil || s.drainable {
		return "", ""
	}
	return ReasonDrainUnavailable, fmt.Sprintf("%s drains the node first, and Cluster %s in cell %s names no spec.drainKubeconfigSecret", s.step.action, s.ref.Cluster, s.ref.Cell)
}

// uncordoned says whether somebody has taken our cordon away during the drain: a person
// wants the node to be used.
func uncordoned(rem *api.Remediation, n *LiveNode) string {
	if !cordonedBy(rem) || Reason(rem.Status.Reason) == ReasonUncordoning || n == nil || n.Err != "" || n.Absent || n.CordonedBy != "" {
		return ""
	}
	return fmt.Sprintf("somebody took the cordon of node %s away while it was drained", n.Name)
}

// cordonedBy says whether it is written down that the repair, which drains, has cordoned
// the node.
func cordonedBy(rem *api.Remediation) bool {
	return phase(rem) == api.RemediationDraining && rem.Status.Drain != nil && rem.Status.Drain.CordonedAt != nil
}

// settleDrain says what becomes of a repair whose node is being drained, given what speaks
// against it. What people have stopped waits; what is over leaves the node as it was.
func (r *run) settleDrain(rem *api.Remediation, p place, d *Decision, reason Reason, message string) {
	stopped := d != nil && (d.Reason == ReasonPaused || d.Reason == ReasonFrozen)
	switch {
	case reason == "":
		r.drainOn(rem, p, d)
	case reason.unknown() || stopped && reason == d.Reason:
		r.update(rem, r.wait(rem, reason, message))
	default:
		d.defers(rem.Name)
		r.update(rem, r.endDrain(rem, stopped, reason, message))
	}
}

// endDrain ends a repair after its node was uncordoned. While people have stopped repairs
// there they may be working on it: then it stays as it is, for strays to find.
func (r *run) endDrain(rem *api.Remediation, stopped bool, reason Reason, message string) Update {
	n := r.liveOf(rem).node
	if by := uncordoned(rem, n); by != "" {
		u := ended(rem, ReasonUncordoned, by)
		u.Denial = &api.PersonRecord{By: "whoever uncordoned the node", At: metav1.NewTime(r.now)}
		return u
	}
	switch {
	case n == nil || n.CordonedBy == "":
		return ended(rem, reason, message)
	case stopped || r.late(rem.Spec.Deadline.Time):
		return ended(rem, reason, message+"; the node is still cordoned")
	}
	r.uncordon(rem)
	return Update{Phase: api.RemediationDraining, Reason: ReasonUncordoning, Message: "the node is being uncordoned: " + because(reason, message)}
}

// mostStrayed bounds how many nodes are read for it.
const mostStrayed = 50

// strayed are the last repairs that ended without success and may have left their node
// cordoned, of each machine one.
func (ix *index) strayed() []*api.Remediation {
	last := map[string]*api.Remediation{}
	for i := range ix.snapshot.Remediations {
		rem := &ix.snapshot.Remediations[i]
		uid := rem.Spec.Target.MachineUID
		if phase(rem).Final() && rem.Status.Drain != nil && (last[uid] == nil || endedAt(last[uid], ix.now).Before(endedAt(rem, ix.now))) {
			last[uid] = rem
		}
	}
	maps.DeleteFunc(last, func(_ string, rem *api.Remediation) bool { return phase(rem) == api.RemediationSucceeded })
	all := slices.SortedFunc(maps.Values(last), func(a, b *api.Remediation) int {
		return cmp.Or(endedAt(b, ix.now).Compare(endedAt(a, ix.now)), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), mostStrayed)]
}

// strays uncordons nodes that are well again, and that a repair which has ended left
// cordoned: one that failed, or ended while people had stopped repairs. What waits for
// people stays cordoned until they have acknowledged it.
func (r *run) strays() {
	for _, rem := range r.ix.strayed() {
		t := rem.Spec.Target
		p, there := r.ix.byUID[t.MachineUID]
		live := r.liveOf(rem)
		if !there || live.node == nil || live.node.CordonedBy != rem.Name || r.ix.open[t.MachineUID] != nil || !r.wellAndFree(p, live) {
			continue
		}
		r.uncordon(rem)
	}
}

// wellAndFree says whether every source agrees that a machine is well, and nobody has
// stopped repairs of it or has to look at it.
func (r *run) wellAndFree(p place, live liveFact) bool {
	s := r.subjectOf(p)
	if s == nil || s.settings.observe || s.settings.mode == api.ModeRecommend || r.ix.people[identity(p.machine.HardwareID, p.machine.UID)] != nil {
		return false
	}
	if reason, _ := s.objects(); reason != "" {
		return false
	}
	if reason, _ := r.frozen(p); reason != "" {
		return false
	}
	f, _, _ := agree(s.facts, s.ref, s.settings.evidenceAge, r.now)
	return f == findingHealthy && live.well(s.settings.evidenceAge, r.now) == ""
}

// subjectOf is nil for a machine that no policy speaks for.
func (r *run) subjectOf(p place) *subject {
	if r.policyFor(p) == nil {
		return nil
	}
	s := r.subject(p)
	return &s
}

// drainOn lets a drain go on, unless its time is over.
func (r *run) drainOn(rem *api.Remediation, p place, d *Decision) {
	d.Spec, d.Recorded = rem.Spec, true
	if !ToDrain(rem) || rem.Status.Drain == nil || r.now.Before(drainDeadline(rem)) || rem.Status.Drain.Left == 0 {
		return
	}
	// Whose kubelet gives signs of life is not off, whatever the provider says.
	lease := d.subject.live.lease
	if lease != nil && !lease.Beats(r.now) && p.machine.off(rem.Status.Drain.StartedAt.Time, d.subject.settings.evidenceAge, r.now) {
		d.fences = true
		return
	}
	d.defers(rem.Name)
	r.update(rem, Update{Phase: api.RemediationFailed, Reason: ReasonDrainBlocked, Message: fmt.Sprintf(
		"after %s %d pods are left on the node, and it is not known to be off%s", seconds(rem.Spec.Drain.TimeoutSeconds, 0), rem.Status.Drain.Left, blockedBy(rem.Status.Drain.Blocked))})
}

func (r *run) liveOf(rem *api.Remediation) liveFact {
	t := rem.Spec.Target
	return r.ix.liveFact(NodeRef{t.Cell, t.Cluster, t.Node})
}

// uncordon has our own cordon be taken away.
func (r *run) uncordon(rem *api.Remediation) {
	if !slices.ContainsFunc(r.plan.Uncordons, func(u Uncordon) bool { return u.Remediation == rem.Name }) {
		r.plan.Uncordons = append(r.plan.Uncordons, Uncordon{rem.Name, rem.Spec.Target})
	}
}

// Ready is the condition of the decision's live Node.
func (d Decision) Ready() string {
	if d.subject.live.node == nil {
		return ""
	}
	return d.subject.live.node.Ready
}
