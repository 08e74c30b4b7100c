package federation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// shown is a geography as a table says it: its shards, and what reads each cell; a star
// is a cell that counts elsewhere.
func shown(f *v1alpha1.Federation, geography string) string {
	var out []string
	for _, g := range f.Status.Geographies {
		if g.Name != geography {
			continue
		}
		for _, c := range g.Cells {
			star := ""
			if c.Reading == v1alpha1.ReadingBeside {
				star = "*"
			}
			out = append(out, c.Name+star)
		}
	}
	return strings.Join(out, " ")
}

// look is one look of the operator, which is also what runs and what the centrals expect.
func look(t *testing.T, f *v1alpha1.Federation, cells []v1alpha1.Cell, heard map[string]crossed) Rendered {
	t.Helper()
	layouts, err := Plan(f, cells, Heard{Crossed: heard})
	require.NoError(t, err)
	f.Status.Geographies = Status(f, cells, layouts, Heard{})
	r, err := Render(f, cells, layouts, "pharos-system", nil)
	require.NoError(t, err)
	requireCountedOnce(t, r, cells)
	return r
}

// requireCountedOnce asks of what is rendered that both centrals expect each cell of one
// geography, a cascade of which reads it under that name.
func requireCountedOnce(t *testing.T, r Rendered, cells []v1alpha1.Cell) {
	t.Helper()
	for _, c := range cells {
		for _, name := range []string{"central-a", "central-b"} {
			places := expectedAs(string(r.Files[name][rules.TopologyFileName]), "fleet:edge_expected:info", c.Name)
			require.Len(t, places, 1, "%s expects %s once", name, c.Name)
			require.True(t, slices.ContainsFunc(readers(r, c.Name), func(cascade string) bool {
				return strings.HasPrefix(cascade, "cascade-"+places[0]+"-")
			}), "%s waits for %s of %s, and %v read it", name, c.Name, places[0], readers(r, c.Name))
		}
	}
}

// expectedAs are the geographies under which a topology names a cell.
func expectedAs(topology, record, cell string) []string {
	var out []string
	for rule := range strings.SplitSeq(topology, "- record: ") {
		_, geography, _ := strings.Cut(rule, "geography: ")
		geography, _, _ = strings.Cut(geography, "\n")
		if strings.HasPrefix(rule, record) && strings.Contains(rule, "cell: "+cell+"\n") {
			out = append(out, geography)
		}
	}
	return out
}

// readers are the cascades that read a cell.
func readers(r Rendered, cell string) []string {
	var out []string
	for name, files := range r.Files {
		if strings.HasPrefix(name, "cascade-") && strings.Contains(string(files["targets-0-of-1.yaml"]), "cell: "+cell+"\n") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// A cell that names another geography goes there in steps: both read it, and its sums are
// the old one's until both centrals have heard it from the new one, the new one's from
// then on; the old one lets go when both centrals say so.
func TestACellGoesToAnotherGeography(t *testing.T) {
	f := fleetOf()
	f.Spec.Geographies = []v1alpha1.Geography{{Name: "asia"}, {Name: "europe"}}
	cells := []v1alpha1.Cell{readable("asia", "a"), readable("asia", "b"), readable("europe", "e")}
	look(t, f, cells, nil)
	require.Equal(t, []string{"a b", "e"}, []string{shown(f, "asia"), shown(f, "europe")})

	cells[1].Spec.Geography = "europe"
	yes, unheard := map[string]crossed{"b": {ready: true, expected: true}}, map[string]crossed{"b": {expected: true}}
	for range 2 { // nothing goes on by itself
		r := look(t, f, cells, unheard)
		require.Equal(t, []string{"a b", "b* e"}, []string{shown(f, "asia"), shown(f, "europe")})
		require.Equal(t, []string{"cascade-asia-0", "cascade-europe-0"}, readers(r, "b"))
		require.Equal(t, []string{"asia"}, expectedAs(string(r.Files["central-a"][rules.TopologyFileName]), "fleet:edge_expected:info", "b"))
	}
	require.True(t, changing(f))
	require.Contains(t, geography(f, "europe").Message, `cell "b" comes from geography "asia"`)
	require.Equal(t, []string{`Cell "b" goes from geography asia to europe, whose cascades read it both; wait until both centrals have had six heartbeats of the cell with geography="europe"`}, Crossings(f, cells))

	for _, heard := range []map[string]crossed{yes, {"b": {ready: true}}} {
		r := look(t, f, cells, heard)
		require.Equal(t, []string{"a b*", "b e"}, []string{shown(f, "asia"), shown(f, "europe")})
		require.Equal(t, []string{"europe"}, expectedAs(string(r.Files["central-b"][rules.TopologyFileName]), "fleet:edge_expected:info", "b"))
	}
	require.Contains(t, geography(f, "europe").Message, `cell "b" counts here and no more in geography "asia"`)
	require.Contains(t, Crossings(f, cells)[0], "expect it in europe alone")

	r := look(t, f, cells, yes)
	require.Equal(t, []string{"a", "b e"}, []string{shown(f, "asia"), shown(f, "europe")})
	require.Equal(t, []string{"cascade-europe-0"}, readers(r, "b"))
	require.False(t, changing(f))
}

// A cell that no geography hears changes its place in the sums, which lack it either way, at
// once: a geography that is renamed with a dead cell in it would stay for ever.
func TestACellThatNobodyHearsGoesAtOnce(t *testing.T) {
	f := fleetOf()
	f.Spec.Geographies = []v1alpha1.Geography{{Name: "asia"}, {Name: "europe"}}
	cells := []v1alpha1.Cell{readable("asia", "a"), readable("asia", "b")}
	look(t, f, cells, nil)
	cells[1].Spec.Geography = "europe"
	look(t, f, cells, nil)
	notes, held := notThere(f, cells)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], `Cell "b" goes from geography asia to europe`)
	require.Equal(t, workload.Holds{{Server: "b", Reason: workload.HeldUnheard}}, held)

	look(t, f, cells, map[string]crossed{"b": {expected: true, silent: true}})
	require.Equal(t, []string{"a b*", "b"}, []string{shown(f, "asia"), shown(f, "europe")})
	_, held = notThere(f, cells)
	require.Equal(t, workload.Holds{{Server: "b", Reason: workload.HeldUnloaded}}, held)
	look(t, f, cells, map[string]crossed{"b": {expected: true, silent: true}})
	require.Equal(t, []string{"a", "b"}, []string{shown(f, "asia"), shown(f, "europe")})
	notes, held = notThere(f, cells)
	require.Empty(t, notes)
	require.Empty(t, held)
}

// A whole geography is no list of names.
func TestManyCellsBetweenGeographiesAreCounted(t *testing.T) {
	f := fleetOf(v1alpha1.GeographyStatus{Name: "asia"}, v1alpha1.GeographyStatus{Name: "europe"})
	var cells []v1alpha1.Cell
	for i := range 7 {
		c := readable("europe", fmt.Sprint("c", i))
		cells = append(cells, c)
		f.Status.Geographies[0].Cells = append(f.Status.Geographies[0].Cells, placed(c.Name, 0))
		f.Status.Geographies[1].Cells = append(f.Status.Geographies[1].Cells, v1alpha1.CellPlacement{Name: c.Name, Reading: v1alpha1.ReadingBeside})
	}
	notes, held := notThere(f, cells)
	require.Len(t, notes, 6)
	require.Equal(t, "2 cells more change their geography", notes[5])
	require.Len(t, held, 7)
}

// Whoever takes the change back goes back the same way, from each step.
func TestACellThatGoesIsCalledBack(t *testing.T) {
	yes := map[string]crossed{"b": {ready: true, expected: true}}
	for steps := range 3 {
		f := fleetOf()
		f.Spec.Geographies = []v1alpha1.Geography{{Name: "asia"}, {Name: "europe"}}
		cells := []v1alpha1.Cell{readable("asia", "a"), readable("asia", "b"), readable("europe", "e")}
		look(t, f, cells, nil)
		for range steps {
			cells[1].Spec.Geography = "europe"
			look(t, f, cells, yes)
		}
		cells[1].Spec.Geography = "asia"
		for range 4 {
			look(t, f, cells, yes)
		}
		require.Equal(t, []string{"a b", "e"}, []string{shown(f, "asia"), shown(f, "europe")}, steps)
	}
}

// A geography that is renamed is a new one that all cells of the old one go to. The
// old one's cascades read on until both centrals have heard all of them from the new one.
func TestAGeographyIsRenamed(t *testing.T) {
	f := fleetOf()
	f.Spec.Geographies = []v1alpha1.Geography{{Name: "asia"}, {Name: "europe"}}
	cells := []v1alpha1.Cell{readable("asia", "a"), readable("asia", "b"), readable("europe", "e")}
	look(t, f, cells, nil)

	f.Spec.Geographies[0].Name = "apac"
	hold, problem := homeless(f, cells)
	require.True(t, hold, "until the cells are renamed, nothing is changed")
	require.ErrorContains(t, problem, `lacks "asia" of Cells ["a" "b"]`)

	cells[0].Spec.Geography, cells[1].Spec.Geography = "apac", "apac"
	r := look(t, f, cells, nil)
	require.Equal(t, []string{"a b", "a* b*", "e"}, []string{shown(f, "asia"), shown(f, "apac"), shown(f, "europe")})
	require.Equal(t, []string{"cascade-apac-0", "cascade-asia-0"}, readers(r, "a"))

	// One of both is heard from there, and counts there; the other not yet.
	look(t, f, cells, map[string]crossed{"a": {ready: true, expected: true}})
	require.Equal(t, []string{"a* b", "a b*"}, []string{shown(f, "asia"), shown(f, "apac")})

	yes := map[string]crossed{"a": {ready: true, expected: true}, "b": {ready: true, expected: true}}
	look(t, f, cells, yes)
	r = look(t, f, cells, yes)
	require.Equal(t, []string{"", "a b"}, []string{shown(f, "asia"), shown(f, "apac")})
	require.Equal(t, []string{"cascade-apac-0"}, readers(r, "a"))
	require.NotContains(t, string(r.Files["central-a"][rules.TopologyFileName]), "asia")
}

// A plan that was found again does not say which of two geographies counts the cell.
func TestACrossingIsFoundAgain(t *testing.T) {
	f := fleetOf(v1alpha1.GeographyStatus{Name: "asia", Cells: []v1alpha1.CellPlacement{placed("b", 0)}}, v1alpha1.GeographyStatus{Name: "europe", Cells: []v1alpha1.CellPlacement{placed("b", 0)}})
	f.Spec.Geographies = []v1alpha1.Geography{{Name: "asia"}, {Name: "europe"}}
	for want, other := range map[string]string{"asia": "europe", "europe": "asia"} {
		cells := []v1alpha1.Cell{readable(want, "b")}
		require.Equal(t, map[string]crossing{"b": {other, want}}, crossings(f, cells))
	}
}

// voice is a central that answers one question after the other.
type voice struct {
	answers [][]promapi.Sample
	err     error
	asked   []string
}

func (v *voice) Loaded(context.Context) (promapi.Loaded, error) { return promapi.Loaded{}, nil }

func (v *voice) Samples(_ context.Context, query string, _ time.Time) (promapi.Answer, error) {
	v.asked = append(v.asked, query)
	return promapi.Answer{Samples: v.answers[len(v.asked)-1]}, v.err
}

// A cell is ready when both centrals have heard it often enough under its new name, from
// the shard that has it, and is expected when both say so and nothing else.
func TestWhatCentralsSayOfACellThatGoes(t *testing.T) {
	beats := func(geography, shard string, times float64) promapi.Sample {
		return promapi.Sample{Value: times, Labels: map[string]string{"cell": "b", "geography": geography, "cascade_shard": shard, "edge_shard": "0"}}
	}
	waits := func(geographies ...string) (out []promapi.Sample) {
		for _, g := range geographies {
			out = append(out, promapi.Sample{Value: 1, Labels: map[string]string{"cell": "b", "geography": g, "edge_shard": "0"}})
		}
		return out
	}
	b, both := promapi.Sample{Value: 1, Labels: map[string]string{"cell": "b"}}, []promapi.Sample{beats("asia", "0", 6), beats("europe", "1", 6)}
	well := [][]promapi.Sample{{beats("asia", "0", 9), beats("europe", "1", 6)}, waits("asia"), {b}, both}
	silent := [][]promapi.Sample{nil, waits("asia"), nil, both}
	for name, tc := range map[string]struct {
		first, other [][]promapi.Sample
		err          error
		want         crossed
	}{
		"both have heard it":                       {well, well, nil, crossed{true, true, false}},
		"one has heard it too seldom":              {well, [][]promapi.Sample{{beats("europe", "1", 5)}, waits("asia"), {b}, both}, nil, crossed{false, true, false}},
		"one has heard another shard":              {well, [][]promapi.Sample{{beats("europe", "0", 9)}, waits("asia"), {b}, both}, nil, crossed{false, true, false}},
		"one has heard the old name":               {well, [][]promapi.Sample{{beats("asia", "1", 9)}, waits("asia"), {b}, both}, nil, crossed{false, true, false}},
		"one expects it elsewhere":                 {well, [][]promapi.Sample{well[0], waits("europe"), {b}, both}, nil, crossed{true, false, false}},
		"one expects it twice":                     {well, [][]promapi.Sample{well[0], waits("asia", "europe"), {b}, both}, nil, crossed{true, false, false}},
		"one expects it nowhere":                   {well, [][]promapi.Sample{well[0], nil, {b}, both}, nil, crossed{true, false, false}},
		"neither has heard it anywhere":            {silent, silent, nil, crossed{false, true, true}},
		"one has heard it within the hour":         {silent, [][]promapi.Sample{nil, waits("asia"), {b}, both}, nil, crossed{false, true, false}},
		"one does not hear the cascade it goes to": {silent, [][]promapi.Sample{nil, waits("asia"), nil, both[:1]}, nil, crossed{false, true, false}},
		"one does not hear the cascade it is in":   {silent, [][]promapi.Sample{nil, waits("asia"), nil, {beats("asia", "0", 5), both[1]}}, nil, crossed{false, true, false}},
		"one does not answer":                      {well, well, errors.New("refused"), crossed{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleetOf(v1alpha1.GeographyStatus{Name: "asia", Cells: []v1alpha1.CellPlacement{placed("b", 0)}},
				v1alpha1.GeographyStatus{Name: "europe", Cells: []v1alpha1.CellPlacement{{Name: "b", Shard: 1, Reading: v1alpha1.ReadingBeside}}})
			e := newEars(slog.New(slog.DiscardHandler))
			first := &voice{answers: tc.first}
			got := e.cross(t.Context(), f, []v1alpha1.Cell{readable("europe", "b")}, []asker{first, &voice{answers: tc.other, err: tc.err}})
			require.Equal(t, tc.want, got["b"])
			require.Contains(t, first.asked[0], `cell:heartbeat:timestamp_seconds{cell=~"b"}[135s]`)
			require.Contains(t, first.asked[2], `cell:heartbeat:timestamp_seconds{cell=~"b"}[3600s]`)
			require.Empty(t, e.cross(t.Context(), f, []v1alpha1.Cell{readable("europe", "b")}, []asker{first}), "one central is not both")
		})
	}
}

// readable is a cell whose edge has an address.
func readable(geography, name string) v1alpha1.Cell {
	c := cellIn(geography, name)
	c.Status.EdgeEndpoints = []string{name + ":9090"}
	return c
}
