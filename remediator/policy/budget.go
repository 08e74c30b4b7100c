package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// figure is one bound, and who set it.
type figure struct {
	n int
	// by is the name of a FleetDisruptionBudget; empty is Pharos itself.
	by string
}

func (f figure) set() bool { return f.n > 0 }

func (f figure) source() string {
	if f.by == "" {
		return "built in"
	}
	return "budget " + f.by
}

// lower keeps the smaller of two bounds.
func (f *figure) lower(n *int32, by string) {
	if n != nil && (!f.set() || int(*n) < f.n) {
		*f = figure{int(*n), by}
	}
}

// raise keeps the larger of two bounds.
func (f *figure) raise(n *int32, by string) {
	if n != nil && int(*n) > f.n {
		*f = figure{int(*n), by}
	}
}

// limits are the bounds of one domain; what is not set bounds nothing.
type limits struct {
	unavailable figure
	share       figure // in thousandths
	// atLeast keeps a built-in share of a small fleet from stopping everything
	// for two machines. It is in machines, and never more than a fifth of them.
	atLeast   int
	available figure
	inFlight  figure
	interval  figure // in seconds
	cooldown  figure // of an incident, in seconds
	doubling  bool
	freeze    freeze
}

// builtIn bounds what no budget bounds. It is timid: a fleet of 100,000 machines of
// which more than 500 are down has one cause, not 500, and ten repairs at a time
// mend more in a day than such a fleet loses.
func builtIn(level api.BudgetLevel) limits {
	switch level {
	case api.BudgetFleet:
		return limits{share: figure{n: 5}, atLeast: 40, inFlight: figure{n: 10}, doubling: true}
	case api.BudgetGeography:
		return limits{share: figure{n: 10}, atLeast: 20, inFlight: figure{n: 8}}
	case api.BudgetCell:
		return limits{share: figure{n: 50}, atLeast: 10, inFlight: figure{n: 4}}
	case api.BudgetCluster:
		return limits{inFlight: figure{n: 1}}
	default:
		return limits{} // a pool has no more than its cluster
	}
}

// limits are those of every budget that covers the domain, the strictest figure of
// each kind, and the built-in ones where no budget has any.
func (r *run) limits(d domain) limits {
	l, known := r.bounds[d]
	if !known {
		l = r.limitsOf(d)
		r.bounds[d] = l
	}
	return l
}

func (r *run) limitsOf(d domain) limits {
	var l limits
	slow := api.SlowStart("")
	for _, b := range r.budgets {
		if d.coveredBy(b) {
			l.add(b, r.now)
			if slow != api.SlowStartDoubling && b.Spec.SlowStart != "" {
				slow = b.Spec.SlowStart
			}
		}
	}
	timid := builtIn(d.level)
	if !l.unavailable.set() && !l.share.set() {
		l.share, l.atLeast = timid.share, timid.atLeast
	}
	if !l.inFlight.set() {
		l.inFlight = timid.inFlight
	}
	l.doubling = slow == api.SlowStartDoubling || slow == "" && timid.doubling
	return l
}

// add keeps the stricter of each figure.
func (l *limits) add(b *api.FleetDisruptionBudget, now time.Time) {
	l.unavailable.lower(b.Spec.MaxUnavailable, b.Name)
	if percent := b.Spec.MaxUnavailablePercent; percent != nil {
		l.share.lower(new(10**percent), b.Name)
	}
	l.available.raise(b.Spec.MinAvailable, b.Name)
	l.inFlight.lower(b.Spec.MaxInFlight, b.Name)
	l.interval.raise(b.Spec.MinIntervalSeconds, b.Name)
	l.cooldown.raise(b.Spec.StormCooldownSeconds, b.Name)
	l.freeze = l.freeze.or(b, now)
}

// mostUnavailable is how many of n machines may be unavailable, the one to be
// repaired included, and who says so; false means that nothing bounds it. Shares
// are rounded down, and are one machine at least; never is it more than half.
func (l limits) mostUnavailable(n int) (figure, bool) {
	most, bounded := figure{n: max(1, n/2)}, false
	lower := func(to int, by string) {
		bounded = true
		if to <= most.n {
			most = figure{to, by}
		}
	}
	if l.share.set() {
		lower(max(1, l.share.n*n/1000, min(l.atLeast, n/5)), l.share.by)
	}
	if l.unavailable.set() {
		lower(l.unavailable.n, l.unavailable.by)
	}
	if l.available.set() {
		lower(n-l.available.n, l.available.by)
	}
	if n == 0 {
		most.n = 0
	}
	return most, bounded
}

// freeze is a time in which nothing begins.
type freeze struct {
	by, reason string
	// until is zero for one that lasts until a person ends it.
	until time.Time
}

func (f freeze) set() bool { return f.by != "" }

// or is the freeze that lasts the longest, of several the first by the name of its budget.
func (f freeze) or(b *api.FleetDisruptionBudget, now time.Time) freeze {
	if f.set() && f.until.IsZero() {
		return f
	}
	if b.Spec.Freeze == api.Now {
		return freeze{by: b.Name, reason: b.Spec.Reason}
	}
	for _, w := range b.Spec.Freezes {
		if !now.Before(w.From.Time) && now.Before(w.Until.Time) && w.Until.After(f.until) {
			f = freeze{by: b.Name, reason: w.Reason, until: w.Until.Time}
		}
	}
	return f
}

func (f freeze) String() string {
	until := "until somebody takes away its spec.freeze"
	if !f.until.IsZero() {
		until = "until " + f.until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("budget %s freezes repairs, %s (%s)", f.by, until, f.reason)
}

// frozen says whether somebody has stopped repairs of the machine, or may have.
func (r *run) frozen(p place) (Reason, string) {
	if why := r.ix.snapshot.BudgetsErr; why != "" {
		return ReasonEvidenceMissing, "whether somebody stopped repairs is not known: " + why
	}
	return r.frozenIn(p.domains())
}

func (r *run) frozenIn(all [5]domain) (Reason, string) {
	for _, d := range all {
		if f := r.limits(d).freeze; f.set() {
			r.lookAt(f.until)
			return ReasonFrozen, fmt.Sprintf("in %s, %s", d, f)
		}
	}
	return "", ""
}

// budget says in which domain of the machine too much is unavailable for another
// disruption.
func (r *run) budget(s subject, p place) (Reason, string) {
	for _, d := range r.scope(p) {
		if t := r.gate(s.settings.evidenceAge).unseen[d]; d.wide() && t != nil && t.exceeds(50) {
			return ReasonEvidenceMissing, fmt.Sprintf("%s machines of %s are not seen: suspect what sees them", t, d)
		}
		l := r.limits(d)
		t := r.known(d, s.settings.evidenceAge)
		if most, bounded := l.mostUnavailable(t.machines); bounded && t.unhealthy > most.n {
			return ReasonBudgetExceeded, fmt.Sprintf("%s machines of %s are unavailable, at most %d may be (%s)", t, d, most.n, most.source())
		}
	}
	return "", ""
}

// known counts the machines of a domain of which something is known. What nobody
// sees is left out of both numbers: it makes the bound smaller, and one cell that
// cannot be reached does not stop the repairs of all others. Nor does, outside of its
// cluster, what waits for people since yesterday.
func (r *run) known(d domain, maxAge time.Duration) tally {
	g := r.gate(maxAge)
	if d.level == api.BudgetPool {
		return g.pool(r.ix, d).seen
	}
	if t := g.known[d]; t != nil {
		return *t
	}
	return tally{}
}

// budgetRecords are the budgets of a machine as they are written down.
func (r *run) budgetRecords(s subject, p place) []api.BudgetRecord {
	domains := p.domains()
	records := make([]api.BudgetRecord, 0, len(domains))
	for _, d := range domains {
		records = append(records, r.budgetRecord(d, s.settings.evidenceAge))
	}
	slices.SortFunc(records, func(a, b api.BudgetRecord) int { return cmp.Compare(a.Level, b.Level) })
	return records
}

func (r *run) budgetRecord(d domain, maxAge time.Duration) api.BudgetRecord {
	l, t := r.limits(d), r.known(d, maxAge)
	record := api.BudgetRecord{
		Level: d.level, Domain: d.String(), Machines: int32(t.machines), Unavailable: int32(t.unhealthy),
		InFlight: int32(len(r.busy[d].begun)),
	}
	if most, bounded := l.mostUnavailable(t.machines); bounded {
		n := int32(max(0, most.n))
		record.MaxUnavailable = &n
	}
	if f := r.mostInFlight(d, l); f.set() {
		n := int32(f.n)
		record.MaxInFlight = &n
	}
	return record
}
