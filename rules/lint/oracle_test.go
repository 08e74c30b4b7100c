package lint

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

// oracleContract has series of every kind, with labels that overlap.
const oracleContract = `
series:
  - {name: up_here, kind: gauge, unit: u, help: h, labels: [geography, region, cell, cluster], from: edge, to: central, max: {per: cluster, series: 1}}
  - {name: node_bad, kind: info, unit: u, help: h, labels: [geography, region, cell, cluster, node, rack], from: edge, to: central, exception: true, max: {per: cell, series: 9}}
  - {name: rack_bad, kind: gauge, unit: u, help: h, labels: [geography, region, cell, cluster, rack], from: edge, to: central, exception: true, max: {per: cell, series: 9}}
  - {name: alive, kind: gauge, unit: u, help: h, labels: [geography, cascade_shard], from: cascade, to: central, max: {per: geography, series: 1}}
  - {name: took, kind: histogram, unit: u, help: h, labels: [geography, region, cell, cluster], from: edge, to: central, max: {per: cluster, series: 9}}
  - {name: cell_known, kind: info, unit: u, help: h, labels: [geography, region, cell], from: central, to: central, rendered: true, max: {per: cell, series: 1}}
  - {name: geo_known, kind: gauge, unit: u, help: h, labels: [geography], from: central, to: central, rendered: true, max: {per: geography, series: 1}}
  - {name: step, kind: gauge, unit: u, help: h, labels: [], from: central, to: central, rendered: true, max: {per: fleet, series: 1}}
raw:
  - {name: scraped_here, tier: central, source: s, help: h, labels: [cell, verb]}
`

func oracleNames() []string {
	return []string{
		"up_here", "node_bad", "rack_bad", "alive", "took_bucket", "took_sum", "cell_known", "geo_known", "step", "scraped_here",
	}
}

// oracleStorage holds a few series of each name, with everything that each may have.
func oracleStorage(t *testing.T, c rules.Contract, rnd *rand.Rand) *teststorage.TestStorage {
	t.Helper()
	storage := teststorage.New(t)
	t.Cleanup(func() { require.NoError(t, storage.Close()) })
	app := storage.Appender(context.Background())
	for _, name := range oracleNames() {
		s, err := atTier(c, name, rules.Central)
		require.NoError(t, err)
		for range 12 {
			b := labels.NewBuilder(labels.FromStrings(model.MetricNameLabel, name))
			for label := range s.may {
				value := string(rune('a' + rnd.IntN(2)))
				if label == model.BucketLabel {
					value = []string{"1", "5", "+Inf"}[rnd.IntN(3)]
				}
				b.Set(label, value)
			}
			for at := 0; at <= 60; at += 15 {
				_, err := app.Append(0, b.Labels(), int64(at)*1000, float64(1+rnd.IntN(3)))
				require.NoError(t, err)
			}
		}
	}
	require.NoError(t, app.Commit())
	return storage
}

// phrase makes up expressions.
type phrase struct{ *rand.Rand }

func (p phrase) pick(of ...string) string { return of[p.IntN(len(of))] }

func (p phrase) label() string {
	return p.pick("geography", "region", "cell", "cluster", "node", "rack", "le", "verb", "job", "edge_replica", "cascade_shard", "made")
}

func (p phrase) labels() string {
	var out []string
	for range p.IntN(5) {
		if l := p.label(); !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return strings.Join(out, ", ")
}

func (p phrase) selector() string {
	name := p.pick(oracleNames()...)
	if p.IntN(4) > 0 {
		return name
	}
	return fmt.Sprintf(`%s{%s%s%q}`, name, p.label(), p.pick("=", "!=", "=~"), p.pick("", "a", "b"))
}

func (p phrase) expr(depth int) string {
	if depth == 0 {
		return p.selector()
	}
	inner := func() string { return p.expr(p.IntN(depth)) }
	kinds := []func(inner func() string) string{p.aggregation, p.operation, p.labelling, p.function}
	return kinds[p.IntN(len(kinds))](inner)
}

func (p phrase) aggregation(inner func() string) string {
	switch p.IntN(6) {
	case 0:
		return fmt.Sprintf("%s by (%s) (1, %s)", p.pick("topk", "bottomk"), p.labels(), inner())
	case 1:
		return fmt.Sprintf("count_values by (%s) (%q, %s)", p.labels(), p.label(), inner())
	default:
		return fmt.Sprintf("%s %s (%s) (%s)", p.pick("max", "min", "group", "sum", "count"), p.pick("by", "without"), p.labels(), inner())
	}
}

func (p phrase) operation(inner func() string) string {
	switch p.IntN(4) {
	case 0:
		return fmt.Sprintf("(%s) %s %s (%s) (%s)", inner(), p.pick("+", "/", "==", ">= bool"), p.pick("on", "ignoring"), p.labels(), inner())
	case 1:
		return fmt.Sprintf("(%s) * on (%s) %s (%s) (%s)", inner(), p.labels(), p.pick("group_left", "group_right"), p.labels(), inner())
	case 2:
		return fmt.Sprintf("(%s) %s on (%s) (%s)", inner(), p.pick("and", "or", "unless"), p.labels(), inner())
	default:
		return fmt.Sprintf("(%s) %s (%s)", inner(), p.pick("and", "or", "unless", "-", "<"), inner())
	}
}

func (p phrase) labelling(inner func() string) string {
	if p.IntN(2) == 0 {
		return fmt.Sprintf("label_join(%s, %q, %q, %q, %q)", inner(), p.label(), p.pick("", "-"), p.label(), p.label())
	}
	return fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", inner(), p.label(), p.pick("", "$1", "x", "x$1"), p.pick("", p.label()), p.pick("", "(.*)", "(a)"))
}

func (p phrase) function(inner func() string) string {
	return p.pick(
		fmt.Sprintf("absent(%s)", p.selector()), fmt.Sprintf("histogram_quantile(0.9, %s)", inner()), "vector(1)",
		fmt.Sprintf("rate(%s[1m])", p.selector()), fmt.Sprintf("max_over_time((%s)[1m:15s])", inner()),
		fmt.Sprintf("scalar(%s) * %s", inner(), inner()), fmt.Sprintf("timestamp(%s)", p.selector()), fmt.Sprintf("abs(%s)", inner()),
		fmt.Sprintf("-(%s)", inner()), fmt.Sprintf("(%s) > 1", inner()), fmt.Sprintf("time() - (%s)", inner()), fmt.Sprintf("sort(%s)", inner()),
	)
}

// TestInferenceAgreesWithTheEngine evaluates expressions that were made up, and
// compares the labels of what Prometheus gives with what was told before. What
// was refused was not told; what was told must be so, and must not fail because
// several elements match.
func TestInferenceAgreesWithTheEngine(t *testing.T) {
	contract, err := rules.Parse("oracle", []byte(oracleContract))
	require.NoError(t, err)
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1e6)
	told, empty := 0, 0
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		storage := oracleStorage(t, contract, rnd)
		for range 2500 {
			text := phrase{rnd}.expr(1 + rnd.IntN(4))
			expr, err := newParser().ParseExpr(text)
			if err != nil {
				continue
			}
			s, problems := infer(contract, rules.Central, expr)
			if len(problems) > 0 {
				continue
			}
			require.False(t, s.unknown, text)
			result, err := evaluate(engine, storage, text)
			if err != nil {
				require.NotContains(t, err.Error(), "many-to-many", text)
				require.NotContains(t, err.Error(), "must ensure unique matches", text)
				continue
			}
			told++
			if len(result) == 0 {
				empty++
			}
			agrees(t, text, s, result)
		}
	}
	t.Logf("%d expressions told, %d of them of empty results", told, empty)
	require.Greater(t, told-empty, 1000, "the test must not be empty")
}

func evaluate(engine *promql.Engine, storage *teststorage.TestStorage, text string) (promql.Vector, error) {
	query, err := engine.NewInstantQuery(context.Background(), storage, nil, text, time.Unix(60, 0))
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(context.Background())
	if scalar, err := result.Scalar(); err == nil {
		return promql.Vector{{F: scalar.V}}, nil
	}
	return result.Vector()
}

func agrees(t *testing.T, text string, s shape, result promql.Vector) {
	t.Helper()
	for _, sample := range result {
		have := map[string]bool{}
		sample.Metric.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel {
				have[l.Name] = true
			}
		})
		require.True(t, within(have, s.may), "%s\ngives %s, told was at most %v", text, sample.Metric, s.may)
		require.True(t, within(s.must, have), "%s\ngives %s, told was at least %v", text, sample.Metric, s.must)
	}
}
