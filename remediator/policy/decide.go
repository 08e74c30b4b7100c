package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
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
	budgets  []*api.FleetDisruptionBudget
	now      time.Time
	// oneCell means that the snapshot leaves out all cells but one.
	oneCell bool
	// bounds are what was asked for already.
	bounds map[domain]limits
	// history is made when it is asked for, and so is installed; see reinstalls.
	history   *history
	installed map[cellPool][]*api.Remediation
	// busy is, for each domain, what occupies its places for repairs.
	busy map[domain]occupants
	// begun are the domains in which a repair is begun in this round.
	begun map[domain]bool
	// begins names, for each cell, the one repair that is begun in this round.
	// What is begun beside it would be measured against a gate without it.
	begins map[string]string
	// taken counts, for each policy, the repairs that are begun in this round.
	taken map[string]int
	// asked are, by policy, the repairs that were asked for of late; see asking.
	asked map[string][]asking
	// observed names, for each domain, the repairs that policies which only
	// observe would do first. They take no place from those that act.
	observed map[domain][]string
	// paths are those to the API servers of clusters with suspects.
	paths map[clusterRef]tally
	// gates are by the age of evidence that they allow.
	gates map[time.Duration]gate
	// correlation and incidentsBy are made when they are asked for.
	correlation *correlation
	incidentsBy map[shared][]*api.Incident
	plan        Plan
}

func newRun(policies []*api.RemediationPolicy, s *Snapshot, now time.Time) *run {
	r := &run{
		ix: newIndex(s, now), policies: policies, budgets: sorted(s.Budgets), now: now,
		bounds: map[domain]limits{}, begun: map[domain]bool{},
		begins: map[string]string{}, taken: map[string]int{}, asked: map[string][]asking{}, observed: map[domain][]string{}, paths: map[clusterRef]tally{}, gates: map[time.Duration]gate{},
	}
	r.busy = r.ix.occupy()
	return r
}

func (r *run) gate(maxAge time.Duration) gate {
	g, ok := r.gates[maxAge]
	if !ok {
		g = newGate(r.ix, maxAge, r.now)
		r.gates[maxAge] = g
	}
	return g
}

// Decide says what to do now. Of several policies that select a machine the
// first by name speaks for it, whatever its mode; machines are taken in the order
// of cell, cluster, namespace and name. At most one repair is open in a cluster,
// and at most one is begun in a cell at a time.
func Decide(policies []api.RemediationPolicy, s Snapshot, now time.Time) Plan {
	r := newRun(sorted(policies), &s, now)
	r.plan.Unmatched = len(r.ix.unmatched())
	r.plan.Withdrawals = r.ix.withdrawals()
	r.plan.Removals = r.ix.removals()
	waiting := r.progress()
	r.decideAll(waiting)
	r.settleProposals()
	r.settle(waiting)
	r.plan.Late = r.lateAnswers()
	r.sortChecks()
	r.report()
	r.reportBudgets()
	r.plan.Escalated = r.ix.left()
	r.incidents()
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

// sorted points to all of them, by name.
func sorted[T any, O interface {
	*T
	GetName() string
}](all []T) []O {
	out := make([]O, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	slices.SortFunc(out, func(a, b O) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func (p place) ref() NodeRef { return NodeRef{p.cell.Name, p.machine.Cluster, p.machine.Node} }

// suspects are the machines that some central lists and some policy selects, and
// those with a repair that is proposed or not known to have begun, in the order of decision.
func (r *run) suspects() []place {
	found := map[*Machine]place{}
	for i := range r.ix.centrals {
		for ref := range r.ix.centrals[i].unhealthy {
			for _, p := range r.ix.on(ref) {
				found[p.machine] = p
			}
		}
	}
	for uid, rem := range r.ix.open {
		if p, ok := r.ix.byUID[uid]; ok && (phase(rem) == api.RemediationPending || standing(rem, p.machine)) {
			found[p.machine] = p
		}
	}
	for _, rem := range r.ix.proposals {
		if p, ok := r.ix.byUID[rem.Spec.Target.MachineUID]; ok {
			found[p.machine] = p
		}
	}
	places := slices.Collect(maps.Values(found))
	places = slices.DeleteFunc(places, func(p place) bool { return r.policyFor(p) == nil })
	slices.SortFunc(places, comparePlaces)
	return places
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.cell.Name, b.cell.Name), cmp.Compare(a.machine.Cluster, b.machine.Cluster),
		cmp.Compare(a.machine.Namespace, b.machine.Namespace), cmp.Compare(a.machine.Name, b.machine.Name),
		cmp.Compare(a.machine.UID, b.machine.UID))
}

func (r *run) policyFor(p place) *api.RemediationPolicy {
	for _, candidate := range r.policies {
		if selects(candidate, p.cell.Name, p.machine.Pool) {
			return candidate
		}
	}
	return nil
}

// decideAll gives the place of a cluster first to a repair that is written down
// already, then by order. Machines whose repair has begun are not decided.
func (r *run) decideAll(open []*api.Remediation) {
	waiting := map[string]bool{}
	for _, rem := range open {
		waiting[rem.Name] = true
	}
	suspects := r.suspects()
	slices.SortStableFunc(suspects, r.turns())
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

// turns orders machines by who may take a place first: what is written down and was
// not tried; then what is new, of the cell in which a repair was begun the longest
// ago; then what was tried in vain, the longest ago first. A cell in which nothing
// can be begun, or nothing ends well, leaves places to others.
func (r *run) turns() func(a, b place) int {
	tried := func(p place) (rank int, at time.Time) {
		rem, refused := r.ix.open[p.machine.UID], r.ix.refused[p.machine.UID]
		switch {
		case rem == nil && refused != nil:
			return 2, refused.At
		case rem == nil:
			return 1, r.past().began[domain{level: api.BudgetCell, cell: p.cell.Name}]
		case rem.Status.TriedAt != nil && phase(rem) == api.RemediationPending:
			return 2, rem.Status.TriedAt.Time
		}
		return 0, time.Time{}
	}
	return func(a, b place) int {
		ra, ta := tried(a)
		rb, tb := tried(b)
		return cmp.Or(cmp.Compare(ra, rb), ta.Compare(tb))
	}
}

// decide is false for a machine that turns out to be well.
func (r *run) decide(p place) (Decision, bool) {
	s := r.subject(p)
	d := Decision{Policy: s.settings.name, Cell: p.cell.Name, Machine: *p.machine, subject: s, snapshot: r.ix.snapshot, policies: r.policies}
	d.Reason, d.Message = r.judge(s, p)
	d.Message = clip(d.Message, 512)
	if s.pending == "" && s.consent.proposal == "" && (d.Reason == ReasonRecovered || d.Reason == ReasonEvidenceStale && r.lapsedAndWell(s)) {
		return d, false
	}
	switch d.Reason {
	case "":
		d.Verdict, d.Reason = Act, ReasonUnhealthy
		d.Message = clip(s.wrong(), 512)
		d.Name, d.Spec = r.name(s), r.spec(s, p)
		r.take(s, p, d.Name)
	case ReasonApprovalAwaited, ReasonRecommended:
		r.propose(&d, s, p)
	case ReasonObserveOnly:
		d.Verdict = Observe
		r.wouldTake(p)
	case ReasonEscalated:
		r.hand(&d, s, p)
	case ReasonInFlight, ReasonNotLongEnough, ReasonRollOut, ReasonForeignOwner:
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
		upgrade:       p.cell.Upgrades[p.machine.Cluster],
		checkable:     slices.Contains(p.cell.CheckedClusters, p.machine.Cluster),
		machine:       *p.machine, facts: r.ix.facts(ref), live: r.ix.liveFact(ref),
	}
	s.needs, s.consent = r.demand(p), r.consent(p, s.settings)
	if n := len(r.ix.on(ref)); n > 1 {
		s.twins = fmt.Sprintf("%d machines claim node %s", n, ref.Node)
	} else if n := r.ix.hardware[p.machine.HardwareID]; n > 1 {
		s.twins = fmt.Sprintf("%d machines claim hardware %s", n, p.machine.HardwareID)
	} else if r.ix.sameUID[p.machine.UID] {
		s.twins = "several machines have uid " + p.machine.UID + ", as after a cell was restored beside itself"
	}
	if rem := r.ix.open[p.machine.UID]; rem != nil {
		s.pending, s.standing = rem.Name, standing(rem, p.machine)
		s.needs = demanded(rem, s.needs)
	}
	s.lingers = p.machine.Request != nil && r.ix.closed[p.machine.Request.ID] != nil
	s.access = r.ix.access(ref, s.needs.check)
	r.escalate(&s)
	return s
}

// judge asks for reasons against a repair, the most certain first.
func (r *run) judge(s subject, p place) (Reason, string) {
	for _, ask := range []func() (Reason, string){
		func() (Reason, string) { return s.own(r.now) },
		func() (Reason, string) { return r.frozen(p) },
		// The gate comes first: it names the rack, where the path is a mere suspicion.
		func() (Reason, string) { return r.correlated(s, p) },
		func() (Reason, string) { return r.storm(s, p) },
		func() (Reason, string) { return r.budget(s, p) },
		func() (Reason, string) { return r.suspectPath(s) },
		func() (Reason, string) { return s.provable(r.now) },
		s.rollOut,
		func() (Reason, string) { return r.denied(s) },
		func() (Reason, string) { return r.earlier(s) },
		func() (Reason, string) { return r.failing(s, p) },
		func() (Reason, string) { return r.consented(s) },
		func() (Reason, string) { return r.limit(s) },
		func() (Reason, string) { return r.pace(s, p) },
		func() (Reason, string) { return r.unwritable(s) },
	} {
		if reason, message := ask(); reason != "" {
			return reason, message
		}
	}
	return "", ""
}

func (s subject) wrong() string {
	return fmt.Sprintf("node %s is Ready=%s since %s; every central lists it and its Lease was renewed last at %s",
		s.ref.Node, s.live.node.Ready, s.live.node.Since.UTC().Format(time.RFC3339), s.live.lease.Renewed.UTC().Format(time.RFC3339))
}

// name is the same whenever the same episode of the same machine is decided
// again, and new once the earlier repair of that name has ended. A name that stands on
// the machine though its record is gone would be taken for answered. It is short
// enough for the name of the node operator's Job.
func (r *run) name(s subject) string {
	episode := s.machine.UID + "/" + strconv.FormatInt(s.live.node.Since.Unix(), 10)
	for n := 0; ; n++ {
		sum := sha256.Sum256([]byte(episode + "/" + strconv.Itoa(n)))
		name := prefix(s.machine.Name) + "-" + hex.EncodeToString(sum[:5])
		if !r.nameTaken(name, s) {
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
	verification := *s.settings.verification.DeepCopy()
	verification.NodeCheck = s.needs.check.DeepCopy()
	return api.RemediationSpec{
		PolicyName: s.settings.name,
		Target: api.RemediationTarget{
			Cell: s.ref.Cell, Namespace: m.Namespace, Cluster: m.Cluster, Machine: m.Name, MachineUID: m.UID,
			Node: m.Node, HardwareID: m.HardwareID, ProviderID: s.live.node.ProviderID, BootID: s.live.node.BootID,
		},
		Action: s.step.action, Mode: s.settings.mode, Reason: clip(s.wrong(), 1024),
		Deadline: metav1.NewTime(r.now.Add(s.step.timeout).Truncate(time.Second)),
		Evidence: api.Evidence{AgreedAt: metav1.NewTime(r.now), Signals: s.signals()},
		Gate:     r.gate(s.settings.evidenceAge).record(p),
		Budgets:  r.budgetRecords(s, p),
		Place:    api.RemediationPlace{Geography: p.cell.Geography, Pool: m.Pool},

		Verification: verification,
	}
}

// signals are the evidence as it is written down.
func (s subject) signals() []api.SignalRecord {
	signals := make([]api.SignalRecord, 0, len(s.facts)+2)
	for _, f := range s.facts {
		signals = append(signals, f.record(s.ref, true))
	}
	return append(signals, s.live.records()...)
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
