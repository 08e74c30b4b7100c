package federation

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// crossing is where a cell is read while it goes from one geography to another.
type crossing struct {
	// home is the geography of which the centrals expect the cell, and beside another
	// one that reads it as well; empty is none.
	home, beside string
}

// crossed is what both centrals say of a cell that two geographies read. What is not
// known is false.
type crossed struct {
	// ready says that they have heard every part of it for long enough from the
	// geography that it goes to, expected that they expect it of its home alone.
	ready, expected bool
	// silent says that they hear the cascades of both geographies, none of which has heard of
	// the cell for an hour: nobody would miss it in its old geography.
	silent bool
}

// cross takes a cell one step towards the geography that it asks for. It is pure.
//
//	at rest:            its geography reads it, and the centrals expect it there;
//	another beside it:  both read it, each under its own name, and the old one is expected;
//	the other expected: both read it, and the new one is expected;
//	at rest again.
//
// The second step waits until the cell is heard from the geography that it goes to, and
// not for a cell that is not heard from either.
// Sums are of the cells that are expected, by geography, so that none counts it twice;
// and no central expects it where it is not heard. What is beside and no longer asked
// for goes as in the last step.
func cross(c *v1alpha1.Cell, now crossing, heard crossed) crossing {
	want := c.Spec.Geography
	switch {
	case now.home == "":
		return crossing{home: want}
	case now.beside == "" && now.home != want:
		return crossing{now.home, want}
	case now.beside == want && now.home != want && (heard.ready || heard.silent):
		return crossing{want, now.home}
	case now.beside != "" && now.beside != want && heard.expected:
		return crossing{home: now.home}
	}
	return now
}

// crossings is where each cell is read by the status. Of a plan that was found again
// nothing says which of two geographies is expected: it is the one that the cell leaves,
// from which the steps begin anew. A place that cannot be is none.
func crossings(f *v1alpha1.Federation, cells []v1alpha1.Cell) map[string]crossing {
	homes, besides := map[string][]string{}, map[string][]string{}
	for _, g := range f.Status.Geographies {
		for _, c := range g.Cells {
			at := homes
			if c.Reading == v1alpha1.ReadingBeside {
				at = besides
			}
			if cascade.Possible(int(c.Shard)) && cascade.Possible(int(ptr.Deref(c.MovingTo, c.Shard))) {
				at[c.Name] = append(at[c.Name], g.Name)
			}
		}
	}
	out := map[string]crossing{}
	for _, c := range cells {
		all := append(homes[c.Name], besides[c.Name]...)
		if len(homes[c.Name]) > 1 && all[0] == c.Spec.Geography {
			all[0], all[1] = all[1], all[0]
		}
		switch len(all) {
		case 0:
			out[c.Name] = crossing{}
		case 1:
			out[c.Name] = crossing{home: all[0]}
		default:
			out[c.Name] = crossing{all[0], all[1]}
		}
	}
	return out
}

// between are the cells that two geographies read, by name.
func between(f *v1alpha1.Federation, cells []v1alpha1.Cell) map[string]crossing {
	out := crossings(f, cells)
	maps.DeleteFunc(out, func(_ string, c crossing) bool { return c.beside == "" })
	return out
}

// spot is one part of a cell as a cascade passes it on. Its geography is empty where the
// question was not by geography.
type spot struct {
	cell, geography string
	cascade         int
	edgeShard       uint
}

// silentFor is for how long a cell was not heard of that changes its geography unheard: much
// longer than an edge takes to start, because it is not known whether it will be heard where
// it goes to.
const silentFor = time.Hour

// crossQueries are what a central is asked about cells that two geographies read: who has
// passed on the heartbeats of each part, where it expects them, of which it has heard at
// all, and which cascades it hears.
func crossQueries(f *v1alpha1.Federation, cells []string) [4]string {
	var names []string
	for _, c := range cells {
		names = append(names, regexp.QuoteMeta(c))
	}
	of, late := fmt.Sprintf("cell=~%q", strings.Join(names, "|")), ofLate(workload.Interval(f))/time.Second
	return [4]string{
		fmt.Sprintf("max by (geography, cell, cascade_shard, edge_shard) (count_over_time(cell:heartbeat:timestamp_seconds{%s}[%ds]))", of, late),
		fmt.Sprintf("fleet:edge_expected:info{%s}", of),
		fmt.Sprintf("count by (cell) (last_over_time(cell:heartbeat:timestamp_seconds{%s}[%ds]))", of, silentFor/time.Second),
		fmt.Sprintf("max by (geography, cascade_shard) (count_over_time(cascade:heartbeat:timestamp_seconds[%ds]))", late),
	}
}

// crossWitness is what one central says of the cells that two geographies read.
type crossWitness struct {
	beats    map[spot]float64
	homes    map[string][]string
	heard    map[string]bool
	cascades map[shard]float64
}

// cross asks both centrals about the cells that two geographies read. Without an answer
// of both, both go on reading.
func (e *ears) cross(ctx context.Context, f *v1alpha1.Federation, cells []v1alpha1.Cell, centrals []asker) map[string]crossed {
	crossing := between(f, cells)
	if len(crossing) == 0 || len(centrals) < len(replicas()) {
		return nil
	}
	queries := crossQueries(f, slices.Sorted(maps.Keys(crossing)))
	out := map[string]crossed{}
	for name := range crossing {
		out[name] = crossed{ready: true, expected: true, silent: true}
	}
	for _, central := range centrals {
		says, err := e.crossWitness(ctx, central, queries)
		if err != nil {
			e.log.WarnContext(ctx, "asking about cells that change their geography, which both geographies go on reading", slog.Any("error", err))
			return nil
		}
		for _, c := range cells {
			x, is := crossing[c.Name]
			if !is {
				continue
			}
			out[c.Name] = crossed{
				ready:    out[c.Name].ready && says.isReady(f, &c, x.beside),
				expected: out[c.Name].expected && slices.Equal(says.homes[c.Name], []string{x.home}),
				silent:   out[c.Name].silent && says.isSilent(f, c.Name, x),
			}
		}
	}
	return out
}

func (e *ears) crossWitness(ctx context.Context, central asker, queries [4]string) (crossWitness, error) {
	var answers [len(queries)][]promapi.Sample
	for i, query := range queries {
		var err error
		if answers[i], err = e.ask(ctx, central, query); err != nil {
			return crossWitness{}, err
		}
	}
	w := crossWitness{beats: spots(answers[0]), homes: homesOf(answers[1]), heard: map[string]bool{}, cascades: map[shard]float64{}}
	for _, s := range answers[2] {
		w.heard[s.Labels["cell"]] = true
	}
	for _, s := range answers[3] {
		w.cascades[cascadeIn(s)] = s.Value
	}
	return w, nil
}

func spots(samples []promapi.Sample) map[spot]float64 {
	out := map[spot]float64{}
	for _, s := range samples {
		cascade, err := strconv.Atoi(s.Labels["cascade_shard"])
		part, err2 := strconv.ParseUint(s.Labels["edge_shard"], 10, 16)
		if err == nil && err2 == nil {
			out[spot{s.Labels["cell"], s.Labels["geography"], cascade, uint(part)}] = s.Value
		}
	}
	return out
}

// homesOf are the geographies of which a central expects each cell.
func homesOf(samples []promapi.Sample) map[string][]string {
	out := map[string][]string{}
	for _, s := range samples {
		cell := s.Labels["cell"]
		out[cell] = slices.Compact(slices.Sorted(slices.Values(append(out[cell], s.Labels["geography"]))))
	}
	return out
}

// isReady says whether a central has had, from the shard that a geography reads the
// cell with, enough heartbeats of each part.
func (w crossWitness) isReady(f *v1alpha1.Federation, c *v1alpha1.Cell, in string) bool {
	at, is := placementIn(f, in, c.Name)
	if !is {
		return false
	}
	for part := range workload.EdgeDivision(f, c).Shards {
		if w.beats[spot{c.Name, in, at.Shard, part}] < warmIntervals {
			return false
		}
	}
	return true
}

// isSilent says whether a central hears every cascade that reads the cell, and has heard
// nothing of the cell itself for long. A central that hears no cascade knows nothing.
func (w crossWitness) isSilent(f *v1alpha1.Federation, cell string, x crossing) bool {
	for _, in := range []string{x.home, x.beside} {
		at, is := placementIn(f, in, cell)
		if !is || w.cascades[shard{in, at.Shard}] < warmIntervals || w.cascades[shard{in, at.Next}] < warmIntervals {
			return false
		}
	}
	return !w.heard[cell]
}

// placementIn is where a geography reads a cell by the status.
func placementIn(f *v1alpha1.Federation, name, cell string) (cascade.Placement, bool) {
	g := geography(f, name)
	if g == nil {
		return cascade.Placement{}, false
	}
	all := previous(g.Cells)
	i := slices.IndexFunc(all, func(p cascade.Placement) bool { return p.Cell == cell })
	if i < 0 {
		return cascade.Placement{}, false
	}
	return all[i], true
}
