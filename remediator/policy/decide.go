package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"

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
	// claimed are the spares that repairs of this round take, by UID.
	claimed map[string]string
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
		claimed: map[string]string{},
		bounds:  map[domain]limits{}, begun: map[domain]bool{},
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
	r.plan.Handovers = r.ix.handovers()
	r.plan.Removals = r.ix.removals()
	waiting := r.progress()
	r.decideAll(waiting)
	r.settleProposals()
	r.settle(waiting)
	r.strays()
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
		if by := rem.Spec.Replacement; by != nil {
			found[NodeRef{t.Cell, t.Cluster, by.Node}] = true
		}
	}
	for _, rem := range r.ix.strayed() {
		found[NodeRef{rem.Spec.Target.Cell, rem.Spec.Target.Cluster, rem.Spec.Target.Node}] = true
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
		if p, ok := r.ix.byUID[uid]; ok && (unbegun(rem) || standing(rem, p.machine)) {
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
	suspects := r.inTurn(r.suspects())
	r.plan.Decisions = make([]Decision, 0, len(suspects))
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

// inTurn orders machines by who may take a place first: what is written down and was
// not tried; then what is new, of the cell in which a repair was begun the longest
// ago; then what was tried in vain, the longest ago first. A cell in which nothing
// can be begun, or nothing ends well, leaves places to others.
func (r *run) inTurn(suspects []place) []place {
	turns := make([]turn, len(suspects))
	for i, p := range suspects {
		turns[i] = r.turn(p)
	}
	slices.SortStableFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.at.Compare(b.at))
	})
	for i := range turns {
		suspects[i] = turns[i].place
	}
	return suspects
}

// turn is a machine with what says when it may take a place.
type turn struct {
	place
	rank int
	at   time.Time
}

func (r *run) turn(p place) turn {
	rem, refused := r.ix.open[p.machine.UID], r.ix.refused[p.machine.UID]
	switch {
	case rem == nil && refused != nil:
		return turn{p, 2, refused.At}
	case rem == nil:
		return turn{p, 1, r.past().began[domain{level: api.BudgetCell, cell: p.cell.Name}]}
	case rem.Status.TriedAt != nil && phase(rem) == api.RemediationPending:
		return turn{p, 2, rem.Status.TriedAt.Time}
	}
	return turn{p, 0, time.Time{}}
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
		func() (Reason, string) { return r.suspectCheck(s) },
		s.spared,
		s.drains,
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
