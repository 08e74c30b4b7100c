package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// run is one decision in the making.
type run struct {
	ix       *index
	policies []*api.RemediationPolicy
	now      time.Time
	// busy names, for each cluster, what occupies its one place for repairs.
	busy map[clusterRef]string
	path map[clusterRef]tally
	plan Plan
}

// Decide says what to do now. Of several policies that select a machine the
// first by name speaks for it, whatever its mode; machines are taken in the order
// of cell, cluster, namespace and name. At most one repair is open in a cluster.
func Decide(policies []api.RemediationPolicy, s Snapshot, now time.Time) Plan {
	r := &run{ix: newIndex(&s, now), policies: sorted(policies), now: now}
	r.path = r.ix.controlPath()
	r.busy = r.ix.busy()
	r.plan.Unmatched = len(r.ix.unmatched())
	r.plan.Withdrawals = r.ix.withdrawals()
	pending := r.progress()
	r.decideAll(pending)
	r.settle(pending)
	r.report()
	return r.plan
}

// Suspects lists, sorted, the nodes whose live state the decision will ask for:
// those selected by a policy and listed by any central, and those under repair.
func Suspects(policies []api.RemediationPolicy, s Snapshot) []NodeRef {
	r := &run{ix: newIndex(&s, time.Time{}), policies: sorted(policies)}
	found := map[NodeRef]bool{}
	for _, p := range r.suspects() {
		found[p.ref()] = true
	}
	for _, rem := range r.ix.open {
		t := rem.Spec.Target
		found[NodeRef{t.Cell, t.Cluster, t.Node}] = true
	}
	refs := make([]NodeRef, 0, len(found))
	for ref := range found {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, compareRefs)
	return refs
}

func compareRefs(a, b NodeRef) int {
	return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node))
}

func sorted(policies []api.RemediationPolicy) []*api.RemediationPolicy {
	out := make([]*api.RemediationPolicy, len(policies))
	for i := range policies {
		out[i] = &policies[i]
	}
	slices.SortFunc(out, func(a, b *api.RemediationPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (p place) ref() NodeRef { return NodeRef{p.cell.Name, p.machine.Cluster, p.machine.Node} }

// suspects are the machines that some central lists and some policy selects, and
// those with a repair written down and not begun, in the order of decision.
func (r *run) suspects() []place {
	found := map[*Machine]place{}
	for i := range r.ix.centrals {
		for ref := range r.ix.centrals[i].unhealthy {
			for _, p := range r.ix.byNode[ref] {
				found[p.machine] = p
			}
		}
	}
	for uid, rem := range r.ix.open {
		if p, ok := r.ix.byUID[uid]; ok && phase(rem) == api.RemediationPending {
			found[p.machine] = p
		}
	}
	places := make([]place, 0, len(found))
	for _, p := range found {
		if r.policyFor(p) != nil {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, comparePlaces)
	return places
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.cell.Name, b.cell.Name), cmp.Compare(a.machine.Cluster, b.machine.Cluster),
		cmp.Compare(a.machine.Namespace, b.machine.Namespace), cmp.Compare(a.machine.Name, b.machine.Name),
		cmp.Compare(a.machine.UID, b.machine.UID))
}

func (r *run) policyFor(p place) *api.RemediationPolicy {
	for _, policy := range r.policies {
		if selects(policy, p.cell.Name, p.machine.Pool) {
			return policy
		}
	}
	return nil
}

// decideAll gives the place of a cluster first to a repair that is written down
// already, then by order. Machines whose repair has begun are not decided.
func (r *run) decideAll(pending []*api.Remediation) {
	waiting := map[string]bool{}
	for _, rem := range pending {
		waiting[rem.Name] = true
	}
	suspects := r.suspects()
	slices.SortStableFunc(suspects, func(a, b place) int { return cmp.Compare(r.rank(a), r.rank(b)) })
	for _, p := range suspects {
		if rem := r.ix.open[p.machine.UID]; rem != nil && !waiting[rem.Name] {
			continue
		}
		if d, ok := r.decide(p); ok {
			r.plan.Decisions = append(r.plan.Decisions, d)
		}
	}
	slices.SortFunc(r.plan.Decisions, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Machine.Cluster, b.Machine.Cluster),
			cmp.Compare(a.Machine.Namespace, b.Machine.Namespace), cmp.Compare(a.Machine.Name, b.Machine.Name),
			cmp.Compare(a.Machine.UID, b.Machine.UID))
	})
}

func (r *run) rank(p place) int {
	if r.ix.open[p.machine.UID] != nil {
		return 0
	}
	return 1
}

// decide is false for a machine that turns out to be well.
func (r *run) decide(p place) (Decision, bool) {
	s := r.subject(p)
	d := Decision{Policy: s.settings.name, Cell: p.cell.Name, Machine: *p.machine, subject: s}
	d.Reason, d.Message = r.judge(s, p)
	d.Message = clip(d.Message, 512)
	if s.pending == "" && (d.Reason == ReasonRecovered || d.Reason == ReasonEvidenceStale && r.lapsedAndWell(s)) {
		return d, false
	}
	switch d.Reason {
	case "":
		d.Verdict, d.Reason = Act, ReasonUnhealthy
		d.Message = clip(s.wrong(), 512)
		d.Name, d.Spec = r.name(s), r.spec(s, p)
		r.busy[clusterRef{p.cell.Name, p.machine.Cluster}] = d.Name
	case ReasonObserveOnly:
		d.Verdict = Observe
		r.busy[clusterRef{p.cell.Name, p.machine.Cluster}] = "the repair that would come first"
	case ReasonInFlight, ReasonNotLongEnough:
		d.Verdict = Defer
	default:
		d.Verdict = Hold
	}
	r.look(d, s)
	return d, true
}

// lapsedAndWell spares an on-call person a hold on every node that has just
// recovered and whose last sample the centrals keep for their look-back.
func (r *run) lapsedAndWell(s subject) bool {
	f, _, _ := agree(s.facts, s.ref, s.settings.evidenceAge, r.now)
	return f == findingLapsed && s.live.well(s.settings.evidenceAge, r.now) == ""
}

func (r *run) subject(p place) subject {
	ref := p.ref()
	s := subject{
		settings: resolve(r.policyFor(p)), ref: ref,
		cellErr: p.cell.Err, cellPaused: p.cell.Paused,
		clusterPaused: slices.Contains(p.cell.PausedClusters, p.machine.Cluster),
		machine:       *p.machine, facts: r.ix.facts(ref), live: r.ix.liveFact(ref),
	}
	if n := len(r.ix.byNode[ref]); n > 1 {
		s.twins = fmt.Sprintf("%d machines claim node %s", n, ref.Node)
	} else if n := r.ix.hardware[p.machine.HardwareID]; n > 1 {
		s.twins = fmt.Sprintf("%d machines claim hardware %s", n, p.machine.HardwareID)
	}
	if rem := r.ix.open[p.machine.UID]; rem != nil {
		s.pending = rem.Name
	}
	return s
}

// judge asks for reasons against a repair, the most certain first.
func (r *run) judge(s subject, p place) (Reason, string) {
	if reason, message := s.own(r.now); reason != "" {
		return reason, message
	}
	cluster := clusterRef{p.cell.Name, p.machine.Cluster}
	// The gate comes first: it names the rack, where the path is a mere suspicion.
	if reason, message := r.ix.gate.blocks(p, s.settings.percent); reason != "" {
		return reason, message
	}
	if t := r.path[cluster]; t.suspect() {
		return ReasonControlPathSuspected, fmt.Sprintf("%s Leases of cluster %s are old: suspect the path to its API server", t, cluster.cluster)
	}
	last := r.ix.lastEnd[identity(s.machine.HardwareID, s.machine.UID)]
	if left := last.at.Add(s.settings.cooldown).Sub(r.now); !last.at.IsZero() && left > 0 {
		return ReasonCooldown, fmt.Sprintf("repaired by %s, left alone for another %s", last.name, left.Round(time.Second))
	}
	if by := r.busy[cluster]; by != "" && by != s.pending {
		return ReasonInFlight, fmt.Sprintf("%s is open in cluster %s, one at a time", by, cluster.cluster)
	}
	if s.settings.observe {
		return ReasonObserveOnly, fmt.Sprintf("policy %s only observes; it would %s", s.settings.name, s.settings.action)
	}
	return "", ""
}

func (s subject) wrong() string {
	return fmt.Sprintf("node %s is Ready=%s since %s; every central lists it and its Lease was renewed last at %s",
		s.ref.Node, s.live.node.Ready, s.live.node.Since.UTC().Format(time.RFC3339), s.live.lease.Renewed.UTC().Format(time.RFC3339))
}

// name is the same whenever the same episode of the same machine is decided
// again, and new once the earlier repair of that name has ended. It is short
// enough for the name of the node operator's Job.
func (r *run) name(s subject) string {
	episode := s.machine.UID + "/" + strconv.FormatInt(s.live.node.Since.Unix(), 10)
	for n := 0; ; n++ {
		sum := sha256.Sum256([]byte(episode + "/" + strconv.Itoa(n)))
		name := prefix(s.machine.Name) + "-" + hex.EncodeToString(sum[:5])
		if r.ix.closed[name] == nil {
			return name
		}
	}
}

func prefix(name string) string {
	if len(name) <= 40 {
		return name
	}
	// A name may not have a dot before the dash that follows.
	name = name[:40]
	for name[len(name)-1] == '.' || name[len(name)-1] == '-' {
		name = name[:len(name)-1]
	}
	return name
}

func (r *run) spec(s subject, p place) api.RemediationSpec {
	m := s.machine
	signals := make([]api.SignalRecord, 0, len(s.facts)+2)
	for _, f := range s.facts {
		signals = append(signals, f.record(s.ref, true))
	}
	return api.RemediationSpec{
		PolicyName: s.settings.name,
		Target: api.RemediationTarget{
			Cell: s.ref.Cell, Namespace: m.Namespace, Cluster: m.Cluster, Machine: m.Name, MachineUID: m.UID,
			Node: m.Node, HardwareID: m.HardwareID, BootID: s.live.node.BootID,
		},
		Action: s.settings.action, Reason: clip(s.wrong(), 1024),
		Deadline: metav1.NewTime(r.now.Add(s.settings.timeout).Truncate(time.Second)),
		Evidence: api.Evidence{AgreedAt: metav1.NewTime(r.now), Signals: append(signals, s.live.records()...)},
		Gate:     r.ix.gate.record(p),
	}
}

// look brings the next check forward to when waiting alone may change the decision.
func (r *run) look(d Decision, s subject) {
	switch d.Reason {
	case ReasonNotLongEnough:
		r.lookAt(s.live.node.Since.Add(s.settings.unhealthy))
	case ReasonCooldown:
		r.lookAt(r.ix.lastEnd[identity(s.machine.HardwareID, s.machine.UID)].at.Add(s.settings.cooldown))
	}
}

func (r *run) lookAt(t time.Time) {
	if t.After(r.now) && (r.plan.NextCheck.IsZero() || t.Before(r.plan.NextCheck)) {
		r.plan.NextCheck = t
	}
}
