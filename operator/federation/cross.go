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
}

// cross takes a cell one step towards the geography that it asks for. It is pure.
//
//	at rest:            its geography reads it, and the centrals expect it there;
//	another beside it:  both read it, each under its own name, and the old one is expected;
//	the other expected: both read it, and the new one is expected;
//	at rest again.
//
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
	case now.beside == want && now.home != want && heard.ready:
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

// spot is one part of a cell as a cascade of a geography passes it on.
type spot struct {
	cell, geography string
	cascade         int
	edgeShard       uint
}

// crossQueries are what a central is asked about cells that two geographies read: who has
// passed on the heartbeats of each part, and where it expects them.
func crossQueries(f *v1alpha1.Federation, cells []string) (heartbeats, expected string) {
	var names []string
	for _, c := range cells {
		names = append(names, regexp.QuoteMeta(c))
	}
	of := fmt.Sprintf("cell=~%q", strings.Join(names, "|"))
	return fmt.Sprintf("max by (geography, cell, cascade_shard, edge_shard) (count_over_time(cell:heartbeat:timestamp_seconds{%s}[%ds]))", of, ofLate(workload.Interval(f))),
		fmt.Sprintf("fleet:edge_expected:info{%s}", of)
}

// cross asks both centrals about the cells that two geographies read. Without an answer
// of both, both go on reading.
func (e *ears) cross(ctx context.Context, f *v1alpha1.Federation, cells []v1alpha1.Cell, centrals []asker) map[string]crossed {
	crossing := between(f, cells)
	if len(crossing) == 0 || len(centrals) < len(replicas()) {
		return nil
	}
	heartbeats, expected := crossQueries(f, slices.Sorted(maps.Keys(crossing)))
	out := map[string]crossed{}
	for name := range crossing {
		out[name] = crossed{ready: true, expected: true}
	}
	for _, central := range centrals {
		beats, err := e.ask(ctx, central, heartbeats)
		if err != nil {
			return e.noCrossing(ctx, err)
		}
		waits, err := e.ask(ctx, central, expected)
		if err != nil {
			return e.noCrossing(ctx, err)
		}
		heard, homes := spots(beats), homesOf(waits)
		for _, c := range cells {
			x, is := crossing[c.Name]
			if !is {
				continue
			}
			out[c.Name] = crossed{
				ready:    out[c.Name].ready && isReady(f, &c, x.beside, heard),
				expected: out[c.Name].expected && slices.Equal(homes[c.Name], []string{x.home}),
			}
		}
	}
	return out
}

func (e *ears) noCrossing(ctx context.Context, err error) map[string]crossed {
	e.log.WarnContext(ctx, "asking about cells that change their geography, which both geographies go on reading", slog.Any("error", err))
	return nil
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
func isReady(f *v1alpha1.Federation, c *v1alpha1.Cell, in string, heard map[spot]float64) bool {
	g := geography(f, in)
	if g == nil {
		return false
	}
	i := slices.IndexFunc(g.Cells, func(p v1alpha1.CellPlacement) bool { return p.Name == c.Name })
	if i < 0 {
		return false
	}
	for part := range workload.EdgeDivision(f, c).Shards {
		if heard[spot{c.Name, in, int(g.Cells[i].Shard), part}] < warmIntervals {
			return false
		}
	}
	return true
}
