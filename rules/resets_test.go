package rules_test

import (
	"slices"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

// counters are what an expression takes a rate or an increase of.
func counters(t *testing.T, expr string) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	require.NoError(t, err, expr)
	var out []string
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if call, ok := n.(*parser.Call); ok && slices.Contains([]string{"rate", "increase", "irate", "resets"}, call.Func.Name) {
			for _, s := range selectors(t, call.Args[0].String()) {
				out = append(out, s.Name)
			}
		}
		return nil
	})
	return out
}

// falls tells whether a series of a world has a value less than the one before.
func falls(t *testing.T, values string) bool {
	t.Helper()
	_, samples, err := parser.NewParser(parser.Options{}).ParseSeriesDesc("x " + values)
	require.NoError(t, err, values)
	last := 0.0
	for _, s := range samples {
		value := s.Value
		if s.Histogram != nil {
			value = s.Histogram.Count
		}
		if value < last {
			return true
		}
		if !s.Omitted {
			last = value
		}
	}
	return false
}

// TestEveryRuleAboutACounterIsTestedWithOneThatBeginsAnew asks for a world in which
// what a rule takes a rate or an increase of is restarted: a rule that subtracts, or
// that sums before it takes a rate, is right until then.
func TestEveryRuleAboutACounterIsTestedWithOneThatBeginsAnew(t *testing.T) {
	each(t, func(t *testing.T, tier rules.Tier, subject string, r rulefmt.Rule) {
		read := counters(t, r.Expr)
		if len(read) == 0 {
			return
		}
		for _, world := range readUnitTests(t, tier, subject).Tests {
			fires, rests := world.alerts(r.Alert)
			if !fires && !rests && !world.records(t, r.Record) {
				continue
			}
			for _, input := range world.Input {
				name := seriesOf(t, input.Series).Get(model.MetricNameLabel)
				if slices.Contains(read, name) && falls(t, input.Values) {
					return
				}
			}
		}
		t.Errorf("rules/%s: in no world that asks for %s does any of %v begin anew: let one of them fall, as in 0+1x9 1+1x9",
			testFile(tier, subject), r.Record+r.Alert, read)
	})
}
