package bench_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/test/fleettest"
)

// BenchmarkHop has a real server asked as the tier above it asks, and its answer
// unpacked, parsed, relabelled and stored by what Prometheus does that with, by
// the configuration of the upper tier. serve is processor time of the server that
// is asked. receive is more than a real server takes, which remembers what it did
// with each series.
func BenchmarkHop(b *testing.B) {
	p := patternOf(b, rules.Cascade)
	b.Run("edge=average", func(b *testing.B) { toCascade(b, p, averageClusters) })
	b.Run("edge=largest", func(b *testing.B) { toCascade(b, p, largestClusters) })
	b.Run("cascade=full", toCentral)
}

// toCascade is the way from an edge to a cascade.
func toCascade(b *testing.B, p pattern, clusters int) {
	b.Helper()
	h := newHop(b, p.ofCell(0, clusters, "a"), map[string]string{
		"geography": "g0", "region": "region-00", "cell": "cell-00000", "edge_replica": "a", "edge_shard": "0",
	})
	files, err := cascade.Render(cascade.Options{
		Geography: "g0", Replica: "a", Interval: interval, Self: []string{"127.93.0.9:9090"},
		Cells: []cascade.Cell{{Name: "cell-00000", Region: "region-00", Endpoints: []string{lowerAddress}}},
	})
	require.NoError(b, err)
	h.run(b, files, "federate-edge")
}

// toCentral is the way from a shard that is as full as the plan lets it become.
func toCentral(b *testing.B) {
	b.Helper()
	p := patternOf(b, rules.Central)
	var samples []fleettest.Sample
	var cells []central.Cell
	for i := 0; len(samples) < cascade.DefaultMaxSeriesPerShard; i++ {
		_, region, name := place(i)
		cells = append(cells, central.Cell{Geography: "g0", Region: region, Name: name})
		for _, s := range p.ofCell(i, averageClusters, "a") {
			samples = append(samples, relabelled(s, []string{"geography", "g0"}))
		}
	}
	h := newHop(b, samples, map[string]string{"geography": "g0", "cascade_shard": "0", "cascade_replica": "a"})
	files, err := central.Render(central.Options{
		Replica: "a", Replicas: []string{"a"}, Interval: interval, Geographies: []string{"g0"}, Cells: cells,
		Static: &central.Static{Cascades: map[string][]string{"g0": {lowerAddress}}, Centrals: map[string]string{"a": "127.93.0.9:9090"}},
	})
	require.NoError(b, err)
	h.run(b, files, "federate-cascade")
}

// hop is a real server that is read, and one in this process that reads it.
type hop struct {
	samples []fleettest.Sample
	lower   *server
}

const lowerAddress = "127.93.0.1:9090"

func newHop(b *testing.B, samples []fleettest.Sample, external map[string]string) *hop {
	b.Helper()
	config, err := yaml.Marshal(map[string]any{"global": map[string]any{"external_labels": external}})
	require.NoError(b, err)
	return &hop{samples: samples, lower: start(b, lowerAddress, promcfg.Files{promcfg.ConfigFile: config})}
}

// run has the lower server record everything anew, serve it, and the upper one
// take the answer, each time.
func (h *hop) run(b *testing.B, files promcfg.Files, job string) {
	b.Helper()
	upper := fleettest.New(b, files)
	request := h.request(b, files, job)
	var served, received []time.Duration
	var packed, plain int
	round := func() {
		h.lower.hold(b, at(h.samples, time.Now()))
		before := h.lower.used(b)
		body, contentType := answer(b, request)
		served = append(served, h.lower.used(b)-before)
		begun := processorTime(b)
		unpacked := unpack(b, body)
		got := upper.Receive(b, job, lowerAddress, contentType, unpacked, time.Now())
		received = append(received, processorTime(b)-begun)
		require.Equal(b, len(h.samples), got, "series were lost on the way")
		packed, plain = len(body), len(unpacked)
	}
	round() // makes the series
	served, received = nil, nil
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(len(h.samples)), "series")
	b.ReportMetric(median(served).Seconds(), "serve-cpu-s")
	b.ReportMetric(median(received).Seconds(), "receive-cpu-s")
	b.ReportMetric(float64(packed), "gzip-B")
	b.ReportMetric(float64(plain), "plain-B")
	b.ReportMetric(h.lower.resident(b)/1e6, "lower-MB")
}

// request asks for what a job asks for, in the form that it wants first.
func (h *hop) request(b *testing.B, files promcfg.Files, job string) *http.Request {
	b.Helper()
	query := url.Values{}
	for _, m := range jobOf(b, parsed(b, files), job)["params"].(map[string]any)["match[]"].([]any) {
		query.Add("match[]", m.(string))
	}
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+lowerAddress+"/federate?"+query.Encode(), nil)
	require.NoError(b, err)
	req.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	req.Header.Set("Accept-Encoding", "gzip")
	return req
}

func answer(b *testing.B, req *http.Request) (body []byte, contentType string) {
	b.Helper()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b, err)
	defer func() { require.NoError(b, resp.Body.Close()) }()
	require.Equal(b, http.StatusOK, resp.StatusCode)
	body, err = io.ReadAll(resp.Body)
	require.NoError(b, err)
	return body, resp.Header.Get("Content-Type")
}

func unpack(b *testing.B, body []byte) []byte {
	b.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(body))
	require.NoError(b, err)
	out, err := io.ReadAll(reader)
	require.NoError(b, err)
	return out
}

func parsed(b *testing.B, files promcfg.Files) map[string]any {
	b.Helper()
	var config map[string]any
	require.NoError(b, yaml.Unmarshal(files[promcfg.ConfigFile], &config))
	return config
}

func jobOf(b *testing.B, config map[string]any, name string) map[string]any {
	b.Helper()
	jobs, ok := config["scrape_configs"].([]any)
	require.True(b, ok)
	i := slices.IndexFunc(jobs, func(j any) bool { return j.(map[string]any)["job_name"] == name })
	require.GreaterOrEqual(b, i, 0, "there is no job %s", name)
	return jobs[i].(map[string]any)
}
