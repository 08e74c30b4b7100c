package links_test

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

// shop is the value of the label cluster on everything that is measured here:
// whatever can be in a label comes through as it is.
const shop = `shop "1", {北}\`

// exporter is what the edges of a fleet scrape. Each scrape sees other values.
type exporter struct {
	metrics, custom http.Handler

	mu              sync.Mutex
	random          *rand.Rand
	value           prom.Gauge
	classic, native prom.Histogram
	buckets         prom.Histogram
}

func newExporter(t testing.TB, address string) {
	t.Helper()
	cluster := prom.Labels{"cluster": shop}
	e := &exporter{
		random: rand.New(rand.NewPCG(1, 2)),
		value:  prom.NewGauge(prom.GaugeOpts{Name: "test_value", Help: "Differs at each scrape.", ConstLabels: cluster}),
		classic: prom.NewHistogram(prom.HistogramOpts{
			Name: "test_classic_seconds", Help: "Classic.", ConstLabels: cluster, Buckets: []float64{0.1, 0.5, 1, 5},
		}),
		native: prom.NewHistogram(prom.HistogramOpts{
			Name: "test_native_seconds", Help: "Native.", ConstLabels: cluster, NativeHistogramBucketFactor: 1.1,
		}),
		buckets: prom.NewHistogram(prom.HistogramOpts{
			Name: "test_custom_seconds", Help: "Native with custom buckets, once it is scraped.", ConstLabels: cluster, Buckets: []float64{0.1, 0.5, 1, 5},
		}),
	}
	first, second := prom.NewRegistry(), prom.NewRegistry()
	one := func() float64 { return 1 }
	first.MustRegister(e.value, e.classic, e.native,
		prom.NewGaugeFunc(prom.GaugeOpts{Name: "test_undeclared", Help: "Is in no contract.", ConstLabels: cluster}, one),
		// An edge that knows the state of no cluster does not contribute.
		prom.NewGaugeFunc(prom.GaugeOpts{Name: "pharos_cluster_up", Help: "The cluster is watched.", ConstLabels: cluster}, one),
	)
	second.MustRegister(e.buckets)
	e.metrics, e.custom = promhttp.HandlerFor(first, promhttp.HandlerOpts{}), promhttp.HandlerFor(second, promhttp.HandlerOpts{})
	testkit.Serve(t, address, e)
}

func (e *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.value.Set(e.random.NormFloat64())
	for range 5 {
		seconds := e.random.ExpFloat64()
		e.classic.Observe(seconds)
		e.native.Observe(seconds)
		e.buckets.Observe(seconds)
	}
	if r.URL.Path == "/custom" {
		e.custom.ServeHTTP(w, r)
		return
	}
	e.metrics.ServeHTTP(w, r)
}

// contract is the built-in one with what the exporter measures.
func contract(t testing.TB) *rules.Contract {
	t.Helper()
	c, err := rules.Load()
	require.NoError(t, err)
	for name, kind := range map[string]rules.Kind{
		"test_value": rules.Gauge, "test_classic_seconds": rules.Histogram,
		"test_native_seconds": rules.Native, "test_custom_seconds": rules.Native,
	} {
		c.Series = append(c.Series, rules.Series{
			Name: name, Kind: kind, Unit: "none", Help: "Of the test's exporter.", Labels: []string{"geography", "region", "cell", "cluster"},
			From: rules.Edge, To: rules.Central, Max: rules.Max{Per: "cell", Series: 10},
		})
	}
	return &c
}
