package tree_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/operator/tree"
)

// What the remediator reads in the hub is in the tree: each Cell as it is
// described, and nothing that an API server has said of it.
func TestTheTreeHasItsCells(t *testing.T) {
	document := strings.Replace(cellYAML("asia-1", "asia", "a:9090"), "  name: asia-1\n", `  name: asia-1
  labels: {team: north}
  annotations: {why: "say \"so\""}
  uid: 8d0a7c2e-8f0c-4a30-a1e3-4f3f0a0b6a11
  resourceVersion: "7"
`, 1) + "  remediatorKubeconfigSecret: asia-1-remediator\nstatus:\n  edgeEndpoints: [\"old:9090\"]\n"
	made, err := read(t, federation, document)
	written := rendered(t, made, err)["hub/manifests/cell.asia-1.yaml"]
	require.NotEmpty(t, written)
	for _, gone := range []string{"uid", "resourceVersion", "status", "creationTimestamp", "old:9090"} {
		require.NotContains(t, string(written), gone)
	}

	// Read again, it is the Cell that was described.
	dir := lay(t, map[string]string{"f.yaml": federation + "---\n" + document, "again.yaml": federation + "---\n" + string(written)})
	first, err := tree.Read(dir+"/f.yaml", "")
	require.NoError(t, err)
	second, err := tree.Read(dir+"/again.yaml", "")
	require.NoError(t, err)
	require.Equal(t, first.Cells[0].Spec, second.Cells[0].Spec)
	require.Equal(t, first.Cells[0].Labels, second.Cells[0].Labels)
	require.Equal(t, first.Cells[0].Annotations, second.Cells[0].Annotations)
}
