package workload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func TestRetentionCoversWhatRulesRead(t *testing.T) {
	for name, tc := range map[string]struct {
		all, edges, want string
		refused          []string
	}{
		"nothing said":       {"", "", "48h", nil},
		"as everybody":       {"3d", "", "3d", nil},
		"as little as works": {"26h", "", "26h", nil},
		"an edge's own":      {"26h", "2w", "2w", nil},
		"too little": {"25h", "", "25h", []string{
			"Federation fleet: spec.retention is 1d1h, and the rules of each edge look back over 1d", "Make it 1d2h at least", "of each central look back over 1d",
		}},
		"too little of an edge": {"2w", "1d", "1d", []string{"spec.edge.retention is 1d, and the rules of each edge look back over 1d"}},
		// Its forecasts would never have the day that they compare with.
		"too little of a central": {"12h", "48h", "48h", []string{"spec.retention is 12h, and the rules of each central look back over 1d"}},
		"too little of a cascade": {"1h", "48h", "48h", []string{"of each cascade look back over 15m", "Make it 2h15m at least", "of each central look back"}},
		"no duration":             {"x", "", "x", []string{"spec.retention:"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &v1alpha1.Federation{}
			f.Name, f.Spec.Retention, f.Spec.Edge.Retention = "fleet", tc.all, tc.edges
			require.Equal(t, tc.want, EdgeRetention(f))
			err := CheckRetention(f)
			if tc.refused == nil {
				require.NoError(t, err)
			}
			for _, refused := range tc.refused {
				require.ErrorContains(t, err, refused)
			}
		})
	}
}
