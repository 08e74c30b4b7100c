package federation

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
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
// other one is away, it has to hear the whole plan.
func TestACentralIsWellByWhatItHearsSince(t *testing.T) {
	now := time.Now()
	since := now.Add(-time.Minute)
	f := &v1alpha1.Federation{Status: v1alpha1.FederationStatus{Geographies: []v1alpha1.GeographyStatus{
		{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "asia-1", EdgeShards: 1}, {Name: "asia-2"}}},
	}}}
	before, after, longAgo := since.Add(-time.Second), since.Add(20*time.Second), now.Add(-4*time.Minute)
	both := map[string]time.Time{"asia-1": after, "asia-2": after}
	for _, c := range []struct {
		name         string
		heard, other map[string]time.Time
		lacks        string
	}{
		{"it hears all", both, both, ""},
		{"it heard a cell before alone", map[string]time.Time{"asia-1": before, "asia-2": after}, both, `["asia-1"]`},
		{"in the very second", map[string]time.Time{"asia-1": since.Add(time.Second / 2), "asia-2": after}, both, `["asia-1"]`},
		{"it hears nothing", nil, both, `["asia-1" "asia-2"]`},
		{"a cell is lost to both", map[string]time.Time{"asia-1": after}, map[string]time.Time{"asia-1": after, "asia-2": longAgo}, ""},
		{"a cell has left the fleet", both, map[string]time.Time{"asia-1": after, "asia-3": after}, ""},
		{"the other is away, and it hears all", both, nil, ""},
		{"the other is away", map[string]time.Time{"asia-1": after}, nil, `["asia-2"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEars(slog.New(slog.DiscardHandler))
			asked := turn{asked: &informant{asker: &running{loaded: promapi.Loaded{Since: since}, evaluated: now, heard: c.heard}}}
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
