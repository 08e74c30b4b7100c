package cascade_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pharos-fleet/pharos/cascade"
)

// limit is small, so that loads hit every side of it.
const limit = 100

func drawCells(t *rapid.T, most int) []cascade.Load {
	n := rapid.IntRange(0, most).Draw(t, "cells")
	var cells []cascade.Load
	for i := range n {
		series := rapid.OneOf(rapid.UintRange(0, 30), rapid.UintRange(0, 130)).Draw(t, "series")
		cells = append(cells, load(fmt.Sprintf("c%02d", i), series))
	}
	return cells
}

func drawSome(t *rapid.T, cells []cascade.Load, label string) map[string]bool {
	some := map[string]bool{}
	for _, c := range cells {
		some[c.Cell] = rapid.Bool().Draw(t, label)
	}
	return some
}

// A fleet lives through whatever happens to it, and in every plan:
// each cell has a shard, at most two; it leaves none that the next does not
// stand in for; a shard that nobody reads is gone; and the same input, in any
// order, gives the same plan.
func TestPlanNeverLosesACell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var previous []cascade.Placement
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			o := cascade.PlanOptions{
				MaxSeriesPerShard: rapid.UintRange(1, 2*limit).Draw(t, "limit"), Cells: drawCells(t, 20), Previous: previous,
			}
			o.Warm, o.Silent = drawSome(t, o.Cells, "warm"), drawSome(t, o.Cells, "silent")
			now := plan(t, o)
			checkPlan(t, o, now)
			shuffled := o
			shuffled.Cells = rapid.Permutation(o.Cells).Draw(t, "order of cells")
			shuffled.Previous = rapid.Permutation(o.Previous).Draw(t, "order of the plan before")
			require.Equal(t, now, plan(t, shuffled))
			previous = now.Cells
		}
	})
}

func checkPlan(t *rapid.T, o cascade.PlanOptions, now cascade.Layout) {
	before := map[string]cascade.Placement{}
	for _, c := range o.Previous {
		before[c.Cell] = c
	}
	require.Len(t, now.Cells, len(o.Cells), "each cell is there once")
	used := map[int]bool{}
	begun, goesOn := false, false
	for i, c := range now.Cells {
		require.Equal(t, o.Cells[i].Cell, c.Cell)
		require.Contains(t, now.Shards, c.Shard)
		require.Contains(t, now.Shards, c.Next)
		used[c.Shard], used[c.Next] = true, true
		old, known := before[c.Cell]
		checkCell(t, o, now, old, known, c)
		fresh := c.Moving() && (!known || c != old)
		begun = begun || fresh
		goesOn = goesOn || c.Moving() && !fresh && !o.Silent[c.Cell]
	}
	require.True(t, len(now.Cells) == 0 || len(used) == len(now.Shards), "a shard that nobody reads is gone")
	require.False(t, begun && goesOn, "one step at a time: %v", now.Cells)
}

func checkCell(t *rapid.T, o cascade.PlanOptions, now cascade.Layout, old cascade.Placement, known bool, c cascade.Placement) {
	switch {
	case !known:
		require.False(t, c.Moving() && !begunByAStep(now, c.Cell), "a new cell is nowhere else")
	case !old.Moving():
		require.Equal(t, old.Shard, c.Shard, "a cell at rest is dropped by nobody")
	case o.Warm[c.Cell]:
		require.Equal(t, old.Next, c.Shard, "a warm shard stands alone")
	default:
		require.Equal(t, old, c, "a move goes on until its end")
	}
}

func begunByAStep(l cascade.Layout, cell string) bool {
	return slices.ContainsFunc(l.Changes, func(c cascade.Change) bool { return c.Cell == cell && c.Why[:5] == "moves" })
}

// Whatever the plan before, the loads and the limit: carried out step by step,
// plans settle, within as many of them as there are shards to relieve and to
// merge. Then no shard is above the limit but one of a single cell, and no two
// would fill one to three fifths.
func TestPlanSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := drawCells(t, 24)
		var previous []cascade.Placement
		for _, c := range cells {
			if rapid.Bool().Draw(t, "known") {
				previous = append(previous, moving(c.Cell, rapid.IntRange(0, 5).Draw(t, "shard"), rapid.IntRange(0, 5).Draw(t, "next")))
			}
		}
		last := settle(t, cells, previous, limit, 2*len(cells)+3)
		series := map[string]uint{}
		for _, c := range cells {
			series[c.Cell] = c.Series
		}
		loads := map[int]uint{}
		for _, shard := range last.Shards {
			read := last.ReadBy(shard)
			for _, name := range read {
				loads[shard] += series[name]
			}
			require.True(t, loads[shard] <= limit || len(read) == 1, "shard %d has %d series of %v", shard, loads[shard], read)
		}
		for i, a := range last.Shards {
			for _, b := range last.Shards[i+1:] {
				require.Greater(t, loads[a]+loads[b], uint(limit*60/100), "shards %d and %d", a, b)
			}
		}
	})
}

// One cell more moves nobody. One cell that grows moves as few as can be, which
// is found by trying every set of cells.
func TestPlanMovesTheFewestCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := drawCells(t, 9)
		var previous []cascade.Placement
		for _, c := range cells {
			previous = append(previous, at(c.Cell, 0))
		}
		// Others are full, so that nothing merges.
		for i := range rapid.IntRange(0, 2).Draw(t, "others") {
			other := fmt.Sprintf("other%d", i)
			cells, previous = append(cells, load(other, limit)), append(previous, at(other, i+1))
		}
		now := plan(t, cascade.PlanOptions{MaxSeriesPerShard: limit, Cells: cells, Previous: previous})
		moved := 0
		for _, c := range now.Cells {
			if c.Moving() {
				moved++
			}
		}
		require.Equal(t, fewest(cells, previous), moved, "%v", now.Cells)

		settled := settle(t, cells, previous, limit, 2*len(cells)+3)
		more := append(slices.Clone(cells), load("new", rapid.UintRange(0, limit).Draw(t, "new")))
		now = plan(t, cascade.PlanOptions{MaxSeriesPerShard: limit, Cells: more, Previous: settled.Cells})
		for i, c := range settled.Cells {
			at := slices.IndexFunc(now.Cells, func(other cascade.Placement) bool { return other.Cell == c.Cell })
			require.Equal(t, c.Shard, now.Cells[at].Shard)
			require.Equal(t, settled.Cells[i], now.Cells[at], "a new cell moved another")
		}
	})
}

// fewest is the size of the smallest set of the cells on shard 0 without which
// it is within the limit, or left with one cell.
func fewest(cells []cascade.Load, previous []cascade.Placement) int {
	var loads []uint
	for i, c := range cells {
		if previous[i].Shard == 0 {
			loads = append(loads, c.Series)
		}
	}
	best := len(loads)
	for stay := range 1 << len(loads) {
		var sum uint
		for i, l := range loads {
			if stay&(1<<i) != 0 {
				sum += l
			}
		}
		if kept := bits.OnesCount(uint(stay)); sum <= limit || kept == 1 {
			best = min(best, len(loads)-kept)
		}
	}
	return best
}

// What the status says may be anything: it never keeps a cell from being read.
func TestPlanOutlivesAnyPlanBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := drawCells(t, 6)
		names := []string{"", "gone", "c00", "c01", "c02", "c03"}
		shard := rapid.SampledFrom([]int{-1 << 62, -1, 0, 1, 2, 999, 1000, 1 << 62})
		var previous []cascade.Placement
		for range rapid.IntRange(0, 10).Draw(t, "placements") {
			previous = append(previous, moving(rapid.SampledFrom(names).Draw(t, "cell"), shard.Draw(t, "shard"), shard.Draw(t, "next")))
		}
		now := plan(t, cascade.PlanOptions{MaxSeriesPerShard: limit, Cells: cells, Previous: previous})
		require.Len(t, now.Cells, len(cells))
		for i, c := range now.Cells {
			require.Equal(t, cells[i].Cell, c.Cell)
			require.Contains(t, now.Shards, c.Shard)
			require.Contains(t, now.Shards, c.Next)
		}
	})
}
