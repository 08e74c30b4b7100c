package central_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

// fleet is a central of so many cells.
func fleet(cells int) central.Options {
	o := static()
	o.Interval = time.Second
	o.Cells = nil
	for i := range cells {
		o.Cells = append(o.Cells, central.Cell{Geography: o.Geographies[i%2], Region: "r", Name: fmt.Sprintf("cell-%05d", i)})
	}
	return o
}

// Ten thousand cells are what a hub is made for: everything fits into ConfigMaps,
// Prometheus takes it, and a fleet that shrinks again is rendered as it was.
func TestTenThousandCells(t *testing.T) {
	large, err := central.Render(fleet(10_000))
	require.NoError(t, err)
	promcfgtest.Check(t, large)
	expected := 0
	for name, raw := range large {
		require.Less(t, len(raw), 300_000, name)
		if stem, _, ok := rules.PieceOf(name); ok && stem == "topology" {
			expected += bytes.Count(raw, []byte("record: fleet:cell_expected:info\n"))
		}
	}
	require.Equal(t, 10_000, expected)
	small, err := central.Render(fleet(300))
	require.NoError(t, err)
	require.Equal(t, rules.FileNames(rules.Central), rules.RuleFiles(rules.Central, small), "a fleet of ordinary size has one file")
	again, err := central.Render(fleet(300))
	require.NoError(t, err)
	require.Equal(t, small, again)
}

// A central that runs while its topology becomes several files, or one again,
// expects every cell at every moment: no rule that judges by what is expected may
// see fewer cells than there are.
func TestNoCellIsForgottenWhileTheTopologyIsDivided(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, divided := fleet(10), fleet(2_000)
	lay := func(o central.Options) {
		files, err := central.Render(o)
		require.NoError(t, err)
		replace(t, filepath.Join(dir, "etc"), files)
	}
	lay(whole)
	const address = "127.95.3.1:9090"
	testkit.Spawn(t, "prometheus", "--config.file="+filepath.Join(dir, "etc", promcfg.ConfigFile), "--config.auto-reload", "--config.auto-reload-interval=1s",
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	require.NoError(t, err)
	prometheus := v1.NewAPI(client)
	expects := func(cells int) {
		require.Eventually(t, func() bool { return counted(t, prometheus) == float64(cells) }, time.Minute, 200*time.Millisecond)
		time.Sleep(4 * time.Second) // what has ended is marked so after two intervals
		require.InDelta(t, cells, counted(t, prometheus), 0)
	}
	expects(10)
	// A machine that is too busy to load the rules within two intervals leaves a gap that is
	// its own; one that the files cause is there each time.
	var forgotten string
	for range 3 {
		begun := time.Now()
		lay(divided)
		expects(2_000)
		lay(whole)
		expects(10)
		if forgotten = forgottenSince(t, prometheus, begun); forgotten == "" {
			return
		}
		t.Log(forgotten)
	}
	t.Fatal("three times in a row, at last " + forgotten)
}

// forgottenSince names a moment since then at which some of the first ten cells were not
// expected.
func forgottenSince(t *testing.T, prometheus v1.API, begun time.Time) string {
	t.Helper()
	const (
		step  = 100 * time.Millisecond
		first = `count(fleet:cell_expected:info{cell=~"cell-0000."})`
	)
	ended := time.Now()
	result, _, _, err := prometheus.QueryRange(t.Context(), first, v1.Range{Start: begun, End: ended, Step: step})
	require.NoError(t, err)
	values := result.(model.Matrix)[0].Values
	if want := int(ended.Sub(begun)/step) + 1; len(values) != want {
		return fmt.Sprintf("nothing was expected at %d of %d moments", want-len(values), want)
	}
	for _, p := range values {
		if p.Value != 10 {
			return fmt.Sprintf("%s after the change %v of 10 cells were expected", p.Timestamp.Time().Sub(begun), p.Value)
		}
	}
	return ""
}

func counted(t *testing.T, prometheus v1.API) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	result, _, _, err := prometheus.Query(ctx, "count(fleet:cell_expected:info)", time.Now())
	if err != nil || len(result.(model.Vector)) == 0 {
		return 0 // it has just started
	}
	return float64(result.(model.Vector)[0].Value)
}

// replace has the files take the place of those that were there, as a kubelet
// does: old and new are never mixed.
func replace(t *testing.T, dir string, files promcfg.Files) {
	t.Helper()
	next, err := os.MkdirTemp(filepath.Dir(dir), "files-*")
	require.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, os.WriteFile(filepath.Join(next, name), files[name], 0o600))
	}
	require.NoError(t, os.Symlink(next, next+".link"))
	require.NoError(t, os.Rename(next+".link", dir))
}
