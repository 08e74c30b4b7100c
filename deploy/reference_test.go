package deploy_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

var update = flag.Bool("update", false, "write the reference page instead of comparing with it")

func TestReferenceIsCurrent(t *testing.T) {
	page := current(t, "federation.md", "Federation", "Cell")
	require.Contains(t, page, "- `spec.geographies[].maxSeriesPerShard` (integer from 1000 to 10000000): ")
	require.Contains(t, page, "- `spec.edge.endpoints` (list of string, at most 32): ")
	page = current(t, "remediation.md", "RemediationPolicy", "FleetDisruptionBudget", "Incident")
	require.Contains(t, page, "- `spec.maxUnavailablePercent` (integer from 1 to 50): ")
}

// current is the page of some kinds, which is in the documentation as it is.
func current(t *testing.T, name string, kinds ...string) string {
	t.Helper()
	page, err := deploy.Reference(kinds...)
	require.NoError(t, err)
	file := filepath.Join(testkit.Root(t), "docs", "reference", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), page, "run go generate ./deploy")
	return page
}
