package federation

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// newest is when the newest heartbeat of each part of each cell was made that a central has.
const newest = "max by (cell, edge_shard) (timestamp(cell:heartbeat:timestamp_seconds))"

// part is one part of a cell.
type part struct{ cell, edgeShard string }

// turns let a change of the centrals reach one after the other. Wanted is how the files
// are marked that they are to have, given how those that they were given last.
func (r *Reconciler) turns(f *v1alpha1.Federation, wanted marked, given map[string]marked) workload.Turns {
	pair := workload.Pair{First: centralPrefix + replicas()[0], Second: centralPrefix + replicas()[1]}
	return workload.Turns{
		Pairs: []workload.Pair{pair},
		Lacks: func(ctx context.Context, server, other string, seen workload.Observation) string {
			ctx, cancel := context.WithTimeout(ctx, listenTimeout)
			defer cancel()
			t := turn{server: server, other: other, asked: r.ears.of(seen.Serving[server]), beside: r.ears.of(seen.Serving[other]), wanted: given[server]}
			if server == pair.First {
				t.wanted, t.above = wanted, given[other]
			}
			why, err := r.ears.lacks(ctx, f, t)
			if err != nil {
				r.Log.WarnContext(ctx, "asking whether a central may be changed, which stays as it is", slog.String("central", other), slog.Any("error", err))
				return fmt.Sprintf("not known, because a central does not answer the operator: %v", err)
			}
			return why
		},
	}
}

// given is how the files are marked that each central was given last, nothing where it
// was given none.
func (r *Reconciler) given(ctx context.Context) (map[string]marked, error) {
	given := map[string]marked{}
	for _, replica := range replicas() {
		var files corev1.ConfigMap
		name := client.ObjectKey{Namespace: r.Namespace, Name: centralPrefix + replica}
		if err := r.Live.Get(ctx, name, &files); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading what %s was given: %w", name.Name, err)
		}
		given[name.Name] = markIn(files.Data[promcfg.ConfigFile])
	}
	return given, nil
}

// turn is what is known of a central that has to be well before the other is changed.
type turn struct {
	server, other string
	// asked is the central, beside the other one, nil where that serves nobody.
	asked, beside asker
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
func (e *ears) lacks(ctx context.Context, f *v1alpha1.Federation, t turn) (string, error) {
	if t.asked == nil {
		return "its address is not known", nil
	}
	now, err := t.asked.Loaded(ctx)
	switch {
	case err != nil:
		return "", err
	case now.Refused:
		return "it refuses its newest configuration, and goes on with the one before; its log says why", nil
	case !t.has(markIn(now.Config)):
		return "it has not loaded its newest files yet", nil
	}
	beats, err := e.ask(ctx, t.asked, "fleet:interval:seconds")
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(beats, func(s promapi.Sample) bool { return s.At.After(now.Since) }) {
		return "it has not evaluated its rules since it loaded them", nil
	}
	// A server tells the second in which it loaded them.
	return e.missing(ctx, f, t, now.Since.Add(time.Second))
}

// missing names the cells of which the other central hears something that this one has
// not heard since a time, but for those that left the fleet. What it heard before that may
// have come by a way that is no more. Where the other hears nothing because it
// serves nobody, the whole plan has to be heard.
func (e *ears) missing(ctx context.Context, f *v1alpha1.Federation, t turn, since time.Time) (string, error) {
	heard, err := e.newest(ctx, t.asked)
	if err != nil {
		return "", err
	}
	needs, why := planned(f, e.now()), "and is the only one that serves"
	if t.beside != nil {
		why = "and " + t.other + " does"
		if needs, err = e.newest(ctx, t.beside); err != nil {
			return "", err
		}
	}
	late := e.now().Add(-time.Duration(ofLate(workload.Interval(f))) * time.Second)
	var lacks []string
	for p, at := range needs {
		if at.After(late) && !heard[p].After(since) && isPlaced(f, p.cell) {
			lacks = append(lacks, p.cell)
		}
	}
	if slices.Sort(lacks); len(lacks) > 0 {
		return fmt.Sprintf("it has not heard of Cells %s since it loaded its files, %s", list(slices.Compact(lacks)), why), nil
	}
	return "", nil
}

// planned are the parts of all cells of the plan, as if all had been heard just now.
func planned(f *v1alpha1.Federation, now time.Time) map[part]time.Time {
	all := map[part]time.Time{}
	for _, g := range f.Status.Geographies {
		for _, c := range g.Cells {
			for shard := range max(1, c.EdgeShards) {
				all[part{c.Name, strconv.Itoa(int(shard))}] = now
			}
		}
	}
	return all
}

// newest is when each part of each cell made the newest heartbeat that a central has.
func (e *ears) newest(ctx context.Context, central asker) (map[part]time.Time, error) {
	samples, err := e.ask(ctx, central, newest)
	if err != nil {
		return nil, err
	}
	out := map[part]time.Time{}
	for _, s := range samples {
		out[part{s.Labels["cell"], s.Labels[rules.LabelEdgeShard]}] = promapi.Time(s.Value)
	}
	return out, nil
}
