package workload

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/rules"
)

// A team's alert over a week would never have its week where two days are kept.
func TestRetentionCoversWhatATeamsRulesRead(t *testing.T) {
	contract := rules.Contract{}.WithOwn(map[rules.Tier]map[string][]byte{
		rules.Edge:    {"slow.rules.yaml": own("rate(x[1h])", "max_over_time(x[1d:5m] offset 1h)")},
		rules.Central: {"slo.rules.yaml": own("avg_over_time(y[46h])", "y", "avg_over_time(y[7d]) > 1")},
	})
	f := &v1alpha1.Federation{}
	f.Name = "fleet"
	require.NoError(t, CheckOwnWindows(f, nil))
	require.EqualError(t, CheckOwnWindows(f, &contract), "central/slo.rules.yaml:9: looks back over 1w, and spec.retention of Federation fleet is 2d: "+
		"a rule that reads so much would never have it all. Make it 7d2h at least, which is as much and a block of samples, or read less")
	f.Spec.Retention, f.Spec.Edge.Retention = "170h", "26h"
	require.EqualError(t, CheckOwnWindows(f, &contract), "edge/slow.rules.yaml:7: looks back over 1d1h, and spec.edge.retention of Federation fleet is 1d2h: "+
		"a rule that reads so much would never have it all. Make it 1d3h at least, which is as much and a block of samples, or read less")
	f.Spec.Edge.Retention = "27h"
	require.NoError(t, CheckOwnWindows(f, &contract))
	f.Spec.IntervalSeconds = ptr.To[int32](40)
	contract = contract.WithOwn(map[rules.Tier]map[string][]byte{rules.Edge: {"quick.rules.yaml": own("rate(x[160s])", "rate(x[159s])")}})
	require.EqualError(t, CheckOwnWindows(f, &contract), "edge/quick.rules.yaml:7: looks back over 2m39s, which must hold 4 intervals of 40s, "+
		"or it is empty now and then and nobody sees that; look back over 2m40s at least")
}

// own is a rule file that records expressions.
func own(exprs ...string) []byte {
	file := "groups:\n  - name: own\n    rules:\n"
	for i, expr := range exprs {
		file += fmt.Sprintf("      - record: own:r%d:x\n        expr: %s\n", i, expr)
	}
	return []byte(file)
}

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
