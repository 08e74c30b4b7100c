package rules_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

// missingFrom is when a world first lacks a cell that it expects: a heartbeat of it
// has ended by then, or it had none at all.
func (u unitTest) missingFrom(t *testing.T) (first time.Duration, ok bool) {
	t.Helper()
	interval, err := model.ParseDuration(u.Interval)
	require.NoError(t, err, u.Interval)
	ends, told := map[string]time.Duration{}, map[string]bool{}
	for _, input := range u.Input {
		series := seriesOf(t, input.Series)
		switch cell := series.Get("cell"); series.Get(model.MetricNameLabel) {
		case "cell:heartbeat:timestamp_seconds":
			told[cell] = true
			_, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc("x " + input.Values)
			require.NoError(t, err, input.Values)
			if last := len(values) - 1; math.IsNaN(values[last].Value) {
				ends[cell] = time.Duration(last) * time.Duration(interval)
			}
		case "fleet:cell_expected:info":
			told[cell] = told[cell] || false
		}
	}
	for cell, spoke := range told {
		if !spoke {
			ends[cell] = 0
		}
	}
	if len(ends) == 0 {
		return 0, false
	}
	return slices.Min(slices.Collect(maps.Values(ends))), true
}

// sees tells whether a world sees samples of a series at a moment or later.
func (u unitTest) sees(t *testing.T, name string, from time.Duration) bool {
	t.Helper()
	return slices.ContainsFunc(u.Exprs, func(e exprTest) bool {
		at, err := model.ParseDuration(e.At)
		require.NoError(t, err, e.At)
		return len(e.Samples) > 0 && time.Duration(at) >= from && reads(t, e.Expr, name)
	})
}

// TestEverySumIsTestedWithACellThatIsMissing asks for a world that expects a cell of
// which it hears nothing any more, in which the sum of the others is seen then.
func TestEverySumIsTestedWithACellThatIsMissing(t *testing.T) {
	each(t, func(t *testing.T, tier rules.Tier, subject string, r rulefmt.Rule) {
		if !strings.HasPrefix(r.Record, "geography:") && !strings.HasPrefix(r.Record, "fleet:") {
			return
		}
		for _, world := range readUnitTests(t, tier, subject).Tests {
			if from, ok := world.missingFrom(t); ok && world.sees(t, r.Record, from) {
				return
			}
		}
		t.Errorf("rules/%s: no world sees %s while a cell that it expects is missing: ask for it in one whose cell:heartbeat:timestamp_seconds ends with stale",
			testFile(tier, subject), r.Record)
	})
}
