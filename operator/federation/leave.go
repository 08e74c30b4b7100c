package federation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// reads tells whether a geography reads the cell.
func (c crossing) reads(geography string) bool {
	return geography != "" && (c.home == geography || c.beside == geography)
}

// still leaves out of the cells that are warm those that two geographies read: which of
// them was heard with a shard of that number is not known.
func still(warm map[string]bool, now map[string]crossing) map[string]bool {
	out := maps.Clone(warm)
	maps.DeleteFunc(out, func(cell string, _ bool) bool { return now[cell].beside != "" })
	return out
}

// leave keeps in the layouts the cells that a geography reads and that ask for another
// one, where they are: nobody moves them there any more. Then it marks where cells are
// not expected.
func (l Layouts) leave(f *v1alpha1.Federation, cells []v1alpha1.Cell, now map[string]crossing) {
	for _, c := range cells {
		for _, g := range f.Status.Geographies {
			if g.Name == c.Spec.Geography || !now[c.Name].reads(g.Name) {
				continue
			}
			layout := l[g.Name]
			if p, is := placementIn(f, g.Name, c.Name); is {
				layout.Cells = append(layout.Cells, p)
				layout.Shards = append(layout.Shards, p.Shard, p.Next)
			}
			slices.SortFunc(layout.Cells, func(a, b cascade.Placement) int { return cmp.Compare(a.Cell, b.Cell) })
			slices.Sort(layout.Shards)
			layout.Shards = slices.Compact(layout.Shards)
			l[g.Name] = layout
		}
	}
	for name, layout := range l {
		for i, c := range layout.Cells {
			layout.Cells[i].Beside = now[c.Cell].home != name
		}
	}
}

// tell says, in the geography that a cell goes to, what becomes of it.
func (l Layouts) tell(before, now map[string]crossing) {
	for _, cell := range slices.Sorted(maps.Keys(now)) {
		was, is := before[cell], now[cell]
		switch {
		case was == is || is.beside == "" || was.home == "":
		case was.beside == "":
			l.change(is.beside, cell, "comes from geography %q, which reads it as well and has it in its sums until both centrals have heard it from here", is.home)
		default:
			l.change(is.home, cell, "counts here and no more in geography %q, which reads it until both centrals say so", is.beside)
		}
	}
}

func (l Layouts) change(geography, cell, format string, args ...any) {
	layout := l[geography]
	layout.Changes = append(layout.Changes, cascade.Change{Cell: cell, Why: fmt.Sprintf(format, args...)})
	l[geography] = layout
}

// homes are the geographies of which the centrals expect the cells.
func (l Layouts) homes() map[string]string {
	out := map[string]string{}
	for name, layout := range l {
		for _, c := range layout.Cells {
			if !c.Beside {
				out[c.Cell] = name
			}
		}
	}
	return out
}

// counted are the geographies that the centrals know: those of the Federation, and
// those of before for as long as a cell is expected there.
func (l Layouts) counted(f *v1alpha1.Federation) []string {
	return slices.DeleteFunc(l.geographies(f), func(name string) bool {
		isAsked := slices.ContainsFunc(f.Spec.Geographies, func(g v1alpha1.Geography) bool { return g.Name == name })
		return !isAsked && !slices.ContainsFunc(l[name].Cells, func(c cascade.Placement) bool { return !c.Beside })
	})
}

// Crossings are the cells that two geographies read, each as a sentence for whoever
// looks whether they may go on.
func Crossings(f *v1alpha1.Federation, cells []v1alpha1.Cell) []string {
	var out []string
	both := between(f, cells)
	for _, c := range cells {
		x, is := both[c.Name]
		switch {
		case !is:
		case x.beside == c.Spec.Geography:
			out = append(out, fmt.Sprintf("Cell %q goes from geography %s to %s, whose cascades read it both; wait until both centrals have had six heartbeats of the cell with geography=%q",
				c.Name, x.home, x.beside, x.beside))
		default:
			out = append(out, fmt.Sprintf("Cell %q counts in geography %s, and a cascade of %s reads it still; wait until both centrals say that they expect it in %s alone (fleet:edge_expected:info)",
				c.Name, x.home, x.beside, x.home))
		}
	}
	return out
}

// notThere is, of the cells that two geographies read, what a person is told, and what is
// counted as held: one that does not get there in time is somebody's to look at.
func notThere(f *v1alpha1.Federation, cells []v1alpha1.Cell) (notes []string, held workload.Holds) {
	notes = Crossings(f, cells)
	if more := len(notes) - named; more > 0 {
		notes = append(notes[:named], fmt.Sprintf("%d cells more change their geography", more))
	}
	both := between(f, cells)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		hold := workload.Hold{Server: name, Reason: workload.HeldUnheard}
		if slices.ContainsFunc(cells, func(c v1alpha1.Cell) bool { return c.Name == name && c.Spec.Geography == both[name].home }) {
			hold.Reason = workload.HeldUnloaded // both centrals' files have not arrived
		}
		held = append(held, hold)
	}
	return notes, held
}
