package links_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

const (
	storeExporter, storeEdge, storeMid = "127.92.6.1:9100", "127.92.6.2:9090", "127.92.6.3:9090"
	storeA, storeB                     = "127.92.6.4:9090", "127.92.6.5:9090"
	victoriaAt, receiverAt             = "127.92.6.6:8428", "127.92.6.7:9090"
)

// victoriaMetrics starts a real store that removes no duplicates by itself.
func victoriaMetrics(t *testing.T, address string) *promtest.Server {
	t.Helper()
	s := promtest.Program(t, address, "victoria-metrics",
		"-httpListenAddr="+address, "-storageDataPath="+t.TempDir(), "-retentionPeriod=1d", "-inmemoryDataFlushInterval=1s",
		"-loggerLevel=WARN", "-memory.allowedBytes=128MB")
	s.Answers(t, "/health")
	return s
}

// held is one series of the store with all its samples.
type held struct {
	Metric     model.Metric `json:"metric"`
	Values     []float64    `json:"values"`
	Timestamps []int64      `json:"timestamps"`
}

func export(t *testing.T, s *promtest.Server, selector string) []held {
	t.Helper()
	raw, err := s.Get("/api/v1/export?match[]=" + url.QueryEscape(selector))
	require.NoError(t, err)
	var out []held
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var h held
		require.NoError(t, json.Unmarshal(lines.Bytes(), &h))
		out = append(out, h)
	}
	require.NoError(t, lines.Err())
	return out
}

// longTermStores has both centrals write to a real VictoriaMetrics in the
// protocol's first version, and to a stock Prometheus in the second. Neither
// removes duplicates, and neither gets any.
func longTermStores(t *testing.T) {
	newExporter(t, storeExporter)
	victoria := victoriaMetrics(t, victoriaAt)
	receiver := promtest.Prometheus(t, receiverAt, promcfg.Files{promcfg.ConfigFile: []byte("scrape_configs: []\n")}, promcfg.ReceiveFlag)
	centrals := startStored(t, []central.LongTerm{
		{Name: "victoria", URL: "http://" + victoriaAt + promcfg.ReceivePath},
		{Name: "receiver", URL: "http://" + receiverAt + promcfg.ReceivePath, Message: promcfg.WriteV2},
	})
	receiver.Ready(t)
	for _, s := range centrals {
		testkit.Await(t, func() error { return s.Gives("fleet:cells_contributing:count", 1) })
	}
	since := time.Now()
	for _, s := range centrals {
		for _, name := range []string{"test_value", "fleet:cells_contributing:count", "cell:heartbeat:timestamp_seconds", "test_classic_seconds_bucket"} {
			waitSamples(t, s, name, since)
		}
	}
	until := time.Now()
	time.Sleep(2 * interval)
	for i, replica := range []string{"a", "b"} {
		for _, name := range []string{"test_value", "fleet:cells_contributing:count", "cell:heartbeat:timestamp_seconds", "test_classic_seconds_bucket"} {
			own := ownSamples(t, centrals[i], name, replica, since)
			selector := fmt.Sprintf("{__name__=%q, central_replica=%q}", name, replica)
			testkit.Await(t, func() error { return same(own, inReceiver(t, receiver, selector, since), since, until) })
			testkit.Await(t, func() error { return same(own, inStore(t, victoria, selector), since, until) })
		}
		failed := `prometheus_remote_storage_samples_failed_total > 0 or prometheus_remote_storage_histograms_failed_total > 0`
		require.Empty(t, centrals[i].Vector(t, failed), "no store may refuse anything, as one would that is given duplicates")
	}
	histogramsInStores(t, victoria, receiver)
	undeclared := `{__name__=~"up|scrape_.*|prometheus_.*|ALERTS.*|fleet:interval:seconds.+|test_undeclared"}`
	require.Empty(t, export(t, victoria, undeclared))
	require.Empty(t, receiver.Vector(t, undeclared))
}

// startStored starts an edge that both centrals read over one cascade.
func startStored(t *testing.T, stores []central.LongTerm) []*promtest.Server {
	t.Helper()
	files, err := edge.Render(edge.Options{
		Geography: geography, Region: region, Cell: pairCell, Replica: "a", Interval: interval, Contract: contract(t),
		Static: &edge.Static{Edges: []string{storeEdge}},
	})
	require.NoError(t, err)
	all := []*promtest.Server{promtest.Prometheus(t, storeEdge, alsoScraping(t, files, storeExporter))}
	all = append(all, oneCascade(t, storeMid, storeEdge))
	for i, address := range []string{storeA, storeB} {
		files, err := central.Render(central.Options{
			Replica: []string{"a", "b"}[i], Replicas: []string{"a", "b"}, Interval: interval, Contract: contract(t), LongTerm: stores,
			Geographies: []string{geography}, Cells: []central.Cell{{Geography: geography, Region: region, Name: pairCell}},
			Static: &central.Static{
				Cascades: map[string][]string{geography: {storeMid}}, Centrals: map[string]string{"a": storeA, "b": storeB},
			},
		})
		require.NoError(t, err)
		all = append(all, promtest.Prometheus(t, address, files))
	}
	for _, s := range all {
		s.Ready(t)
	}
	return all[2:]
}

// ownSamples are those of a name that a central has, by the names that their
// series have in a store.
func ownSamples(t *testing.T, at *promtest.Server, name, replica string, since time.Time) map[string]moments {
	t.Helper()
	own := map[string]moments{}
	for _, s := range at.Raw(t, fmt.Sprintf("{__name__=%q}", name), since) {
		s.Metric["central_replica"] = model.LabelValue(replica)
		own[s.Metric.String()] = momentsOf(s)
	}
	require.NotEmpty(t, own)
	return own
}

func inReceiver(t *testing.T, s *promtest.Server, selector string, since time.Time) map[string]moments {
	t.Helper()
	out := map[string]moments{}
	for _, series := range s.Raw(t, selector, since) {
		out[series.Metric.String()] = momentsOf(series)
	}
	return out
}

func inStore(t *testing.T, s *promtest.Server, selector string) map[string]moments {
	t.Helper()
	out := map[string]moments{}
	for _, h := range export(t, s, selector) {
		got := moments{}
		for i, at := range h.Timestamps {
			value := model.SampleValue(h.Values[i]).String()
			if before, twice := got[model.Time(at)]; twice {
				// A request whose answer was late is sent again, the same.
				require.Equal(t, before, value, "%s has two values of one moment", h.Metric)
			}
			got[model.Time(at)] = value
		}
		out[h.Metric.String()] = got
	}
	return out
}

// same refuses a store that has other series, or that lacks a sample from between
// two moments.
func same(own, stored map[string]moments, since, until time.Time) error {
	if len(own) != len(stored) {
		return fmt.Errorf("the store has %d series, not %d", len(stored), len(own))
	}
	for series, samples := range own {
		count := 0
		for at, value := range samples {
			if at.Time().Before(since) || at.Time().After(until) {
				continue
			}
			count++
			if !near(value, stored[series][at]) {
				return fmt.Errorf("%s at %s: %s is stored as %q", series, at.Time(), value, stored[series][at])
			}
		}
		if count < 3 {
			return fmt.Errorf("%s has %d samples", series, count)
		}
	}
	return nil
}

// near allows for the last digit, which a store that keeps decimal numbers may
// round.
func near(a, b string) bool {
	var x, y float64
	if _, err := fmt.Sscan(a, &x); err != nil {
		return false
	}
	if _, err := fmt.Sscan(b, &y); err != nil {
		return false
	}
	return math.Abs(x-y) <= 1e-12*math.Abs(x)
}

// histogramsInStores: the second version keeps every histogram whole. In the
// first, VictoriaMetrics makes buckets of its own kind of an exponential one, and
// one with custom buckets cannot be sent.
func histogramsInStores(t *testing.T, victoria, receiver *promtest.Server) {
	t.Helper()
	for _, name := range []string{"test_native_seconds", "test_custom_seconds"} {
		testkit.Await(t, func() error { return receiver.Gives(fmt.Sprintf("count(count by (central_replica) (%s))", name), 2) })
		got := receiver.Vector(t, name)
		require.NotEmpty(t, got)
		require.NotNil(t, got[0].Histogram)
		require.NotEmpty(t, got[0].Histogram.Buckets)
	}
	require.NotEmpty(t, export(t, victoria, `test_native_seconds_bucket{vmrange!=""}`))
	require.Empty(t, export(t, victoria, `{__name__=~"test_custom_seconds.*"}`))
}
