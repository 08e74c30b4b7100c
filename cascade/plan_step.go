package cascade

import (
	"cmp"
	"slices"
)

// nowhere is the number of no shard, which is also what package slices finds
// where there is nothing.
const nowhere = -1

// room finds the shard that a cell with so many series goes to: of those that
// it leaves no fuller than fillPercent the emptiest, else a new one; nowhere when
// there can be no more. A shard that all of its cells are leaving is on its way
// out, and takes none.
func (p *planner) room(series uint, except int) int {
	best := nowhere
	for n, s := range p.shards {
		fits := s.stays > 0 && s.load+series <= p.share(fillPercent)
		if n != except && fits && (best == nowhere || s.load < p.shards[best].load) {
			best = n
		}
	}
	if best == nowhere {
		return p.unused()
	}
	return best
}

// unused is the lowest number that no shard has; nowhere when all are taken.
func (p *planner) unused() int {
	free := slices.IndexFunc(p.shards, func(s shard) bool { return s.reads == 0 })
	if free == nowhere && len(p.shards) <= MaxShard {
		return len(p.shards)
	}
	return free
}

// share is so many hundredths of the limit.
func (p *planner) share(percent uint) uint {
	return p.limit/100*percent + p.limit%100*percent/100
}

// split begins to move, off the first shard that is above the limit, the fewest
// cells that bring it below, or leave it a single one. It tells whether there
// was something to move.
func (p *planner) split() bool {
	for n, s := range p.shards {
		if s.load > p.limit && s.stays > 1 && p.relieve(n) {
			return true
		}
	}
	return false
}

func (p *planner) relieve(n int) bool {
	before := p.shards[n].load
	moved := false
	for _, c := range p.largest(n) {
		if p.shards[n].load <= p.limit || p.shards[n].stays == 1 {
			break
		}
		to := p.room(p.series[c.Cell], n)
		if to == nowhere {
			p.warn("shard %d has %d series, more than %d, and there is no room for its cells: "+
				"raise maxSeriesPerShard, or divide the geography", n, p.shards[n].load, p.limit)
			break
		}
		p.changed(c.Cell, "moves from shard %d to shard %d: shard %d has %d series, more than %d", n, to, n, before, p.limit)
		p.put(c.Cell, n, to)
		moved = true
	}
	return moved
}

// largest are the cells at rest on a shard, those with most series first.
func (p *planner) largest(n int) []Placement {
	var cells []Placement
	for _, name := range p.names {
		if c := p.at[name]; c.Shard == n && !c.Moving() {
			cells = append(cells, c)
		}
	}
	slices.SortStableFunc(cells, func(a, b Placement) int { return cmp.Compare(p.series[b.Cell], p.series[a.Cell]) })
	return cells
}

// merge begins to move all cells of one shard to another that they leave no
// fuller than mergePercent: of the shards that can go the one with fewest cells.
func (p *planner) merge() {
	first, second := p.emptiest()
	gone, into := nowhere, nowhere
	busy := p.busy()
	for n, s := range p.shards {
		to := first
		if n == first {
			to = second
		}
		// A cell that moves, silently, keeps both of its shards.
		fits := to != nowhere && s.stays > 0 && s.load+p.shards[to].load <= p.share(mergePercent) && !busy[n]
		if fits && (gone == nowhere || s.stays <= p.shards[gone].stays) {
			gone, into = n, to
		}
	}
	if gone == nowhere {
		return
	}
	from, left := p.shards[gone].load, p.shards[into].load
	for _, c := range p.largest(gone) {
		p.changed(c.Cell, "moves from shard %d to shard %d: together they have %d series, which one shard can read", gone, into, from+left)
		p.put(c.Cell, gone, into)
	}
}

// emptiest are the two shards with the fewest series.
func (p *planner) emptiest() (first, second int) {
	first, second = nowhere, nowhere
	for n, s := range p.shards {
		switch {
		case s.stays == 0:
		case first == nowhere || s.load < p.shards[first].load:
			first, second = n, first
		case second == nowhere || s.load < p.shards[second].load:
			second = n
		}
	}
	return first, second
}

// busy are the shards that a cell moves to or from.
func (p *planner) busy() map[int]bool {
	shards := map[int]bool{}
	for _, c := range p.at {
		if c.Moving() {
			shards[c.Shard], shards[c.Next] = true, true
		}
	}
	return shards
}
