package tree_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// expects are the geographies of which a central that is rendered into a folder expects a
// cell, and reads are the cascades that read its edge.
func expects(t *testing.T, out, cell string) []string {
	t.Helper()
	topology := contents(t, out)["hub/files/central-a/topology.rules.yaml"]
	var geographies []string
	for _, m := range regexp.MustCompile(`record: fleet:cell_expected:info\n[^-]*?cell: `+cell+`\n +geography: (\w+)`).FindAllStringSubmatch(topology, -1) {
		geographies = append(geographies, m[1])
	}
	return geographies
}

func reads(t *testing.T, out, address string) []string {
	t.Helper()
	var cascades []string
	for path, text := range contents(t, out) {
		if strings.HasPrefix(path, "hub/files/cascade-") && strings.HasPrefix(filepath.Base(path), "targets-") && strings.Contains(text, address) {
			cascades = append(cascades, strings.Split(path, "/")[2])
		}
	}
	slices.Sort(cascades)
	return cascades
}

// Whoever renames a geography, with all of its cells, is told of each of them, and takes
// two steps. At no moment does a central expect a cell where no cascade reads it.
func TestARenamedGeographyIsLeftInSteps(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	again(t, out, "", append([]string{told}, sized(nil, 0, 1)...)...)
	require.Equal(t, []string{"asia"}, expects(t, out, "asia-00"))
	require.Equal(t, []string{"cascade-asia-0"}, reads(t, out, "a00:9090"))

	renamed := strings.ReplaceAll(told, "- name: asia\n", "- name: apac\n")
	cells := sized(nil, 0, 1)
	for i := range cells {
		cells[i] = strings.Replace(cells[i], "geography: asia\n", "geography: apac\n", 1)
	}
	documents := append([]string{renamed}, cells...)
	for range 2 { // a render by itself goes no further
		made := again(t, out, "", documents...)
		require.Contains(t, strings.Join(made.Warnings, "\n"), `Cell "asia-00" goes from geography asia to apac, whose cascades read it both; wait until both centrals have had six heartbeats of the cell with geography="apac". It goes on when you deploy this render`)
		require.Equal(t, []string{"asia"}, expects(t, out, "asia-00"))
		require.Equal(t, []string{"cascade-apac-0", "cascade-asia-0"}, reads(t, out, "a00:9090"))
	}
	made := again(t, out, stepOf(t, again(t, out, "", documents...)), documents...)
	require.Contains(t, strings.Join(made.Warnings, "\n"), `Cell "asia-01" counts in geography apac, and a cascade of asia reads it still; wait until both centrals say that they expect it in apac alone`)
	require.Equal(t, []string{"apac"}, expects(t, out, "asia-01"))
	require.Equal(t, []string{"cascade-apac-0", "cascade-asia-0"}, reads(t, out, "a01:9090"))

	made = again(t, out, stepOf(t, made), documents...)
	require.Equal(t, []string{"cascade-apac-0"}, reads(t, out, "a01:9090"))
	require.Contains(t, strings.Join(made.Warnings, "\n"), "cascade-asia-0 reads no cell any more")
	made = again(t, out, stepOf(t, made), documents...)
	require.Empty(t, made.Warnings)
	require.Empty(t, contents(t, out)["hub/manifests/cascade-asia-0.yaml"])
}

// A cell that is renamed before its geography is there is refused where it is written.
func TestACellThatGoesNowhereIsRefused(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	again(t, out, "", append([]string{told}, sized(nil, 0)...)...)
	_, err := tried(t, out, "", told, strings.Replace(sized(nil, 0)[0], "geography: asia\n", "geography: apac\n", 1))
	require.ErrorContains(t, err, `Cell "asia-00": spec.geography: "apac" is none of Federation`)
}
