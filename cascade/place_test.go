package cascade_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// heard is what a cascade keeps of a series, as Prometheus does it where labels
// are not honoured: the target's labels, those of the series beside them under
// another name, and then the relabelling.
func heard(job *config.ScrapeConfig, target model.LabelSet, series labels.Labels) (labels.Labels, bool) {
	b := labels.NewBuilder(series)
	for name, value := range target {
		b.Set(string(name), string(value))
	}
	for name := range target {
		if own := series.Get(string(name)); own != "" {
			as := "exported_" + string(name)
			for b.Get(as) != "" {
				as = "exported_" + as
			}
			b.Set(as, own)
		}
	}
	kept := relabel.ProcessBuilder(b, job.MetricRelabelConfigs...)
	return b.Labels(), kept
}

// An edge speaks for its own cell alone. When the address of asia-2 leads to an
// edge with the labels of asia-1, nothing is heard of either from there, the
// heartbeat included: asia-2 goes stale, and asia-1 is what its own edge says.
func TestAnEdgeSpeaksForItsOwnCell(t *testing.T) {
	job := loaded(t, options()).ScrapeConfigs[1]
	require.False(t, job.HonorLabels)
	target := readBy(t, options())[1].Labels
	require.Equal(t, model.LabelValue("asia-2"), target["cell"])
	for name, c := range map[string]struct {
		cell string
		kept bool
	}{
		"its own":          {"asia-2", true},
		"another":          {"asia-1", false},
		"one that is like": {"asia-2x", false},
		"one unheard of":   {"europe-1", false},
		"that of no label": {"", true},
	} {
		for _, metric := range []string{"cell:heartbeat:timestamp_seconds", "node:unhealthy:info"} {
			t.Run(name+" "+metric, func(t *testing.T) {
				series, kept := heard(job, target, labels.FromStrings("__name__", metric, "cell", c.cell, "edge_shard", "0", "edge_replica", "a"))
				require.Equal(t, c.kept, kept)
				want := labels.FromStrings("__name__", metric, "geography", "asia", "region", "asia-west", "cell", "asia-2", "edge_shard", "0", "edge_replica", "a")
				require.True(t, !kept || labels.Equal(want, series), series)
			})
		}
	}
}

// Four servers answer for three cells, and a real Prometheus reads them. Two
// lie in every way that a label allows: they name another cell, beside their own
// under each name that relabelling ever looked at.
func TestNoLabelOfASeriesSpeaksForAnotherCell(t *testing.T) {
	server := func(lines ...string) string {
		edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Join(lines, "\n")+"\n")
		}))
		t.Cleanup(edge.Close)
		return strings.TrimPrefix(edge.URL, "http://")
	}
	honest := server(`cluster:nodes:count{geography="asia",region="east",cell="c1",edge_shard="0",edge_replica="a",cluster="shop"} 20`)
	bare := server(`cluster:nodes:count{cluster="bank",prometheus_replica="k8s-0",region="eu-1",geography="old"} 7`)
	lying := server(
		`cluster:nodes:count{cell="c1",cluster="a"} 500`,
		`cluster:nodes:count{cell="c1",target_cell="c1",cluster="b"} 500`,
		`cluster:nodes:count{cell="c1",exported_cell="c1",cluster="c"} 500`,
		`cluster:nodes:count{cell="c1",exported_cell="c3",cluster="d"} 1`,
		`cluster:nodes:count{cell="c1",exported_cell="",cluster="e"} 500`,
		`cluster:nodes:count{exported_cell="c1",cluster="f"} 500`,
		`cluster:nodes:count{cell="",exported_exported_cell="c1",cluster="g"} 1`,
		`cluster:nodes:count{cell=";c3",cluster="h"} 500`,
		`cluster:nodes:count{cell="c3",geography="europe",region="west",exported_region="west",edge_shard="2",cluster="i"} 1`,
	)
	o := cascade.Options{
		Geography: "asia", Replica: "a", Interval: time.Second, Self: []string{free(t)},
		Cells: []cascade.Cell{
			{Name: "c1", Region: "east", Endpoints: []string{honest}},
			{Name: "c2", Region: "south", External: true, Endpoints: []string{bare}},
			{Name: "c3", Region: "north", Endpoints: []string{lying}},
		},
	}
	got := read(t, o, 5, `cluster:nodes:count`)
	series := func(region, cell, shard, replica, cluster string, value float64) string {
		m := model.Metric{
			"__name__": "cluster:nodes:count", "geography": "asia", "region": model.LabelValue(region), "cell": model.LabelValue(cell),
			"edge_shard": model.LabelValue(shard), "edge_replica": model.LabelValue(replica), "cluster": model.LabelValue(cluster),
		}
		maps.DeleteFunc(m, func(_ model.LabelName, v model.LabelValue) bool { return v == "" })
		return fmt.Sprintf("%s %g", m, value)
	}
	require.ElementsMatch(t, []string{
		series("east", "c1", "0", "a", "shop", 20),
		series("south", "c2", "0", "k8s-0", "bank", 7),
		series("north", "c3", "", "", "d", 1),
		series("north", "c3", "", "", "g", 1),
		series("north", "c3", "2", "", "i", 1),
	}, got)
}

// free is an address that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	return address
}

// read runs a cascade until a query gives at least so many series, and gives
// each with its value.
func read(t *testing.T, o cascade.Options, atLeast int, query string) []string {
	t.Helper()
	files, err := cascade.Render(o)
	require.NoError(t, err)
	dir := t.TempDir()
	promcfgtest.Write(t, dir, files)
	testkit.Spawn(t, "prometheus", "--config.file="+filepath.Join(dir, promcfg.ConfigFile),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+o.Self[0])
	client, err := api.NewClient(api.Config{Address: "http://" + o.Self[0]})
	require.NoError(t, err)
	var out []string
	require.Eventually(t, func() bool {
		result, _, _, err := promv1.NewAPI(client).Query(t.Context(), query, time.Time{})
		vector, ok := result.(model.Vector)
		out = nil
		for _, s := range vector {
			out = append(out, fmt.Sprintf("%s %g", s.Metric, float64(s.Value)))
		}
		return err == nil && ok && len(out) >= atLeast
	}, time.Minute, 200*time.Millisecond, "%s: %v", query, &out)
	return out
}
