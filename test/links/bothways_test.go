package links_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// While one link takes the place of the other, servers are written to and read at once.
// What comes by both ways is one series, with one value for each moment, at either hop.
func bothWaysAreOneSeries(t *testing.T) {
	const edgeAt, cascadeAt, centralAt, exporter = "127.92.12.10:9090", "127.92.12.11:9090", "127.92.12.12:9090", "127.92.12.1:9100"
	newExporter(t, exporter)
	began := time.Now()
	push := promcfg.Link{Kind: promcfg.Push}
	lower := edge.Options{
		Geography: geography, Region: region, Cell: pairCell, Replica: "a", Interval: interval, Contract: contract(t),
		Static: &edge.Static{Edges: []string{edgeAt}}, Link: push, Receivers: []promcfg.Receiver{writeTo("cascade-0", cascadeAt)},
	}
	files, err := edge.Render(lower)
	require.NoError(t, err)
	sender := promtest.Prometheus(t, edgeAt, alsoScraping(t, files, exporter), lower.Flags()...)
	middle := cascade.Options{
		Geography: geography, Replica: "a", Interval: interval, Contract: contract(t), Self: []string{cascadeAt}, Link: push,
		Cells:     []cascade.Cell{{Name: pairCell, Region: region, Endpoints: []string{edgeAt}, Link: promcfg.Pull}},
		Receivers: []promcfg.Receiver{writeTo("central-a", centralAt)},
	}
	files, err = cascade.Render(middle)
	require.NoError(t, err)
	between := promtest.Prometheus(t, cascadeAt, files, middle.Flags()...)
	upper := central.Options{
		Replica: "a", Replicas: []string{"a"}, Interval: interval, Contract: contract(t), Geographies: []string{geography},
		Cells:  []central.Cell{{Geography: geography, Region: region, Name: pairCell}},
		Static: &central.Static{Cascades: map[string][]string{geography: {cascadeAt}}}, Link: push, Reads: true,
	}
	files, err = central.Render(upper)
	require.NoError(t, err)
	top := promtest.Prometheus(t, centralAt, files, upper.Flags()...)
	for _, s := range []*promtest.Server{sender, between, top} {
		s.Ready(t)
	}
	testkit.Await(t, func() error {
		return errors.Join(
			between.Gives(`count(cell:heartbeat:timestamp_seconds)`, 1), between.Gives(`min(up{job="federate-edge"})`, 1),
			top.Gives(`count(cell:heartbeat:timestamp_seconds)`, 1), top.Gives(`count(test_native_seconds)`, 1),
			top.Gives(`min(scrape_samples_post_metric_relabeling{job="federate-cascade"} > bool 10)`, 1),
			tells(sender, "prometheus_remote_storage_samples_total", 10), tells(between, "prometheus_remote_storage_samples_total", 10),
		)
	})
	measured, compared := samples(t, sender, began), 0
	for _, s := range []*promtest.Server{between, top} {
		for series, moments := range samples(t, s, began) {
			if strings.Contains(series, "native") || strings.Contains(series, "custom") {
				continue // what is read of them has other types, and one of both is kept
			}
			for at, value := range moments {
				if was, is := measured[series][at]; is {
					require.Equal(t, was, value, "%s at %s", series, s.Address)
					compared++
				}
			}
		}
	}
	require.Greater(t, compared, 10)
	for _, s := range []*promtest.Server{sender, between} {
		require.Zero(t, own(t, s, "prometheus_remote_storage_samples_failed_total"), "what was read before is taken from %s", s.Address)
	}
}

// tells waits for a server's own count of something.
func tells(s *promtest.Server, name string, atLeast float64) error {
	page, err := s.Get("/metrics")
	if n := sum(page, name); err == nil && n < atLeast {
		err = fmt.Errorf("%s of %s is %g", name, s.Address, n)
	}
	return err
}

// own is a server's own count of something.
func own(t *testing.T, s *promtest.Server, name string) float64 {
	t.Helper()
	page, err := s.Get("/metrics")
	require.NoError(t, err)
	return sum(page, name)
}

// sum adds up all series of a name on a page of metrics.
func sum(page []byte, name string) (total float64) {
	for line := range strings.Lines(string(page)) {
		rest, is := strings.CutPrefix(line, name)
		if !is || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " ")+1:]), 64)
		if err == nil {
			total += n
		}
	}
	return total
}
