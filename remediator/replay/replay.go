// Package replay tells what would have differed if other policies and budgets had been
// in force while a remediator recorded.
//
// It decides each snapshot twice, by what was in force and by what is asked for, and
// compares. It simulates nothing: a repair that was not done, or would not have been,
// stands or lacks in every later snapshot. What that may have bent is marked, see Doubt.
package replay

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

// Kind is the kind of what would have differed.
const Kind = "Replay"

// Result is what would have differed, for programs and people to read.
type Result struct {
	metav1.TypeMeta `json:",inline"`
	// First and Last are the instants of the first look and the last.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Looks counts the snapshots that were compared, and Unread those that could not be
	// read, which whoever reads them sets.
	Looks  int `json:"looks"`
	Unread int `json:"unread,omitempty"`
	// Machines counts those in Differences, and ReasonsOnly the others that would have
	// had the same verdict for another reason.
	Machines    int     `json:"machines"`
	ReasonsOnly int     `json:"reasonsOnly,omitempty"`
	Repairs     Repairs `json:"repairs"`
	// DoubtfulAfter is the look in which for the first time a repair was begun or ended
	// otherwise than it would have been. Nil means never.
	DoubtfulAfter *time.Time `json:"doubtfulAfter,omitempty"`
	// Differences are sorted by when each was first.
	Differences []Difference `json:"differences,omitempty"`
}

// Repairs counts what was to begin, once for each machine and each time that its node
// was lost.
type Repairs struct {
	Then int `json:"then"`
	Now  int `json:"now"`
	Both int `json:"both"`
}

// Difference is one way in which a machine would have had another verdict.
type Difference struct {
	Cell      string    `json:"cell"`
	Namespace string    `json:"namespace,omitempty"`
	Machine   string    `json:"machine"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	// Looks counts the snapshots in which it is so, and Certain those of them in which
	// nothing casts doubt on it.
	Looks   int `json:"looks"`
	Certain int `json:"certain"`
	// Doubt is the gravest that there is.
	Doubt  Doubt `json:"doubt,omitempty"`
	Before Side  `json:"before"`
	After  Side  `json:"after"`
}

// Side is what one of the two decided, with its words in the first look.
type Side struct {
	Outcome `json:",inline"`
	Message string `json:"message,omitempty"`
}

// Replay compares one snapshot after the other. It keeps none of them.
type Replay struct {
	terms snapshot.Terms
	found map[key]*Difference
	// bent are the parts of the fleet in which a repair was begun or ended otherwise
	// than it would have been.
	bent map[part]bool
	// reasons are the machines that had the same verdict for another reason.
	reasons   map[machine]bool
	then, now map[string]bool
	result    Result
}

type key struct {
	machine
	before, after Outcome
}

// New takes what is to be compared with what was in force.
func New(terms snapshot.Terms) *Replay {
	return &Replay{
		terms: terms, found: map[key]*Difference{}, bent: map[part]bool{}, reasons: map[machine]bool{},
		then: map[string]bool{}, now: map[string]bool{},
		result: Result{TypeMeta: metav1.TypeMeta{APIVersion: snapshot.APIVersion, Kind: Kind}},
	}
}

// Look compares what was decided of a snapshot with what would have been. Snapshots
// come in the order of time.
func (r *Replay) Look(s snapshot.Snapshot) {
	if r.result.Looks == 0 {
		r.result.First = s.Now
	}
	r.result.Looks++
	r.result.Last = s.Now
	l := look{recorded: s, under: s.Under(r.terms)}
	then, now := l.recorded.Decide(), l.under.Decide()
	note(r.then, then)
	note(r.now, now)
	before, after := outcomes(s, then), outcomes(s, now)
	var bent []machine
	for _, m := range union(before, after) {
		b, a := before[m], after[m]
		switch {
		case b.differs(a.Outcome):
			r.add(&l, m, b, a)
			if b.bends(a.Outcome) {
				bent = append(bent, m)
			}
		case b.Reason != a.Reason:
			r.reasons[m] = true
		}
	}
	for _, m := range bent {
		for _, p := range l.parts(m) {
			r.bent[p] = true
		}
	}
	if len(bent) > 0 && r.result.DoubtfulAfter == nil {
		r.result.DoubtfulAfter = &s.Now
	}
}

// note remembers under which names repairs were to begin: the name is the same for as
// long as the node is lost.
func note(names map[string]bool, plan policy.Plan) {
	for _, d := range plan.Decisions {
		if d.Verdict == policy.Act {
			names[d.Name] = true
		}
	}
}

func union(a, b map[machine]Side) []machine {
	var all []machine
	for m := range a {
		all = append(all, m)
	}
	for m := range b {
		if _, both := a[m]; !both {
			all = append(all, m)
		}
	}
	return all
}

func (r *Replay) add(l *look, m machine, before, after Side) {
	k := key{m, before.Outcome, after.Outcome}
	d := r.found[k]
	if d == nil {
		d = &Difference{Cell: m.cell, Namespace: m.namespace, Machine: m.name, First: l.recorded.Now, Before: before, After: after}
		r.found[k] = d
	}
	d.Looks++
	d.Last = l.recorded.Now
	doubt := r.doubt(l, m, after.Outcome)
	if doubt == Certain {
		d.Certain++
	}
	if doubt.gravity() > d.Doubt.gravity() {
		d.Doubt = doubt
	}
}

// Result is what differed in all looks so far.
func (r *Replay) Result() Result {
	result, machines := r.result, map[machine]bool{}
	for k, d := range r.found {
		result.Differences = append(result.Differences, *d)
		machines[k.machine] = true
	}
	slices.SortFunc(result.Differences, func(a, b Difference) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Namespace, b.Namespace),
			a.Before.compare(b.Before.Outcome), a.After.compare(b.After.Outcome))
	})
	result.Machines = len(machines)
	for m := range r.reasons {
		if !machines[m] {
			result.ReasonsOnly++
		}
	}
	result.Repairs = Repairs{Then: len(r.then), Now: len(r.now)}
	for name := range r.then {
		if r.now[name] {
			result.Repairs.Both++
		}
	}
	return result
}
