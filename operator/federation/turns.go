package federation

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// newest is when the newest heartbeat of each part of each cell was made that a central has.
const newest = "max by (cell, edge_shard) (timestamp(cell:heartbeat:timestamp_seconds))"

// part is one part of a cell.
type part struct{ cell, edgeShard string }

// turns let a change of the centrals reach one after the other, and one of the cascades
// one of those first. Wanted is how the files are marked that the centrals are to have.
func (r *Reconciler) turns(h hub, wanted marked) workload.Turns {
	pair := workload.Pair{First: centralPrefix + replicas()[0], Second: centralPrefix + replicas()[1]}
	look := map[string]*rowTold{}
	return workload.Turns{
		Of:    h.f,
		Pairs: []workload.Pair{pair},
		Lacks: func(ctx context.Context, asked workload.Asked) workload.Lack {
			ctx, cancel := context.WithTimeout(ctx, listenTimeout)
			defer cancel()
			serving := asked.Seen.Serving
			t := turn{asked: r.ears.serving(asked.Server, serving), beside: r.ears.serving(asked.Other, serving), wanted: h.given[asked.Server].mark}
			if asked.Server == pair.First && !asked.Behind {
				t.wanted, t.above = wanted, h.given[asked.Other].mark
			}
			return r.known(r.ears.lacks(ctx, h.f, t))
		},
		Row:   h.row(),
		Apart: cascade.Targets,
		RowLacks: func(ctx context.Context, server string, seen workload.Observation) workload.Lack {
			ctx, cancel := context.WithTimeout(ctx, listenTimeout)
			defer cancel()
			return r.known(r.ears.unheard(ctx, h.f, server, seen, look))
		},
	}
}

// known takes a server that does not answer for one that lacks something: it may.
func (r *Reconciler) known(lack workload.Lack, err error) workload.Lack {
	if err == nil {
		return lack
	}
	r.Log.Warn("asking whether a server may be changed, which stays as it is", slog.Any("error", err))
	return workload.Lack{Reason: workload.HeldUnknown, What: fmt.Sprintf("not known, because a central does not answer the operator: %v. "+
		"Let the operator's pod reach that address (NetworkPolicies of %s, a firewall)", err, r.Namespace)}
}

// informant is a central that can be asked.
type informant struct {
	asker
	name, address string
}

// failed says which central could not be asked, and where.
func (w *informant) failed(err error) error {
	return fmt.Errorf("%s at %s: %w", w.name, w.address, err)
}

// serving is the central of that name, nil where it serves nobody.
func (e *ears) serving(name string, serving map[string]string) *informant {
	if c := e.of(serving[name]); c != nil {
		return &informant{c, name, serving[name]}
	}
	return nil
}

// turn is what is known of a central that has to be well before the other is changed.
type turn struct {
	// asked is the central, beside the other one, nil where that serves nobody.
	asked, beside *informant
	// wanted is how the files are marked that it is to have. Those that are newer than
	// above suffice, where anything is known of that.
	wanted, above marked
}

func (t turn) has(m marked) bool {
	return m == t.wanted || (t.above != marked{} && t.above.number < m.number && m.number < t.wanted.number)
}

// lacks says what a central still needs to be well, or nothing: its files, an
// evaluation of its rules since it has those, and since then a heartbeat of everything
// that the other hears of.
//
// While one change follows another so quickly that the first central never has the
// newest files, it suffices that it has taken newer ones than the second was given.
// So a fleet that grows all the time holds nothing for ever; the second is then at
// most one change ahead.
func (e *ears) lacks(ctx context.Context, f *v1alpha1.Federation, t turn) (workload.Lack, error) {
	if t.asked == nil {
		return workload.Lack{Reason: workload.HeldUnknown, What: "its address is not known"}, nil
	}
	now, err := t.asked.Loaded(ctx)
	switch {
	case err != nil:
		return workload.Lack{}, t.asked.failed(err)
	case now.Refused:
		return workload.Lack{Reason: workload.HeldRefused, What: "it refuses its newest configuration, and goes on with the one before; its log says why"}, nil
	case !t.has(markIn(now.Config)):
		return workload.Lack{Reason: workload.HeldUnloaded, What: "it has not loaded its newest files yet"}, nil
	}
	beats, err := e.ask(ctx, t.asked, "fleet:interval:seconds")
	if err != nil {
		return workload.Lack{}, t.asked.failed(err)
	}
	if !slices.ContainsFunc(beats, func(s promapi.Sample) bool { return s.At.After(now.Since) }) {
		return workload.Lack{Reason: workload.HeldUnloaded, What: "it has not evaluated its rules since it loaded them"}, nil
	}
	// A server tells the second in which it loaded them.
	return e.missing(ctx, f, t, now.Since.Add(time.Second))
}

// missing names the cells of which the other central hears something that this one has
// not heard since a time, but for those that left the fleet. What it heard before that may
// have come by a way that is no more. Where the other hears nothing because it serves nobody,
// it has to hear what it heard itself just before it loaded its files, so that a cell which
// was missing already holds nothing; the whole plan where it heard nothing then.
func (e *ears) missing(ctx context.Context, f *v1alpha1.Federation, t turn, since time.Time) (workload.Lack, error) {
	heard, err := e.newest(ctx, t.asked, e.now())
	if err != nil {
		return workload.Lack{}, err
	}
	var needs map[part]bool
	why := "and is the only one that serves"
	if t.beside != nil {
		why = "and " + t.beside.name + " does"
		needs, err = e.ofLate(ctx, f, t.beside, e.now())
	} else if needs, err = e.ofLate(ctx, f, t.asked, since.Add(-time.Second)); err == nil && len(needs) == 0 {
		needs = planned(f)
	}
	if err != nil {
		return workload.Lack{}, err
	}
	var lacks []string
	for p := range needs {
		if !heard[p].After(since) && isPlaced(f, p.cell) {
			lacks = append(lacks, p.cell)
		}
	}
	if slices.Sort(lacks); len(lacks) > 0 {
		return workload.Lack{
			Reason: workload.HeldUnheard,
			What:   fmt.Sprintf("it has not heard of Cells %s since it loaded its files, %s", list(slices.Compact(lacks)), why),
		}, nil
	}
	return workload.Lack{}, nil
}

// planned are the parts of all cells of the plan.
func planned(f *v1alpha1.Federation) map[part]bool {
	all := map[part]bool{}
	for _, g := range f.Status.Geographies {
		for _, c := range g.Cells {
			for shard := range max(1, c.EdgeShards) {
				all[part{c.Name, strconv.Itoa(int(shard))}] = true
			}
		}
	}
	return all
}

// ofLate are the parts of cells of which a central had, at a moment, a heartbeat that was
// not late.
func (e *ears) ofLate(ctx context.Context, f *v1alpha1.Federation, central *informant, at time.Time) (map[part]bool, error) {
	beats, err := e.newest(ctx, central, at)
	late := at.Add(-ofLate(workload.Interval(f)))
	all := map[part]bool{}
	for p, made := range beats {
		if made.After(late) {
			all[p] = true
		}
	}
	return all, err
}

// newest is when each part of each cell made the newest heartbeat that a central had at a moment.
func (e *ears) newest(ctx context.Context, central *informant, at time.Time) (map[part]time.Time, error) {
	samples, err := e.askAt(ctx, central, newest, at)
	if err != nil {
		return nil, central.failed(err)
	}
	out := map[part]time.Time{}
	for _, s := range samples {
		out[part{s.Labels["cell"], s.Labels[rules.LabelEdgeShard]}] = promapi.Time(s.Value)
	}
	return out, nil
}
