package cascade

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// DefaultMaxSeriesPerShard is the most series that one cascade server should
// hand up, unless PlanOptions say otherwise.
const DefaultMaxSeriesPerShard = 100_000

const (
	// fillPercent is how full a shard may become by a cell that is placed on it.
	// What lies between this and the limit is for the cells to grow into.
	fillPercent = 80
	// mergePercent is how full a shard may become by taking over another one. It
	// is well below fillPercent, so that a merge is not undone by the next cell.
	mergePercent = 60
	// maxLoad bounds what one cell is believed to bring, so that sums stay numbers.
	maxLoad = 1 << 40
)

// MaxShard is the highest number that a shard can have: with more digits the name of its
// server would not fit into a label any more.
const MaxShard = 999

// Load is how many series a cell brings to a cascade: measured where that is
// known, declared otherwise.
type Load struct {
	Cell   string
	Series uint
}

// Placement says which shard reads a cell. While the cell moves, Next is
// another shard, and both read it; at rest Next is Shard.
type Placement struct {
	Cell        string
	Shard, Next int
	// Beside says that the centrals expect the cell of another geography, which reads
	// it as well. A plan has it from nobody, and says it of no cell.
	Beside bool
}

// Moving tells whether two shards read the cell.
func (p Placement) Moving() bool { return p.Next != p.Shard }

// PlanOptions are everything that a plan follows from.
type PlanOptions struct {
	// MaxSeriesPerShard is the limit above which a shard is split. Zero means
	// DefaultMaxSeriesPerShard.
	MaxSeriesPerShard uint
	// Cells are all cells of the geography, in any order.
	Cells []Load
	// Previous is the plan that is carried out now, in any order. With none,
	// cells are placed by name.
	Previous []Placement
	// Warm are the moving cells whose every heartbeat the next shard has had for
	// long enough to stand alone. A cell that is not known to be warm is not.
	Warm map[string]bool
	// Silent are the moving cells that neither shard hears of. They go on being
	// read by both, and no other step waits for them.
	Silent map[string]bool
}

// Change is one thing that a plan does differently from the one before.
type Change struct {
	Cell string
	// Why is a sentence for a person, without the name of the cell.
	Why string
}

// String tells the change in one line.
func (c Change) String() string { return fmt.Sprintf("cell %q %s", c.Cell, c.Why) }

// Layout is a plan: which shards there are and what each of them reads.
type Layout struct {
	// Shards are the numbers of the shards, ascending. There is at least one.
	Shards []int
	// Cells are where each cell is, by name.
	Cells []Placement
	// Changes are what differs from the plan before, in the order of doing it.
	Changes []Change
	// Warnings are what a person has to look at.
	Warnings []string
}

// ReadBy are the names of the cells that a shard reads.
func (l Layout) ReadBy(shard int) []string {
	var names []string
	for _, c := range l.Cells {
		if c.Shard == shard || c.Next == shard {
			names = append(names, c.Cell)
		}
	}
	return names
}

// Plan decides which cascade server of a geography reads which cell. It is
// pure, and the order of what it is given does not matter.
//
// A cell stays where it is unless its shard is above the limit. Then the fewest
// cells that suffice move, largest first, to shards that have room or to a new
// one. A shard whose cells fit another with room to spare is merged into it.
// Only one split or merge is under way at a time, and no cell leaves its old
// shard before the next one is warm. New cells are placed at once, and move
// nobody.
//
// What the plan before says and cannot be is left out with a warning. A cell
// that is there twice or has no name is refused.
func Plan(o PlanOptions) (Layout, error) {
	p, err := newPlanner(o)
	if err != nil {
		return Layout{}, err
	}
	p.recall(o.Previous)
	p.finish(o.Warm)
	p.placeNew()
	if !p.underWay(o.Silent) && !p.split() {
		p.merge()
	}
	return p.layout(), nil
}

// planner is a plan that is being made.
type planner struct {
	limit uint
	// names are those of the cells, sorted.
	names    []string
	series   map[string]uint
	at       map[string]Placement
	shards   []shard // by number; those that nobody reads included
	changes  []Change
	warnings []string
}

// shard is one cascade server in a plan that is being made.
type shard struct {
	// reads counts the cells that it reads, stays those of them that it still
	// reads when every move has ended, and load is the series of the latter.
	reads, stays int
	load         uint
}

func newPlanner(o PlanOptions) (*planner, error) {
	p := &planner{
		limit:  cmp.Or(o.MaxSeriesPerShard, DefaultMaxSeriesPerShard),
		series: make(map[string]uint, len(o.Cells)),
		at:     make(map[string]Placement, len(o.Cells)),
	}
	for _, c := range o.Cells {
		if c.Cell == "" {
			return nil, errors.New("planning shards: a cell has no name")
		}
		if _, twice := p.series[c.Cell]; twice {
			return nil, fmt.Errorf("planning shards: cell %q is there twice", c.Cell)
		}
		p.series[c.Cell] = min(c.Series, maxLoad)
	}
	p.names = slices.Sorted(maps.Keys(p.series))
	return p, nil
}

// recall takes over the plan before, as far as it speaks of cells that there
// are and says what can be.
func (p *planner) recall(previous []Placement) {
	before := slices.Clone(previous)
	slices.SortFunc(before, func(a, b Placement) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Next, b.Next))
	})
	for _, c := range before {
		_, exists := p.series[c.Cell]
		_, twice := p.at[c.Cell]
		switch {
		case !exists:
			p.changed(c.Cell, "is gone from shard %d", c.Shard)
		case twice:
			p.warn("the plan before has cell %q twice: shard %d is not followed", c.Cell, c.Shard)
		case !Possible(c.Shard):
			p.warn("the plan before has cell %q on shard %d, which cannot be: the cell is placed anew", c.Cell, c.Shard)
		case !Possible(c.Next):
			p.warn("the plan before moves cell %q to shard %d, which cannot be: the cell stays", c.Cell, c.Next)
			p.put(c.Cell, c.Shard, c.Shard)
		default:
			p.put(c.Cell, c.Shard, c.Next)
		}
	}
}

// Possible tells whether a cascade can have the number.
func Possible(shard int) bool { return shard >= 0 && shard <= MaxShard }

// finish ends the moves of cells that the next shard has taken up.
func (p *planner) finish(warm map[string]bool) {
	for _, name := range p.names {
		if c, placed := p.at[name]; placed && c.Moving() && warm[name] {
			p.changed(name, "has moved from shard %d to shard %d, which has its heartbeats", c.Shard, c.Next)
			p.put(name, c.Next, c.Next)
		}
	}
}

// placeNew gives every cell without a shard one.
func (p *planner) placeNew() {
	for _, name := range p.names {
		if _, placed := p.at[name]; placed {
			continue
		}
		s := p.room(p.series[name], nowhere)
		if s == nowhere {
			s, _ = p.emptiest()
			p.warn("there are %d shards, the most that there can be: shard %d takes in cell %q, whatever it has already; "+
				"raise maxSeriesPerShard, or divide the geography", MaxShard+1, s, name)
		}
		p.changed(name, "is new on shard %d, with %d series", s, p.series[name])
		p.put(name, s, s)
	}
}

// underWay tells whether a split or a merge has not ended yet.
func (p *planner) underWay(silent map[string]bool) bool {
	for name, c := range p.at {
		if c.Moving() && !silent[name] {
			return true
		}
	}
	return false
}

// put has a cell read by two shards, or by one twice.
func (p *planner) put(name string, from, to int) {
	if old, placed := p.at[name]; placed {
		p.count(old, -1)
	}
	p.at[name] = Placement{Cell: name, Shard: from, Next: to}
	p.count(p.at[name], 1)
}

// count adds a cell to the shards that read it, or takes it off them.
func (p *planner) count(c Placement, by int) {
	for len(p.shards) <= max(c.Shard, c.Next) {
		p.shards = append(p.shards, shard{})
	}
	next := &p.shards[c.Next]
	next.reads += by
	next.stays += by
	if c.Moving() {
		p.shards[c.Shard].reads += by
	}
	if by > 0 {
		next.load += p.series[c.Cell]
	} else {
		next.load -= p.series[c.Cell]
	}
}

func (p *planner) changed(cell, format string, args ...any) {
	p.changes = append(p.changes, Change{cell, fmt.Sprintf(format, args...)})
}

func (p *planner) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// layout lists what was decided.
func (p *planner) layout() Layout {
	l := Layout{Changes: p.changes}
	for n, s := range p.shards {
		if s.reads > 0 {
			l.Shards = append(l.Shards, n)
		}
	}
	if l.Shards == nil {
		l.Shards = []int{0} // somebody has to say that there is no cell
	}
	for _, name := range p.names {
		l.Cells = append(l.Cells, p.at[name])
		if p.series[name] > p.limit {
			p.warn("cell %q alone has %d series, more than the %d of a shard, and has a shard to itself: "+
				"host fewer clusters in it, or raise maxSeriesPerShard and give the cascades what they then need", name, p.series[name], p.limit)
		}
	}
	l.Warnings = p.warnings
	return l
}
