package rules_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// unitTests are what promtool is asked about the rules of a subject.
type unitTests struct {
	Tests []unitTest `yaml:"tests"`
}

type unitTest struct {
	Interval string `yaml:"interval"`
	Input    []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Exprs  []exprTest `yaml:"promql_expr_test"`
	Alerts []struct {
		Name   string      `yaml:"alertname"`
		Alerts []yaml.Node `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

type exprTest struct {
	Expr    string      `yaml:"expr"`
	At      string      `yaml:"eval_time"`
	Samples []yaml.Node `yaml:"exp_samples"`
}

// records tells whether the test sees samples of what a rule records.
func (u unitTest) records(t *testing.T, name string) bool {
	t.Helper()
	if name == "node:not_ready:info" {
		name = "node:unhealthy:info" // its only reader, by which it is tested
	}
	for _, e := range u.Exprs {
		if len(e.Samples) > 0 && reads(t, e.Expr, name) {
			return true
		}
	}
	return false
}

// alerts tells whether the test sees an alert fire, and whether it sees it rest.
func (u unitTest) alerts(name string) (fires, rests bool) {
	for _, a := range u.Alerts {
		if a.Name == name {
			fires, rests = fires || len(a.Alerts) > 0, rests || len(a.Alerts) == 0
		}
	}
	return fires, rests
}

func readUnitTests(t *testing.T, tier rules.Tier, subject string) unitTests {
	t.Helper()
	var all unitTests
	for _, file := range testFiles(t, tier, subject) {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var some unitTests
		require.NoError(t, yaml.Unmarshal(raw, &some), file)
		all.Tests = append(all.Tests, some.Tests...)
	}
	return all
}

// selectors are what an expression selects.
func selectors(t *testing.T, expr string) []*parser.VectorSelector {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	require.NoError(t, err, expr)
	var out []*parser.VectorSelector
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			out = append(out, s)
		}
		return nil
	})
	return out
}

func reads(t *testing.T, expr, name string) bool {
	t.Helper()
	return slices.ContainsFunc(selectors(t, expr), func(s *parser.VectorSelector) bool { return s.Name == name })
}

// TestEveryRuleIsSeenToSpeakAndToBeSilent asks of the tests of promtool that each
// recording rule is seen to record something, and each alert to fire and not to.
func TestEveryRuleIsSeenToSpeakAndToBeSilent(t *testing.T) {
	each(t, func(t *testing.T, tier rules.Tier, subject string, r rulefmt.Rule) {
		speaks, silent := false, false
		for _, world := range readUnitTests(t, tier, subject).Tests {
			if r.Alert == "" {
				speaks = speaks || world.records(t, r.Record)
				continue
			}
			fires, rests := world.alerts(r.Alert)
			speaks, silent = speaks || fires, silent || rests
		}
		file := "rules/" + testFile(tier, subject)
		if r.Alert == "" {
			require.True(t, speaks, "%s: no promql_expr_test has %s with exp_samples that are not empty: write one", file, r.Record)
			return
		}
		require.True(t, speaks, "%s: no alert_rule_test has %s fire: write one with exp_alerts", file, r.Alert)
		if r.Alert != "PharosWatchdog" { // fires always, which is what it is for
			require.True(t, silent, "%s: no alert_rule_test has %s not fire: write one with exp_alerts: []", file, r.Alert)
		}
	})
}

// TestEveryRuleAboutWhatAPairTellsIsTestedWithAPair finds the rules that read what
// edges or cascades tell, and asks for a world in which two of them tell it.
func TestEveryRuleAboutWhatAPairTellsIsTestedWithAPair(t *testing.T) {
	c := contract(t)
	each(t, func(t *testing.T, tier rules.Tier, subject string, r rulefmt.Rule) {
		if tier == rules.Edge {
			return
		}
		crossing := c.Matchers(tier)
		told := map[string]bool{}
		for _, s := range selectors(t, r.Expr) {
			if slices.Contains(crossing, s.Name) {
				told[s.Name] = true
			}
		}
		if len(told) == 0 {
			return
		}
		for _, world := range readUnitTests(t, tier, subject).Tests {
			seen := map[string]int{}
			for _, input := range world.Input {
				metric := seriesOf(t, input.Series)
				if !told[metric.Get(model.MetricNameLabel)] {
					continue
				}
				about := labels.NewBuilder(metric).Del(rules.Tellers()...).Labels().String()
				if seen[about]++; seen[about] > 1 {
					return
				}
			}
		}
		t.Errorf("rules/%s: no world of it has two edges or two cascades tell the same of anything that %s reads: give one of its worlds a second edge_replica",
			testFile(tier, subject), r.Record+r.Alert)
	})
}

// seriesOf are the labels of a series as it is written.
func seriesOf(t *testing.T, series string) labels.Labels {
	t.Helper()
	if !strings.Contains(series, "{") {
		return labels.FromStrings(model.MetricNameLabel, series)
	}
	metric, err := parser.NewParser(parser.Options{}).ParseMetric(series)
	require.NoError(t, err, series)
	return metric
}
