package federation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// Layouts are the shard plans, by geography.
type Layouts map[string]cascade.Layout

// Heard is what is known of the cells, by their names. What is not in it is not
// known.
type Heard struct {
	// Series that a cell brings to a cascade.
	Series map[string]uint
	// Warm are the moving cells that their next shard can take over, Silent those
	// that neither of their shards hears of.
	Warm, Silent map[string]bool
	// Divided are the cells whose edge is being divided anew, Crossed those that two
	// geographies read.
	Divided map[string]divided
	Crossed map[string]crossed
	// Contract declares what a cell may bring; nil is the one that is built in.
	Contract *rules.Contract
}

// Plan places the cells of every geography. It begins with what the status of
// the Federation says; without, cells are placed by name. It is pure.
func Plan(f *v1alpha1.Federation, cells []v1alpha1.Cell, heard Heard) (Layouts, error) {
	contract, err := heard.Contract.OrBuiltIn()
	if err != nil {
		return nil, err
	}
	before := crossings(f, cells)
	now, asks := map[string]crossing{}, map[string]string{}
	for _, c := range cells {
		now[c.Name], asks[c.Name] = cross(&c, before[c.Name], heard.Crossed[c.Name]), c.Spec.Geography
	}
	layouts := Layouts{}
	for _, g := range f.Spec.Geographies {
		o := cascade.PlanOptions{
			MaxSeriesPerShard: maxSeries(f, g.Name),
			Warm:              still(heard.Warm, now), Silent: heard.Silent,
		}
		known := series(f, g.Name)
		if before := geography(f, g.Name); before != nil {
			o.Previous = slices.DeleteFunc(previous(before.Cells), func(p cascade.Placement) bool { return asks[p.Cell] != g.Name && now[p.Cell].reads(g.Name) })
		}
		for _, c := range cells {
			if c.Spec.Geography == g.Name && now[c.Name].reads(g.Name) {
				o.Cells = append(o.Cells, cascade.Load{Cell: c.Name, Series: load(f, &c, contract, heard.Series[c.Name], known[c.Name])})
			}
		}
		if layouts[g.Name], err = cascade.Plan(o); err != nil {
			return nil, fmt.Errorf("geography %q: %w", g.Name, err)
		}
	}
	layouts.leave(f, cells, now)
	layouts.tell(before, now)
	return layouts, nil
}

// maxSeries is the limit of a cascade shard of a geography, 0 where the default holds.
func maxSeries(f *v1alpha1.Federation, name string) uint {
	for _, g := range f.Spec.Geographies {
		if g.Name == name {
			return uint(max(0, ptr.Deref(g.MaxSeriesPerShard, 0)))
		}
	}
	return 0
}

// load is what a cell brings: what is measured, else what once was, else what is
// declared.
func load(f *v1alpha1.Federation, c *v1alpha1.Cell, contract rules.Contract, measured, known uint) uint {
	switch {
	case measured > 0:
		return measured
	case known > 0:
		return known
	}
	return cascade.Declared(contract, cascade.Declaration{
		Clusters: workload.Clusters(c), Shards: workload.EdgeShards(c), Replicas: workload.EdgeReplicas(f, c),
	})
}

// geography is what the status says of one; nil when it says nothing.
func geography(f *v1alpha1.Federation, name string) *v1alpha1.GeographyStatus {
	i := slices.IndexFunc(f.Status.Geographies, func(g v1alpha1.GeographyStatus) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Status.Geographies[i]
}

// series are how many each cell of a geography brought when that was last told.
func series(f *v1alpha1.Federation, name string) map[string]uint {
	known := map[string]uint{}
	if before := geography(f, name); before != nil {
		for _, c := range before.Cells {
			known[c.Name] = uint(max(0, c.Series))
		}
	}
	return known
}

func previous(cells []v1alpha1.CellPlacement) []cascade.Placement {
	out := make([]cascade.Placement, 0, len(cells))
	for _, c := range cells {
		out = append(out, cascade.Placement{Cell: c.Name, Shard: int(c.Shard), Next: int(ptr.Deref(c.MovingTo, c.Shard))})
	}
	return out
}

// Status tells of the plans. Where nothing changed, it stays as it was.
func Status(f *v1alpha1.Federation, cells []v1alpha1.Cell, layouts Layouts, heard Heard) []v1alpha1.GeographyStatus {
	divisions := map[string]workload.Division{}
	for _, c := range cells {
		divisions[c.Name] = divide(&c, workload.EdgeDivision(f, &c), heard.Divided[c.Name])
	}
	var all []v1alpha1.GeographyStatus
	for _, name := range layouts.geographies(f) {
		layout := layouts[name]
		now := v1alpha1.GeographyStatus{Name: name, Message: message(layout.Changes)}
		if before := geography(f, name); before != nil && now.Message == "" {
			now.Message = before.Message
		}
		known := series(f, name)
		for _, n := range layout.Shards {
			now.Shards = append(now.Shards, int32(n))
		}
		for _, c := range layout.Cells {
			placed := v1alpha1.CellPlacement{Name: c.Cell, Shard: int32(c.Shard), Series: rounded(known[c.Cell], heard.Series[c.Cell])}
			if c.Moving() {
				placed.MovingTo = ptr.To(int32(c.Next))
				now.Moving++
			}
			if c.Beside {
				placed.Reading = v1alpha1.ReadingBeside
			}
			record(&placed, divisions[c.Cell])
			now.Cells = append(now.Cells, placed)
		}
		all = append(all, now)
	}
	slices.SortFunc(all, func(a, b v1alpha1.GeographyStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// rounded keeps a number of series that is known until what is measured is
// another one by more than a quarter, so that the status does not change all the
// time.
func rounded(known, measured uint) int64 {
	if measured == 0 || known > 0 && measured*4 >= known*3 && measured*4 <= known*5 {
		return int64(known)
	}
	return int64(measured)
}

// told is how many changes a message has room for.
const told = 5

func message(changes []cascade.Change) string {
	var lines []string
	for i, c := range changes {
		if i == told {
			lines = append(lines, fmt.Sprintf("and %d changes more", len(changes)-told))
			break
		}
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "; ")
}

// warnings are what a person has to look at, in the order of the geographies.
func (l Layouts) warnings(f *v1alpha1.Federation) []string {
	var out []string
	for _, g := range f.Spec.Geographies {
		for _, w := range l[g.Name].Warnings {
			out = append(out, fmt.Sprintf("geography %s: %s", g.Name, w))
		}
	}
	return out
}

// changing tells whether there is a cell that two shards or geographies read, or
// whose edge is divided anew.
func changing(f *v1alpha1.Federation) bool {
	return moving(f) || slices.ContainsFunc(f.Status.Geographies, func(g v1alpha1.GeographyStatus) bool {
		return slices.ContainsFunc(g.Cells, func(c v1alpha1.CellPlacement) bool {
			return c.EdgeShardsBeside != nil || c.Reading == v1alpha1.ReadingBeside
		})
	})
}

// moving tells whether a cell is read by two shards.
func moving(f *v1alpha1.Federation) bool {
	return slices.ContainsFunc(f.Status.Geographies, func(g v1alpha1.GeographyStatus) bool {
		return slices.ContainsFunc(g.Cells, func(c v1alpha1.CellPlacement) bool { return c.MovingTo != nil })
	})
}
