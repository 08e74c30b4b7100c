package federation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// askingFor is a cell that asks for so many shards of its edge.
func askingFor(shards int32) *v1alpha1.Cell {
	c := cellIn("asia", "a")
	c.Spec.Edge.Shards = ptr.To(shards)
	return &c
}

// Every row is a moment of a cell; parts that are expected are always whole.
func TestDivide(t *testing.T) {
	external := askingFor(1)
	external.Spec.Edge.Mode = v1alpha1.EdgeExternal
	both := divided{ready: true, expected: true}
	for name, tc := range map[string]struct {
		cell *v1alpha1.Cell
		now  workload.Division
		told divided
		want workload.Division
	}{
		"at rest":                                    {askingFor(2), workload.Division{Shards: 2}, both, workload.Division{Shards: 2}},
		"another is asked for":                       {askingFor(3), workload.Division{Shards: 2}, both, workload.Division{Shards: 2, Beside: 3}},
		"fewer are asked for":                        {askingFor(1), workload.Division{Shards: 2}, divided{}, workload.Division{Shards: 2, Beside: 1}},
		"nobody says that it is ready":               {askingFor(3), workload.Division{Shards: 2, Beside: 3}, divided{expected: true}, workload.Division{Shards: 2, Beside: 3}},
		"it is ready":                                {askingFor(3), workload.Division{Shards: 2, Beside: 3}, divided{ready: true}, workload.Division{Shards: 3, Beside: 2}},
		"a central expects the old parts":            {askingFor(3), workload.Division{Shards: 3, Beside: 2}, divided{ready: true}, workload.Division{Shards: 3, Beside: 2}},
		"both expect the new ones":                   {askingFor(3), workload.Division{Shards: 3, Beside: 2}, divided{expected: true}, workload.Division{Shards: 3}},
		"somebody thinks better of it":               {askingFor(2), workload.Division{Shards: 2, Beside: 3}, divided{expected: true}, workload.Division{Shards: 2}},
		"and nobody knows what is expected":          {askingFor(2), workload.Division{Shards: 2, Beside: 3}, divided{ready: true}, workload.Division{Shards: 2, Beside: 3}},
		"a third is asked for: first things first":   {askingFor(4), workload.Division{Shards: 3, Beside: 2}, divided{ready: true}, workload.Division{Shards: 3, Beside: 2}},
		"somebody else's server takes the cell over": {external, workload.Division{Shards: 2, Beside: 3}, divided{}, workload.Division{Shards: 1}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, divide(tc.cell, tc.now, tc.told)) })
	}
}

// onlooker is a central that hears of the cell a: how often of each cluster from each
// part, and the parts that it expects.
type onlooker struct {
	clusters map[string]map[uint]float64
	silent   []uint
	expected []uint
	down     bool
}

func (c *onlooker) Loaded(context.Context) (promapi.Loaded, error) { return promapi.Loaded{}, nil }

func (c *onlooker) Samples(_ context.Context, query string, _ time.Time) (promapi.Answer, error) {
	if c.down {
		return promapi.Answer{}, errors.New("connection refused")
	}
	var a promapi.Answer
	add := func(cluster string, part uint, value float64) {
		labels := map[string]string{"cell": "a", "cluster": cluster, "edge_shard": strconv.FormatUint(uint64(part), 10)}
		a.Samples = append(a.Samples, promapi.Sample{Labels: labels, Value: value})
	}
	switch {
	case strings.Contains(query, "fleet:edge_expected:info"):
		for _, part := range c.expected {
			add("", part, 1)
		}
	case strings.Contains(query, "cluster:nodes:count"):
		for cluster, by := range c.clusters {
			for part, times := range by {
				add(cluster, part, times)
			}
		}
	default:
		for part := range uint(3) {
			if len(c.silent) == 0 || c.silent[0] != part {
				add("", part, 9)
			}
		}
	}
	return a, nil
}

// hearsAll hears every cluster from its part by either division.
func hearsAll(t *testing.T, divisions ...uint) *onlooker {
	t.Helper()
	c := &onlooker{clusters: map[string]map[uint]float64{}, expected: []uint{0, 1}}
	for i := range 12 {
		name := fmt.Sprintf("c%d", i)
		c.clusters[name] = map[uint]float64{}
		for _, n := range divisions {
			part, err := edge.ShardOf(name, n)
			require.NoError(t, err)
			c.clusters[name][part] = 9
		}
	}
	return c
}

// An edge goes from two parts to three when both centrals have heard of every
// cluster from where it goes; anything else is unknown.
func TestWhoIsReadyToBeDividedAnew(t *testing.T) {
	but := func(c *onlooker, change func(*onlooker)) *onlooker { change(c); return c }
	moved := "c0"
	for i := range 12 {
		name := fmt.Sprintf("c%d", i)
		before, _ := edge.ShardOf(name, 2)
		after, _ := edge.ShardOf(name, 3)
		if before != after && after != 2 {
			moved = name // from one part that there was to another
		}
	}
	at, err := edge.ShardOf(moved, 3)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		a, b            *onlooker
		ready, expected bool
	}{
		"both hear all":                          {hearsAll(t, 2, 3), hearsAll(t, 2, 3), true, true},
		"the new part has no cluster yet":        {hearsAll(t, 2), hearsAll(t, 2, 3), false, true},
		"one cluster is not where it goes":       {hearsAll(t, 2, 3), but(hearsAll(t, 2, 3), func(c *onlooker) { delete(c.clusters[moved], at) }), false, true},
		"or not for long":                        {hearsAll(t, 2, 3), but(hearsAll(t, 2, 3), func(c *onlooker) { c.clusters[moved][at] = 5 }), false, true},
		"a part is not heard of":                 {hearsAll(t, 2, 3), but(hearsAll(t, 2, 3), func(c *onlooker) { c.silent = []uint{2} }), false, true},
		"nothing is known of any cluster":        {hearsAll(t, 2, 3), &onlooker{expected: []uint{0, 1}}, false, true},
		"one does not answer":                    {hearsAll(t, 2, 3), &onlooker{down: true}, false, false},
		"one expects other parts":                {hearsAll(t, 2, 3), but(hearsAll(t, 2, 3), func(c *onlooker) { c.expected = []uint{0, 1, 2} }), true, false},
		"one expects one part of two":            {but(hearsAll(t, 2, 3), func(c *onlooker) { c.expected = []uint{1} }), hearsAll(t, 2, 3), true, false},
		"one expects none: its rules are not in": {but(hearsAll(t, 2, 3), func(c *onlooker) { c.expected = nil }), hearsAll(t, 2, 3), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := withCentrals(fleetOf(v1alpha1.GeographyStatus{Name: "asia", Cells: []v1alpha1.CellPlacement{
				{Name: "a", EdgeShards: 2, EdgeShardsBeside: ptr.To(int32(3))}, {Name: "b", EdgeShards: 1},
			}}), "central-a", "central-b")
			require.True(t, changing(f))
			now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
			e := hearing(nil, &now)
			e.measured = now
			e.connect = func(address string) (asker, error) {
				return map[string]asker{"central-a": tc.a, "central-b": tc.b}[address], nil
			}
			heard := e.listen(t.Context(), f, []v1alpha1.Cell{*askingFor(3), cellIn("asia", "b")}, nil)
			require.Equal(t, divided{tc.ready, tc.expected}, heard.Divided["a"])
			require.NotContains(t, heard.Divided, "b")
		})
	}
}

// The status keeps how far a cell has come, and everything is rendered from that.
func TestADivisionIsKeptInTheStatus(t *testing.T) {
	f := fleetOf()
	cells := []v1alpha1.Cell{*askingFor(1)}
	next := func(told divided) v1alpha1.CellPlacement {
		t.Helper()
		heard := Heard{Divided: map[string]divided{"a": told}}
		layouts, err := Plan(f, cells, heard)
		require.NoError(t, err)
		f.Status.Geographies = Status(f, cells, layouts, heard)
		return f.Status.Geographies[0].Cells[0]
	}
	require.Equal(t, v1alpha1.CellPlacement{Name: "a", EdgeShards: 1}, next(divided{}), "a new cell has what it asks for")
	cells = []v1alpha1.Cell{*askingFor(2)}
	require.Equal(t, v1alpha1.CellPlacement{Name: "a", EdgeShards: 1, EdgeShardsBeside: ptr.To(int32(2))}, next(divided{}))
	require.Len(t, workload.EdgeServers(f, &cells[0]), 2, "the new server is there")
	require.Equal(t, v1alpha1.CellPlacement{Name: "a", EdgeShards: 2, EdgeShardsBeside: ptr.To(int32(1))}, next(divided{ready: true}))
	require.Equal(t, v1alpha1.CellPlacement{Name: "a", EdgeShards: 2}, next(divided{expected: true}))
	require.False(t, changing(f))
}
