package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

// TestEveryRuleAsksHowOldIsWhatItIsTold finds what rules of centrals read of other
// tiers at a moment, and asks that they compare its age with the interval: what ended
// without a marker is else believed for the look-back of five minutes. A heartbeat is
// its own age.
func TestEveryRuleAsksHowOldIsWhatItIsTold(t *testing.T) {
	crossing := contract(t).Matchers(rules.Central)
	// What divides a number of the same server and scrape, whose age is asked.
	divisors := map[string]string{"PharosTargetsDown": "cell:targets:count"}
	each(t, func(t *testing.T, tier rules.Tier, _ string, r rulefmt.Rule) {
		if tier != rules.Central {
			return
		}
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		require.NoError(t, err)
		expr := parsed.String()
		parser.Inspect(parsed, func(n parser.Node, around []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok || !slices.Contains(crossing, s.Name) || strings.HasSuffix(s.Name, ":timestamp_seconds") || divisors[r.Alert] == s.Name {
				return nil
			}
			if _, ranged := around[len(around)-1].(*parser.MatrixSelector); !ranged && !strings.Contains(expr, "timestamp("+s.String()+") >= ") {
				t.Errorf("%s reads %s whatever its age: add … and (timestamp(%s) >= time() - 6 * scalar(fleet:interval:seconds))", r.Record+r.Alert, s, s)
			}
			return nil
		})
	})
}
