package cascade_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
)

func at(cell string, shard int) cascade.Placement {
	return cascade.Placement{Cell: cell, Shard: shard, Next: shard}
}

func moving(cell string, from, to int) cascade.Placement {
	return cascade.Placement{Cell: cell, Shard: from, Next: to}
}

func load(cell string, series uint) cascade.Load { return cascade.Load{Cell: cell, Series: series} }

func plan(t require.TestingT, o cascade.PlanOptions) cascade.Layout {
	l, err := cascade.Plan(o)
	require.NoError(t, err)
	return l
}

// Every row has a limit of 100 series.
func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		given    cascade.PlanOptions
		shards   []int
		cells    []cascade.Placement
		changes  []string
		warnings []string
	}{
		"no cell": {shards: []int{0}},
		"one cell": {
			given:  cascade.PlanOptions{Cells: []cascade.Load{load("a", 5)}},
			shards: []int{0}, cells: []cascade.Placement{at("a", 0)},
			changes: []string{`cell "a" is new on shard 0, with 5 series`},
		},
		"by name, up to four fifths, when nothing is known": {
			given:  cascade.PlanOptions{Cells: []cascade.Load{load("d", 40), load("c", 40), load("b", 40), load("a", 40)}},
			shards: []int{0, 1}, cells: []cascade.Placement{at("a", 0), at("b", 0), at("c", 1), at("d", 1)},
		},
		"a new cell moves nobody, and goes where there is most room": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 75), load("b", 70), load("c", 5), load("d", 30)},
				Previous: []cascade.Placement{at("a", 0), at("b", 1)},
			},
			shards: []int{0, 1, 2}, cells: []cascade.Placement{at("a", 0), at("b", 1), at("c", 1), at("d", 2)},
			changes: []string{`cell "c" is new on shard 1, with 5 series`, `cell "d" is new on shard 2, with 30 series`},
		},
		"at the limit nothing moves": {
			given: cascade.PlanOptions{
				Cells: []cascade.Load{load("a", 50), load("b", 50)}, Previous: []cascade.Placement{at("a", 0), at("b", 0)},
			},
			shards: []int{0}, cells: []cascade.Placement{at("a", 0), at("b", 0)},
		},
		"a split reads the moved cell twice": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 30), load("b", 45), load("c", 30)},
				Previous: []cascade.Placement{at("a", 0), at("b", 0), at("c", 0)},
			},
			shards: []int{0, 1}, cells: []cascade.Placement{at("a", 0), moving("b", 0, 1), at("c", 0)},
			changes: []string{`cell "b" moves from shard 0 to shard 1: shard 0 has 105 series, more than 100`},
		},
		"until the new shard is warm": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 30), load("b", 45), load("c", 30)},
				Previous: []cascade.Placement{at("a", 0), moving("b", 0, 1), at("c", 0)},
				Warm:     map[string]bool{"a": true, "b": false},
			},
			shards: []int{0, 1}, cells: []cascade.Placement{at("a", 0), moving("b", 0, 1), at("c", 0)},
		},
		"and then once": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 30), load("b", 45), load("c", 30)},
				Previous: []cascade.Placement{at("a", 0), moving("b", 0, 1), at("c", 0)},
				Warm:     map[string]bool{"b": true},
			},
			shards: []int{0, 1}, cells: []cascade.Placement{at("a", 0), at("b", 1), at("c", 0)},
			changes: []string{`cell "b" has moved from shard 0 to shard 1, which has its heartbeats`},
		},
		"a split fills a shard that has room before it makes another": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 60), load("b", 50), load("c", 25), load("d", 70)},
				Previous: []cascade.Placement{at("a", 0), at("b", 0), at("c", 1), at("d", 2)},
			},
			shards: []int{0, 1, 2, 3}, cells: []cascade.Placement{moving("a", 0, 3), at("b", 0), at("c", 1), at("d", 2)},
		},
		"one step at a time": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 60), load("b", 60), load("c", 60), load("d", 60), load("e", 5)},
				Previous: []cascade.Placement{at("a", 0), moving("b", 0, 2), at("c", 1), at("d", 1)},
			},
			shards: []int{0, 1, 2}, cells: []cascade.Placement{at("a", 0), moving("b", 0, 2), at("c", 1), at("d", 1), at("e", 0)},
			changes: []string{`cell "e" is new on shard 0, with 5 series`},
		},
		"a cell that neither shard hears holds up no other": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 60), load("b", 60), load("c", 60), load("d", 60)},
				Previous: []cascade.Placement{at("a", 0), moving("b", 0, 2), at("c", 1), at("d", 1)},
				Silent:   map[string]bool{"b": true},
			},
			shards: []int{0, 1, 2, 3}, cells: []cascade.Placement{at("a", 0), moving("b", 0, 2), moving("c", 1, 3), at("d", 1)},
		},
		"a merge": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 20), load("b", 15), load("c", 25), load("d", 90)},
				Previous: []cascade.Placement{at("a", 0), at("b", 0), at("c", 1), at("d", 2)},
			},
			shards: []int{0, 1, 2}, cells: []cascade.Placement{at("a", 0), at("b", 0), moving("c", 1, 0), at("d", 2)},
			changes: []string{`cell "c" moves from shard 1 to shard 0: together they have 60 series, which one shard can read`},
		},
		"a merge that ends takes the shard away": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 20), load("b", 25)},
				Previous: []cascade.Placement{at("a", 0), moving("b", 1, 0)}, Warm: map[string]bool{"b": true},
			},
			shards: []int{0}, cells: []cascade.Placement{at("a", 0), at("b", 0)},
		},
		"no merge above three fifths": {
			given: cascade.PlanOptions{
				Cells: []cascade.Load{load("a", 30), load("b", 31)}, Previous: []cascade.Placement{at("a", 0), at("b", 1)},
			},
			shards: []int{0, 1}, cells: []cascade.Placement{at("a", 0), at("b", 1)},
		},
		"no shard that cells are leaving takes new ones": {
			given: cascade.PlanOptions{
				Cells:    []cascade.Load{load("a", 70), load("b", 5), load("c", 20)},
				Previous: []cascade.Placement{at("a", 0), moving("b", 1, 0)},
			},
			shards: []int{0, 1, 2}, cells: []cascade.Placement{at("a", 0), moving("b", 1, 0), at("c", 2)},
		},
		"a cell above the limit is alone": {
			given: cascade.PlanOptions{
				Cells: []cascade.Load{load("a", 10), load("huge", 150)}, Previous: []cascade.Placement{at("a", 0), at("huge", 0)},
			},
			shards: []int{0, 1}, cells: []cascade.Placement{at("a", 0), moving("huge", 0, 1)},
			warnings: []string{`cell "huge" alone has 150 series, more than the 100 of a shard`},
		},
		"and stays where it is alone": {
			given: cascade.PlanOptions{
				Cells: []cascade.Load{load("a", 10), load("huge", 150)}, Previous: []cascade.Placement{at("a", 0), at("huge", 1)},
			},
			shards: []int{0, 1}, cells: []cascade.Placement{at("a", 0), at("huge", 1)},
			warnings: []string{`cell "huge" alone has 150 series`},
		},
		"a cell vanishes while it moves": {
			given: cascade.PlanOptions{
				Cells: []cascade.Load{load("a", 90)}, Previous: []cascade.Placement{at("a", 0), moving("b", 0, 1)},
			},
			shards: []int{0}, cells: []cascade.Placement{at("a", 0)}, changes: []string{`cell "b" is gone from shard 0`},
		},
		"a shard whose last cell vanishes goes": {
			given: cascade.PlanOptions{
				Cells: []cascade.Load{load("b", 90)}, Previous: []cascade.Placement{at("a", 0), at("b", 1)},
			},
			shards: []int{1}, cells: []cascade.Placement{at("b", 1)},
		},
		"the plan before names a shard that nobody has seen": {
			given: cascade.PlanOptions{
				Cells: []cascade.Load{load("a", 90)}, Previous: []cascade.Placement{at("a", 7)},
			},
			shards: []int{7}, cells: []cascade.Placement{at("a", 7)},
		},
		"the plan before cannot be": {
			given: cascade.PlanOptions{
				Cells: []cascade.Load{load("a", 10), load("b", 70), load("c", 15), load("d", 0)},
				Previous: []cascade.Placement{
					at("a", -1), moving("b", 1, 1<<20), at("c", 2), at("c", 1), at("d", 1<<20),
				},
			},
			shards: []int{0, 1}, cells: []cascade.Placement{at("a", 0), at("b", 1), at("c", 1), at("d", 0)},
			warnings: []string{`cell "a" on shard -1`, `moves cell "b" to shard 1048576`, `cell "c" twice: shard 2`, `cell "d" on shard 1048576`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.given.MaxSeriesPerShard = 100
			got := plan(t, tc.given)
			require.Equal(t, tc.shards, got.Shards)
			require.Equal(t, tc.cells, got.Cells)
			if tc.changes != nil {
				require.Equal(t, tc.changes, told(got))
			}
			require.Len(t, got.Warnings, len(tc.warnings), got.Warnings)
			for i, want := range tc.warnings {
				require.Contains(t, got.Warnings[i], want)
			}
		})
	}
}

func told(l cascade.Layout) []string {
	var out []string
	for _, c := range l.Changes {
		out = append(out, c.String())
	}
	return out
}

// There can be a thousand shards. Then cells crowd, and a person is told.
func TestTooManyShards(t *testing.T) {
	var cells []cascade.Load
	for i := range 1002 {
		cells = append(cells, load(fmt.Sprintf("cell-%04d", i), 90))
	}
	l := plan(t, cascade.PlanOptions{MaxSeriesPerShard: 100, Cells: cells})
	require.Len(t, l.Shards, 1000)
	require.Len(t, l.Cells, 1002)
	require.Contains(t, l.Warnings[0], `there are 1000 shards, the most that there can be: shard 0 takes in cell "cell-1000"`)
	require.Contains(t, l.Warnings[2], "shard 0 has 180 series, more than 100, and there is no room for its cells")
}

func TestPlanRefuses(t *testing.T) {
	_, err := cascade.Plan(cascade.PlanOptions{Cells: []cascade.Load{load("a", 1), load("b", 1), load("a", 2)}})
	require.ErrorContains(t, err, `cell "a" is there twice`)
	_, err = cascade.Plan(cascade.PlanOptions{Cells: []cascade.Load{load("", 1)}})
	require.ErrorContains(t, err, "has no name")
}

func TestReadBy(t *testing.T) {
	l := cascade.Layout{Cells: []cascade.Placement{at("a", 0), moving("b", 0, 1), moving("c", 1, 0), at("d", 1)}}
	require.Equal(t, []string{"a", "b", "c"}, l.ReadBy(0))
	require.Equal(t, []string{"b", "c", "d"}, l.ReadBy(1))
	require.Empty(t, l.ReadBy(2))
}

// A geography that changes its name begins anew: nothing is known of its cells.
func TestAnUnknownGeographyIsPlacedByName(t *testing.T) {
	cells := []cascade.Load{load("c", 60_000), load("a", 60_000), load("b", 20_000)}
	first := plan(t, cascade.PlanOptions{Cells: cells})
	require.Equal(t, []cascade.Placement{at("a", 0), at("b", 0), at("c", 1)}, first.Cells)
	slices.Reverse(cells)
	require.Equal(t, first, plan(t, cascade.PlanOptions{Cells: cells}))
}

// A limit that is lowered is reached shard by shard, and raised again it leads
// back to few shards; nobody is ever without a shard.
func TestALimitIsChangedWhileItRuns(t *testing.T) {
	var cells []cascade.Load
	for i := range 40 {
		cells = append(cells, load(fmt.Sprintf("cell-%02d", i), uint(1000+i)))
	}
	now := plan(t, cascade.PlanOptions{Cells: cells})
	require.Equal(t, []int{0}, now.Shards)
	for _, limit := range []uint{15_000, 5_000, 100_000} {
		now = settle(t, cells, now.Cells, limit, 60)
	}
	require.Len(t, now.Shards, 1)
}

// settle carries out one plan after the other until nothing changes any more,
// which must be within so many.
func settle(t require.TestingT, cells []cascade.Load, previous []cascade.Placement, limit uint, within int) cascade.Layout {
	for range within {
		next := plan(t, cascade.PlanOptions{MaxSeriesPerShard: limit, Cells: cells, Previous: previous, Warm: allWarm(cells)})
		if slices.Equal(next.Cells, previous) {
			return next
		}
		previous = next.Cells
	}
	require.Fail(t, "the plan does not settle", "limit %d, %d plans", limit, within)
	return cascade.Layout{}
}

func allWarm(cells []cascade.Load) map[string]bool {
	warm := map[string]bool{}
	for _, c := range cells {
		warm[c.Cell] = true
	}
	return warm
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		var cells []cascade.Load
		for i := range n {
			cells = append(cells, load(fmt.Sprintf("cell-%05d", i), uint(1500+i%1000)))
		}
		settled, err := cascade.Plan(cascade.PlanOptions{Cells: cells})
		require.NoError(b, err)
		b.Run(fmt.Sprintf("settled/cells=%d", n), func(b *testing.B) { benchPlan(b, cascade.PlanOptions{Cells: cells, Previous: settled.Cells}) })
		b.Run(fmt.Sprintf("first/cells=%d", n), func(b *testing.B) { benchPlan(b, cascade.PlanOptions{Cells: cells}) })
		// The limit sinks to a thousandth: every cell wants a shard of its own.
		b.Run(fmt.Sprintf("alone/cells=%d", n), func(b *testing.B) {
			benchPlan(b, cascade.PlanOptions{Cells: cells, Previous: settled.Cells, MaxSeriesPerShard: 100})
		})
	}
}

func benchPlan(b *testing.B, o cascade.PlanOptions) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cascade.Plan(o); err != nil {
			b.Fatal(err)
		}
	}
}
