package cascade_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/rules"
)

// crowd is a shard with so many cells of a pair each, called in a way that takes
// some writing.
func crowd(cells int) cascade.Options {
	o := options()
	o.Cells = nil
	for i := range cells {
		at := fmt.Sprintf("10.%d.%d", i/256, i%256)
		o.Cells = append(o.Cells, cascade.Cell{
			Name: fmt.Sprintf(`cell-%05d {{ "中国" }}, $1`, i), Region: "asia-east", Shards: 1, Endpoints: []string{at + ".1:9090", at + ".2:9090"},
		})
	}
	return o
}

// The cells of a shard that has too many for one file are read from several, with the
// same labels.
func TestTheTargetsOfACrowdAreInSeveralFiles(t *testing.T) {
	o := crowd(2_000)
	files, err := cascade.Render(o)
	require.NoError(t, err)
	promcfgtest.Check(t, files)
	read := map[string]promcfg.StaticGroup{}
	for name, raw := range files {
		require.Less(t, len(raw), 400_000, name)
		if !strings.HasPrefix(name, "targets-") {
			continue
		}
		var groups []promcfg.StaticGroup
		require.NoError(t, yaml.Unmarshal(raw, &groups))
		for _, g := range groups {
			require.NotContains(t, read, g.Labels["cell"])
			read[g.Labels["cell"]] = g
		}
	}
	require.Len(t, read, len(o.Cells))
	few, err := cascade.Render(crowd(3))
	require.NoError(t, err)
	var groups []promcfg.StaticGroup
	require.NoError(t, yaml.Unmarshal(few["targets-0-of-1.yaml"], &groups))
	require.Len(t, groups, 3)
	for _, g := range groups {
		require.Equal(t, g, read[g.Labels["cell"]])
	}
}

func TestACellMoreChangesItsOwnFiles(t *testing.T) {
	before, err := cascade.Render(crowd(2_000))
	require.NoError(t, err)
	after, err := cascade.Render(crowd(2_001))
	require.NoError(t, err)
	require.Len(t, after, len(before))
	var changed []string
	for name := range after {
		if string(after[name]) != string(before[name]) {
			stem, _, _ := rules.PieceOf(name)
			changed = append(changed, stem)
		}
	}
	require.ElementsMatch(t, []string{"targets", "topology"}, changed)
}

// Prometheus would wait for a file of targets that is not there, and say nothing.
func TestAMissingFileOfTargetsIsRefused(t *testing.T) {
	files, err := cascade.Render(crowd(2_000))
	require.NoError(t, err)
	for name := range files {
		if stem, number, ok := rules.PieceOf(name); ok && stem == "targets" && number == 1 {
			delete(files, name)
		}
	}
	require.ErrorContains(t, promcfg.Validate(files), `file_sd_configs of job "federate-edge" names "targets-1-of-`)
}
