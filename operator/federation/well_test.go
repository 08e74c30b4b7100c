package federation

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// While changes come more quickly than they are taken up, the second central follows
// all the same, one behind the other.
func TestTheSecondCentralIsNotLeftBehind(t *testing.T) {
	for _, c := range []struct {
		name               string
		has, wanted, given marked
		held               bool
	}{
		{"it has the newest", marked{3, "c"}, marked{3, "c"}, marked{1, "a"}, false},
		{"it has what the second has, and is to get more", marked{1, "a"}, marked{2, "b"}, marked{1, "a"}, true},
		{"it has more than the second, and is to get still more", marked{2, "b"}, marked{3, "c"}, marked{1, "a"}, false},
		{"the second was down and was given more than it has", marked{1, "a"}, marked{3, "c"}, marked{2, "b"}, true},
		{"what the second was given is not known", marked{2, "b"}, marked{3, "c"}, marked{}, true},
		{"it is from before there were marks", marked{}, marked{1, "a"}, marked{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEars(slog.New(slog.DiscardHandler))
			first := &running{loaded: promapi.Loaded{Config: c.has.file()}, evaluated: time.Now()}
			lack, err := e.lacks(t.Context(), &v1alpha1.Federation{}, turn{asked: &informant{asker: first}, wanted: c.wanted, above: c.given})
			require.NoError(t, err)
			require.Equal(t, c.held, !lack.Nothing(), lack)
		})
	}
}

// What a central heard before it loaded its files says nothing of them. What it has to
// hear is what the other hears; of cells that are lost to both nothing is asked. Where the
// other one is away, it has to hear what it heard before, or else the whole plan.
func TestACentralIsWellByWhatItHearsSince(t *testing.T) {
	now := time.Now()
	since := now.Add(-time.Minute)
	f := &v1alpha1.Federation{Status: v1alpha1.FederationStatus{Geographies: []v1alpha1.GeographyStatus{
		{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "asia-1", EdgeShards: 1}, {Name: "asia-2"}}},
	}}}
	before, after, longAgo := since.Add(-time.Second), since.Add(20*time.Second), now.Add(-4*time.Minute)
	both := map[string]time.Time{"asia-1": after, "asia-2": after}
	for _, c := range []struct {
		name                 string
		heard, other, before map[string]time.Time
		lacks                string
	}{
		{"it hears all", both, both, nil, ""},
		{"it heard a cell before alone", map[string]time.Time{"asia-1": before, "asia-2": after}, both, nil, `["asia-1"]`},
		{"in the very second", map[string]time.Time{"asia-1": since.Add(time.Second / 2), "asia-2": after}, both, nil, `["asia-1"]`},
		{"it hears nothing", nil, both, nil, `["asia-1" "asia-2"]`},
		{"a cell is lost to both", map[string]time.Time{"asia-1": after}, map[string]time.Time{"asia-1": after, "asia-2": longAgo}, nil, ""},
		{"a cell has left the fleet", both, map[string]time.Time{"asia-1": after, "asia-3": after}, nil, ""},
		{"the other is away, and it hears all", both, nil, nil, ""},
		{"the other is away", map[string]time.Time{"asia-1": after}, nil, map[string]time.Time{"asia-1": before, "asia-2": before}, `["asia-2"]`},
		{"the other is away, and a cell was missing before", map[string]time.Time{"asia-1": after}, nil, map[string]time.Time{"asia-1": before, "asia-2": longAgo}, ""},
		{"the other is away, and it heard nothing before", map[string]time.Time{"asia-1": after}, nil, map[string]time.Time{}, `["asia-2"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEars(slog.New(slog.DiscardHandler))
			asked := turn{asked: &informant{asker: &running{loaded: promapi.Loaded{Since: since}, evaluated: now, heard: c.heard, before: c.before}}}
			if c.other != nil {
				asked.beside = &informant{asker: &running{heard: c.other}, name: "central-b"}
			}
			lack, err := e.lacks(t.Context(), f, asked)
			require.NoError(t, err)
			if c.lacks == "" {
				require.True(t, lack.Nothing(), lack)
			} else {
				require.Contains(t, lack.What, "it has not heard of Cells "+c.lacks)
			}
		})
	}
}

// counting is a central that counts the questions put to it.
type counting struct {
	running
	asked int
}

func (c *counting) Samples(ctx context.Context, query string, at time.Time) (promapi.Answer, error) {
	c.asked++
	return c.running.Samples(ctx, query, at)
}

// All cascades are asked for at once. One that has run for long is not asked for what was
// heard of it before it did: what is lost since then holds nothing.
func TestALongRowIsAskedForAtOnce(t *testing.T) {
	now := time.Now()
	f := &v1alpha1.Federation{Status: v1alpha1.FederationStatus{Geographies: []v1alpha1.GeographyStatus{
		{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "asia-1"}}}, {Name: "europe"}, {Name: "africa"},
	}}}
	central := &counting{running: running{cascades: map[string]*passing{}}}
	for _, g := range f.Status.Geographies {
		central.cascades[g.Name] = &passing{beat: now.Add(-10 * time.Second)}
	}
	e := newEars(slog.New(slog.DiscardHandler))
	e.connect = func(string) (asker, error) { return central, nil }
	lacks := func(age time.Duration) (all []string) {
		since := now.Add(-age)
		central.cascades["asia"].cells = map[string][]time.Time{"asia-1": {since.Add(-10 * time.Second)}}
		look := map[string]*rowTold{}
		for _, name := range []string{"cascade-asia-0", "cascade-europe-0", "cascade-africa-0"} {
			seen := workload.Observation{Serving: map[string]string{"central-a": "127.0.0.1:9090"}, Since: map[string]time.Time{name: since}}
			lack, err := e.unheard(t.Context(), f, name, seen, look)
			require.NoError(t, err)
			if !lack.Nothing() {
				all = append(all, lack.What)
			}
		}
		return all
	}
	require.Equal(t, []string{`central-a has not heard of Cells ["asia-1"] from cascade-asia-0 since its pod was made, and did before`}, lacks(10*time.Minute))
	central.asked = 0
	require.Empty(t, lacks(2*time.Hour))
	require.Equal(t, 2, central.asked)
}
