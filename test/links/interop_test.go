package links_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/rules"
)

// oneCascade reads a single edge.
func oneCascade(t *testing.T, address, edgeAddress string) *promtest.Server {
	t.Helper()
	files, err := cascade.Render(cascade.Options{
		Geography: geography, Replica: "a", Interval: interval, Contract: contract(t), Self: []string{address},
		Cells: []cascade.Cell{{Name: pairCell, Region: region, Endpoints: []string{edgeAddress}}},
	})
	require.NoError(t, err)
	return promtest.Prometheus(t, address, files)
}

// stockSendersAndReceivers joins what is rendered here with servers whose
// configuration somebody else wrote, in the way of Prometheus' own documentation.
// That a stock Prometheus is read is shown with the fleets.
func stockSendersAndReceivers(t *testing.T) {
	const exporter, ours = "127.92.7.1:9100", "127.92.7.2:9090"
	const receiver, reader, sender, cascadeAt = "127.92.7.3:9090", "127.92.7.4:9090", "127.92.7.5:9090", "127.92.7.6:9090"
	newExporter(t, exporter)
	files, err := edge.Render(edge.Options{
		Geography: geography, Region: region, Cell: pairCell, Replica: "a", Interval: interval, Contract: contract(t),
		Static: &edge.Static{Edges: []string{ours}}, Link: promcfg.Link{Kind: promcfg.Push}, Receivers: []promcfg.Receiver{writeTo("stock", receiver)},
	})
	require.NoError(t, err)
	edgeServer := promtest.Prometheus(t, ours, alsoScraping(t, files, exporter))
	stockReceiver := promtest.Prometheus(t, receiver, promcfg.Files{promcfg.ConfigFile: []byte("scrape_configs: []\n")}, promcfg.ReceiveFlag)
	stockReader := promtest.Prometheus(t, reader, promcfg.Files{promcfg.ConfigFile: fmt.Appendf(nil, `
scrape_configs:
  - job_name: federate
    scrape_interval: 1s
    honor_labels: true
    metrics_path: /federate
    params: {'match[]': ['{__name__=~"[a-z]+:.*"}', 'test_value']}
    static_configs: [{targets: ['%s']}]
`, ours)})
	stockSender := promtest.Prometheus(t, sender, alsoScraping(t, stockSenderFiles(t, cascadeAt), exporter))
	files, err = cascade.Render(cascade.Options{
		Geography: geography, Replica: "a", Interval: interval, Contract: contract(t), Self: []string{cascadeAt},
		Cells: []cascade.Cell{{Name: stockCell, Region: region, External: true, Link: promcfg.Push}},
	})
	require.NoError(t, err)
	cascadeServer := promtest.Prometheus(t, cascadeAt, files, promcfg.ReceiveFlag)
	for _, s := range []*promtest.Server{edgeServer, stockReceiver, stockReader, stockSender, cascadeServer} {
		s.Ready(t)
	}
	for _, s := range []*promtest.Server{stockReceiver, stockReader, cascadeServer} {
		testkit.Await(t, func() error { return s.Gives(`count(test_value)`, 1) })
	}
	since := time.Now()
	for _, s := range []*promtest.Server{stockReceiver, stockReader, cascadeServer} {
		for _, name := range []string{"test_value", "cell:heartbeat:timestamp_seconds"} {
			waitSamples(t, s, name, since)
		}
	}

	t.Run("a stock receiver takes what an edge writes", func(t *testing.T) {
		alike(t, edgeServer, stockReceiver, "test_value", since, ourLabels())
		alike(t, edgeServer, stockReceiver, "test_native_seconds", since, ourLabels())
		alike(t, edgeServer, stockReceiver, "test_custom_seconds", since, ourLabels())
		alike(t, edgeServer, stockReceiver, "cell:heartbeat:timestamp_seconds", since, ourLabels())
	})
	t.Run("a stock Prometheus reads an edge", func(t *testing.T) {
		labels := ourLabels()
		labels["job"] = "federate"
		alike(t, edgeServer, stockReader, "cell:heartbeat:timestamp_seconds", since, labels)
		require.NotEmpty(t, stockReader.Vector(t, `test_value{cell="asia-1", cluster!=""}`))
	})
	t.Run("a stock Prometheus writes to a cascade", func(t *testing.T) {
		labels := model.Metric{"geography": geography, "region": region, "cell": stockCell, "edge_shard": "0", "edge_replica": "x"}
		alike(t, stockSender, cascadeServer, "cell:heartbeat:timestamp_seconds", since, labels)
		testkit.Await(t, func() error { return cascadeServer.Gives(`count(test_value{cell="asia-3", cluster!=""})`, 1) })
		require.NotNil(t, cascadeServer.Vector(t, `test_native_seconds{cell="asia-3"}`)[0].Histogram)
		require.Empty(t, cascadeServer.Vector(t, `{__name__=~"test_custom_seconds.*"}`), "the first version cannot send custom buckets")
	})
}

func ourLabels() model.Metric {
	return model.Metric{"geography": geography, "region": region, "cell": pairCell, "edge_shard": "0", "edge_replica": "a"}
}

// stockSenderFiles are of a Prometheus that writes in the protocol's first
// version, as it does unless told otherwise. It bears the labels of its cell
// itself, because a receiver cannot add any.
func stockSenderFiles(t *testing.T, to string) promcfg.Files {
	t.Helper()
	files, err := rules.Files(rules.Edge, interval, []rules.Constant{{Record: "edge:interval:seconds", Value: interval.Seconds()}})
	require.NoError(t, err)
	files[promcfg.ConfigFile] = fmt.Appendf(nil, `
global:
  scrape_interval: 1s
  evaluation_interval: 1s
  external_labels: {geography: asia, region: east, cell: asia-3, edge_shard: "0", edge_replica: x}
rule_files: []
scrape_configs: []
remote_write:
  - url: http://%s/api/v1/write
    send_native_histograms: true
    queue_config: {batch_send_deadline: 200ms}
`, to)
	return named(t, files)
}

// alike compares the samples of a name at two servers, and the labels at the
// second.
func alike(t *testing.T, from, to *promtest.Server, name string, since time.Time, labels model.Metric) {
	t.Helper()
	sent := from.Raw(t, name, since)
	require.Len(t, sent, 1, name)
	got := to.Raw(t, name, since)
	require.Len(t, got, 1, name)
	want := labels.Clone()
	want[model.MetricNameLabel] = model.LabelValue(name)
	if cluster, ok := sent[0].Metric["cluster"]; ok {
		want["cluster"] = cluster
	}
	require.Equal(t, want, got[0].Metric)
	arrived := momentsOf(got[0])
	require.GreaterOrEqual(t, len(arrived), 2, name)
	for at, value := range arrived {
		require.Equal(t, momentsOf(sent[0])[at], value, "%s at %s", name, at.Time())
	}
}
