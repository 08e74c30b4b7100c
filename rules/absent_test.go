package rules_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// TestNothingIsSaidWhereNothingIsKnown evaluates every rule of a tier in a world that
// has none of what rules read, but how long an interval is: without that nothing
// would be fresh, and all be silent for it. What an edge then says is that it is there
// and knows nothing; and no alert is even pending but those about just that.
func TestNothingIsSaidWhereNothingIsKnown(t *testing.T) {
	said := map[rules.Tier][]any{
		rules.Edge: {
			sample(`cell:heartbeat:timestamp_seconds`, 1200),
			sample(`cell:state_known:bool`, 0),
		},
		rules.Cascade: {sample(`cascade:heartbeat:timestamp_seconds`, 1200)},
		rules.Central: {
			sample(`ALERTS{alertname="PharosWatchdog", alertstate="firing", severity="none"}`, 1),
			sample(`ALERTS{alertname="PharosRemediatorAbsent", alertstate="firing", severity="critical"}`, 1),
		},
	}
	for _, tier := range rules.Tiers() {
		t.Run(string(tier), func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Abs(string(tier))
			require.NoError(t, err)
			world := map[string]any{
				"interval":     "1m",
				"input_series": []any{map[string]string{"series": "fleet:interval:seconds", "values": "15x20"}},
				"promql_expr_test": []any{map[string]any{
					"expr":        `{__name__=~".+:.+|ALERTS", __name__!="fleet:interval:seconds"}`,
					"eval_time":   "20m",
					"exp_samples": said[tier],
				}},
			}
			raw, err := yaml.Marshal(map[string]any{
				"rule_files": []string{filepath.Join(files, "*"+rules.FileSuffix)}, "evaluation_interval": "1m", "tests": []any{world},
			})
			require.NoError(t, err)
			test := filepath.Join(t.TempDir(), "absent.test.yaml")
			require.NoError(t, os.WriteFile(test, raw, 0o600))
			promtool(t, "test", "rules", test)
		})
	}
}

func sample(series string, value float64) map[string]any {
	return map[string]any{"labels": series, "value": value}
}
