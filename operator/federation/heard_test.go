package federation

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
)

// witness is a central that knows heartbeats and series.
type witness struct {
	beats  map[spot]float64
	series map[string]float64
	// expected are the cascades of asia that it waits for.
	expected []int
	down     bool
	asked    []string
}

func (c *witness) Loaded(context.Context) (promapi.Loaded, error) { return promapi.Loaded{}, nil }

func (c *witness) Samples(_ context.Context, query string, _ time.Time) (promapi.Answer, error) {
	c.asked = append(c.asked, query)
	if c.down {
		return promapi.Answer{}, errors.New("connection refused")
	}
	var a promapi.Answer
	if strings.Contains(query, "cell:heartbeat:timestamp_seconds") && strings.Contains(query, "count_over_time") {
		for b, n := range c.beats {
			a.Samples = append(a.Samples, promapi.Sample{Value: n, Labels: map[string]string{
				"cell": b.cell, "cascade_shard": strconv.Itoa(b.cascade), "edge_shard": strconv.FormatUint(uint64(b.edgeShard), 10),
			}})
		}
		return a, nil
	}
	if query == "fleet:cascade_expected:info" {
		for _, n := range c.expected {
			a.Samples = append(a.Samples, promapi.Sample{Value: 1, Labels: map[string]string{"geography": "asia", "cascade_shard": strconv.Itoa(n)}})
		}
		return a, nil
	}
	for cell, n := range c.series {
		if !strings.Contains(query, `geography="asia"`) {
			break // all of them are there
		}
		a.Samples = append(a.Samples, promapi.Sample{Value: n, Labels: map[string]string{"cell": cell}})
	}
	return a, nil
}

func hearing(centrals map[string]*witness, now *time.Time) *ears {
	e := newEars(slog.New(slog.DiscardHandler))
	e.now = func() time.Time { return *now }
	e.connect = func(address string) (asker, error) { return centrals[address], nil }
	return e
}

func withCentrals(f *v1alpha1.Federation, ready ...string) *v1alpha1.Federation {
	for _, name := range []string{"central-a", "central-b"} {
		part := v1alpha1.PartStatus{Name: name, Desired: 1}
		for _, r := range ready {
			if r == name {
				part.Addresses = []string{name}
			}
		}
		f.Status.Parts = append(f.Status.Parts, part)
	}
	return f
}

// A moving cell is warm when each central has heard each part of it from the
// next shard; silent when none has heard anything. Anything else is unknown.
func TestWhoIsWarm(t *testing.T) {
	part := func(cascade int, edge uint) spot { return spot{cell: "a", cascade: cascade, edgeShard: edge} }
	all := map[spot]float64{part(0, 0): 7, part(0, 1): 7, part(1, 0): 7, part(1, 1): 6}
	for name, tc := range map[string]struct {
		a, b         witness
		ready        []string
		warm, silent bool
	}{
		"both have heard all":          {witness{beats: all}, witness{beats: all}, []string{"central-a", "central-b"}, true, false},
		"one has not heard one part":   {witness{beats: all}, witness{beats: map[spot]float64{part(1, 0): 7}}, []string{"central-a", "central-b"}, false, false},
		"one has heard it too seldom":  {witness{beats: all}, witness{beats: map[spot]float64{part(1, 0): 7, part(1, 1): 5}}, []string{"central-a", "central-b"}, false, false},
		"only the old shard is heard":  {witness{beats: map[spot]float64{part(0, 0): 7, part(0, 1): 7}}, witness{beats: all}, []string{"central-a", "central-b"}, false, false},
		"one does not answer":          {witness{beats: all}, witness{down: true}, []string{"central-a", "central-b"}, false, false},
		"one is not there":             {witness{beats: all}, witness{beats: all}, []string{"central-a"}, false, false},
		"nobody has heard anything":    {witness{}, witness{}, []string{"central-a", "central-b"}, false, true},
		"one has heard something":      {witness{}, witness{beats: map[spot]float64{part(0, 1): 1}}, []string{"central-a", "central-b"}, false, false},
		"other cells are heard":        {witness{beats: map[spot]float64{{cell: "b", cascade: 1, edgeShard: 0}: 7, {cell: "b", cascade: 1, edgeShard: 1}: 7}}, witness{}, []string{"central-a", "central-b"}, false, true},
		"the silence of one is no one": {witness{}, witness{down: true}, []string{"central-a", "central-b"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := withCentrals(fleetOf(v1alpha1.GeographyStatus{Name: "asia", Cells: []v1alpha1.CellPlacement{onTheMove("a", 0, 1), placed("b", 0)}}), tc.ready...)
			a := cellIn("asia", "a")
			a.Spec.Edge.Shards = ptr.To(int32(2))
			now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
			e := hearing(map[string]*witness{"central-a": &tc.a, "central-b": &tc.b}, &now)
			heard := e.listen(t.Context(), f, []v1alpha1.Cell{a, cellIn("asia", "b")}, nil)
			require.Equal(t, tc.warm, heard.Warm["a"])
			require.Equal(t, tc.silent, heard.Silent["a"])
			require.False(t, heard.Warm["b"], "it does not move")
		})
	}
}

// What a cell brings more counts at once, what it brings less after a day.
func TestMeasuring(t *testing.T) {
	f := withCentrals(fleetOf(v1alpha1.GeographyStatus{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "a", Series: 500}}}), "central-b")
	server := &witness{series: map[string]float64{"a": 300}}
	now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	e := hearing(map[string]*witness{"central-b": server}, &now)
	cells := []v1alpha1.Cell{cellIn("asia", "a"), cellIn("asia", "b")}
	measured := func() map[string]uint {
		t.Helper()
		return e.listen(t.Context(), f, cells, nil).Series
	}
	require.Equal(t, map[string]uint{"a": 500}, measured(), "what was known counts for a day")
	require.Len(t, server.asked, 2, "once for each geography")
	require.Contains(t, server.asked[1], `geography="asia"`)

	server.series["a"] = 800
	require.Equal(t, map[string]uint{"a": 500}, measured(), "it is asked every twenty intervals")
	now = now.Add(5 * time.Minute)
	require.Equal(t, map[string]uint{"a": 800}, measured())

	server.series["a"] = 100
	now = now.Add(23 * time.Hour)
	require.Equal(t, map[string]uint{"a": 800}, measured())
	now = now.Add(time.Hour)
	require.Equal(t, map[string]uint{"a": 800}, measured(), "the day before")
	now = now.Add(24 * time.Hour)
	require.Equal(t, map[string]uint{"a": 100}, measured())

	server.down = true
	now = now.Add(time.Hour)
	require.Equal(t, map[string]uint{"a": 100}, measured(), "what cannot be asked is as before")
	require.Empty(t, e.listen(t.Context(), f, nil, nil).Series, "a cell that is gone is forgotten")
}
