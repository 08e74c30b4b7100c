package cascade_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/rules"
)

func options() cascade.Options {
	return cascade.Options{
		Geography: "asia", Replica: "a", Interval: 5 * time.Second,
		Cells: []cascade.Cell{
			{Name: "asia-2", Region: "asia-west", Endpoints: []string{"10.2.0.7:9090", "10.2.0.6:9090"}},
			{Name: "asia-1", Region: "asia-east", Shards: 2, Endpoints: []string{"127.64.2.9:9090"}},
			{Name: "asia-3", Region: "asia-east"},
		},
	}
}

func TestRenderIsWhatPrometheusAccepts(t *testing.T) {
	empty := options()
	empty.Cells = nil
	self := options()
	self.Self = []string{"127.91.0.3:9090"}
	for name, o := range map[string]cascade.Options{"cluster": options(), "empty": empty, "static": self} {
		t.Run(name, func(t *testing.T) {
			files, err := cascade.Render(o)
			require.NoError(t, err)
			promcfgtest.Golden(t, name, files, rules.FileNames(rules.Cascade)[1:]...)
			promcfgtest.Check(t, files)
			slices.Reverse(o.Cells)
			again, err := cascade.Render(o)
			require.NoError(t, err)
			require.Equal(t, files, again, "the order of cells must not matter")
		})
	}
}

func TestRenderLeavesItsOptionsAlone(t *testing.T) {
	o := options()
	_, err := cascade.Render(o)
	require.NoError(t, err)
	require.Equal(t, options(), o)
}

func TestEveryShardOfAnEdgeIsExpected(t *testing.T) {
	o := options()
	o.Shard = 3
	files, err := cascade.Render(o)
	require.NoError(t, err)
	cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
	require.NoError(t, err)
	require.Equal(t, "3", cfg.GlobalConfig.ExternalLabels.Get("cascade_shard"))
	topology := string(files[rules.TopologyFileName])
	require.Equal(t, 2, strings.Count(topology, "cell: asia-1\n"), "both of its shards")
	require.Equal(t, 1, strings.Count(topology, "cell: asia-2\n"))
}

// With a configuration that has changed in more than its limit of samples, Prometheus
// hides for an interval what it had from every edge.
func TestTheConfigurationStaysWhileCellsChange(t *testing.T) {
	before, err := cascade.Render(options())
	require.NoError(t, err)
	for name, change := range map[string]func(*cascade.Options){
		"a cell joins": func(o *cascade.Options) { o.Cells[2].Endpoints = []string{"10.3.0.1:9090"} },
		"a cell goes":  func(o *cascade.Options) { o.Cells = o.Cells[1:] },
		"an existing one joins": func(o *cascade.Options) {
			o.Cells[2].External, o.Cells[2].Endpoints = true, []string{"10.3.0.1:9090"}
		},
		"all go":                func(o *cascade.Options) { o.Cells = nil },
		"an edge is elsewhere":  func(o *cascade.Options) { o.Cells[0].Endpoints[0] = "10.2.0.8:9090" },
		"an edge becomes two":   func(o *cascade.Options) { o.Cells[0].Shards = 2 },
		"an edge is two beside": func(o *cascade.Options) { o.Cells[0].Endpoints = append(o.Cells[0].Endpoints, "10.2.0.8:9090") },
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			change(&o)
			after, err := cascade.Render(o)
			require.NoError(t, err)
			require.Equal(t, string(before[promcfg.ConfigFile]), string(after[promcfg.ConfigFile]))
			require.NotEqual(t, before, after)
		})
	}
}

// Nor is an edge another target because others stand beside it.
func TestAnEdgeStaysTheTargetThatItIsWhenItIsDivided(t *testing.T) {
	o := options()
	before := readBy(t, o)[1]
	o.Cells[0].Shards, o.Cells[0].Endpoints = 2, append(o.Cells[0].Endpoints, "10.2.0.8:9090")
	after := readBy(t, o)[1]
	require.Equal(t, before.Labels, after.Labels)
	require.Subset(t, after.Targets, before.Targets)
}

func TestRenderKeepsStrangeNamesWhole(t *testing.T) {
	for _, name := range []string{`quo"te`, "a,b", "中国", `{{ .Value }}`, "$HOME", "${1}", "$$", `\`, "no"} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Geography, o.Replica, o.Self = name, name, []string{"127.91.0.3:9090"}
			o.Cells = []cascade.Cell{{Name: name, Region: name, Endpoints: []string{"a:1"}}}
			files, err := cascade.Render(o)
			require.NoError(t, err)
			promcfgtest.Check(t, files)
			cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
			require.NoError(t, err)
			require.Equal(t, name, cfg.GlobalConfig.ExternalLabels.Get("geography"))
			want := model.LabelSet{"geography": model.LabelValue(name), "region": model.LabelValue(name), "cell": model.LabelValue(name)}
			require.Equal(t, want, readBy(t, o)[0].Labels)
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cascade.Options)
		want   string
	}{
		"no geography":    {func(o *cascade.Options) { o.Geography = "" }, "label geography: is empty"},
		"not selectable":  {func(o *cascade.Options) { o.Geography = "中国" }, `name "中国" cannot select pods`},
		"no shard":        {func(o *cascade.Options) { o.Shard = -1 }, "shard -1: shards are numbered from 0"},
		"no replica":      {func(o *cascade.Options) { o.Replica = "" }, "label cascade_replica: is empty"},
		"nameless cell":   {func(o *cascade.Options) { o.Cells[0].Name = "" }, `geography "asia": name of a cell: is empty`},
		"cell twice":      {func(o *cascade.Options) { o.Cells[0].Name = "asia-1" }, `cell "asia-1": is there twice`},
		"no region":       {func(o *cascade.Options) { o.Cells[0].Region = "" }, `cell "asia-2": region: is empty`},
		"endpoint":        {func(o *cascade.Options) { o.Cells[0].Endpoints[0] = "http://a:1" }, `cell "asia-2": endpoint: "http://a:1"`},
		"shared endpoint": {func(o *cascade.Options) { o.Cells[0].Endpoints[0] = "127.64.2.9:9090" }, `cell "asia-2": endpoint 127.64.2.9:9090 belongs to cell "asia-1" already`},
		"other name":      {func(o *cascade.Options) { o.Cells[0].Endpoints[0] = "127.64.2.9:09090" }, `cell "asia-2": endpoint 127.64.2.9:09090 belongs to cell "asia-1" already`},
		"endpoint twice":  {func(o *cascade.Options) { o.Cells[0].Endpoints[0] = "10.2.0.6:9090" }, `endpoint 10.2.0.6:9090 belongs to cell "asia-2" already`},
		"interval":        {func(o *cascade.Options) { o.Interval = -1 }, "interval -1ns"},
		"API server":      {func(o *cascade.Options) { o.APIServer.URL = "ftp://a" }, "API server URL"},
		"own address":     {func(o *cascade.Options) { o.Self = []string{":9090"} }, "own server"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			tc.change(&o)
			_, err := cascade.Render(o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func BenchmarkRender(b *testing.B) {
	for _, cells := range []int{3, 300, 3000} {
		o := cascade.Options{Geography: "asia", Replica: "a", Interval: 15 * time.Second}
		for i := range cells {
			o.Cells = append(o.Cells, cascade.Cell{
				Name: fmt.Sprintf("cell-%04d", i), Region: fmt.Sprintf("region-%02d", i%20),
				Endpoints: []string{fmt.Sprintf("10.%d.%d.1:9090", i/256, i%256), fmt.Sprintf("10.%d.%d.2:9090", i/256, i%256)},
			})
		}
		b.Run(fmt.Sprintf("cells=%d", cells), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cascade.Render(o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
