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
	page, err := deploy.Reference("Federation", "Cell")
	require.NoError(t, err)
	file := filepath.Join(testkit.Root(t), "docs", "reference", "federation.md")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), page, "run go generate ./deploy")
	require.Contains(t, page, "- `spec.geographies[].maxSeriesPerShard` (integer from 1000 to 10000000): ")
	require.Contains(t, page, "- `spec.edge.endpoints` (list of string, at most 32): ")
}
