package central_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/rules"
)

func options() central.Options {
	return central.Options{
		Replica: "b", Replicas: []string{"b", "a"}, Interval: 5 * time.Second,
		Geographies: []string{"europe", "asia"}, CascadeShards: map[string][]int{"europe": {2, 0}},
		Cells: []central.Cell{
			{Geography: "europe", Region: "europe-west", Name: "europe-1", Shards: 2, Replicas: 2},
			{Geography: "asia", Region: "asia-east", Name: "asia-1"},
		},
		Alertmanagers: 2, Robots: []string{"oncall", "duty"},
	}
}

func static() central.Options {
	o := options()
	o.Static = &central.Static{
		Cascades:      map[string][]string{"europe": {"127.91.0.4:9090"}, "asia": {"127.91.0.3:9090"}},
		Centrals:      map[string]string{"a": "127.91.0.5:9090", "b": "127.91.0.6:9090"},
		Alertmanagers: []string{"127.91.0.7:9093"},
	}
	return o
}

func TestRenderIsWhatPrometheusAccepts(t *testing.T) {
	empty := options()
	empty.Cells = nil
	for name, o := range map[string]central.Options{"cluster": options(), "empty": empty, "static": static()} {
		t.Run(name, func(t *testing.T) {
			files, err := central.Render(o)
			require.NoError(t, err)
			promcfgtest.Golden(t, name, files, rules.FileNames(rules.Central)[1:]...)
			promcfgtest.Check(t, files)
			slices.Reverse(o.Cells)
			slices.Reverse(o.Geographies)
			slices.Reverse(o.Replicas)
			slices.Reverse(o.Robots)
			again, err := central.Render(o)
			require.NoError(t, err)
			require.Equal(t, files, again, "no order may matter")
		})
	}
}

func TestRenderKeepsStrangeNamesWhole(t *testing.T) {
	for _, name := range []string{`quo"te`, "a,b", "中国", `{{ .Value }}`, "$HOME", "${1}", "$$", `\`, "no"} {
		t.Run(name, func(t *testing.T) {
			o := central.Options{
				Replica: name, Replicas: []string{name}, Interval: time.Second, Geographies: []string{name},
				Cells: []central.Cell{{Geography: name, Region: name, Name: name}},
			}
			files, err := central.Render(o)
			require.NoError(t, err)
			promcfgtest.Check(t, files)
			cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
			require.NoError(t, err)
			require.Equal(t, name, cfg.GlobalConfig.ExternalLabels.Get("central_replica"))
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*central.Options)
		want   string
	}{
		"not one of the replicas": {func(o *central.Options) { o.Replica = "c" }, `replicas ["a" "b"]: do not name this one`},
		"no replicas":             {func(o *central.Options) { o.Replicas = nil }, "do not name this one"},
		"replica twice":           {func(o *central.Options) { o.Replicas = []string{"b", "b"} }, `replica "b": is there twice`},
		"geography twice":         {func(o *central.Options) { o.Geographies = []string{"asia", "asia"} }, `geography "asia": is there twice`},
		"nameless geography":      {func(o *central.Options) { o.Geographies = []string{""} }, "name of a geography: is empty"},
		"unknown geography":       {func(o *central.Options) { o.Cells[0].Geography = "atlantis" }, `cell "europe-1": geography "atlantis" is none of ["asia" "europe"]`},
		"no geography":            {func(o *central.Options) { o.Cells[0].Geography = "" }, `cell "europe-1": geography "" is none of`},
		"no region":               {func(o *central.Options) { o.Cells[0].Region = "" }, `cell "europe-1": region: is empty`},
		"nameless cell":           {func(o *central.Options) { o.Cells[0].Name = "" }, "name of a cell: is empty"},
		"cell twice":              {func(o *central.Options) { o.Cells[0].Name = "asia-1" }, `cell "asia-1": is there twice`},
		"shards of nowhere":       {func(o *central.Options) { o.CascadeShards = map[string][]int{"atlantis": {0}} }, `cascade shards of geography "atlantis": it is none of`},
		"shard twice":             {func(o *central.Options) { o.CascadeShards = map[string][]int{"asia": {1, 1}} }, `cascade shards of geography "asia": [1 1]`},
		"shard below nought":      {func(o *central.Options) { o.CascadeShards = map[string][]int{"asia": {-1}} }, `cascade shards of geography "asia": [-1]`},
		"interval":                {func(o *central.Options) { o.Interval = time.Hour }, "interval 1h0m0s"},
		"API server":              {func(o *central.Options) { o.APIServer.URL = "https://" }, "API server URL"},
		"static geography":        {func(o *central.Options) { *o = static(); o.Static.Cascades["mars"] = nil }, `cascades of geography "mars"`},
		"static cascade":          {func(o *central.Options) { *o = static(); o.Static.Cascades["asia"] = []string{"x"} }, `cascade of "asia"`},
		"static replica":          {func(o *central.Options) { *o = static(); o.Static.Centrals["c"] = "a:1" }, `central "c": is none of`},
		"static alertmanager":     {func(o *central.Options) { *o = static(); o.Static.Alertmanagers[0] = "x" }, "Alertmanager"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			tc.change(&o)
			_, err := central.Render(o)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, fmt.Sprintf("central %q", o.Replica))
		})
	}
}

// What a central says of the fleet comes to every central under another name, so
// that it is not summed with what that one says itself.
func TestACentralHearsWhatEveryCentralSays(t *testing.T) {
	files, err := central.Render(static())
	require.NoError(t, err)
	cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
	require.NoError(t, err)
	i := slices.IndexFunc(cfg.ScrapeConfigs, func(s *config.ScrapeConfig) bool { return s.JobName == "federate-central" })
	job := cfg.ScrapeConfigs[i]
	contract, err := rules.Load()
	require.NoError(t, err)
	for _, name := range job.Params["match[]"] {
		require.NoError(t, contract.Readable(name, rules.Central))
		b := labels.NewBuilder(labels.FromStrings("__name__", name, "central_replica", "b"))
		require.True(t, relabel.ProcessBuilder(b, job.MetricRelabelConfigs...))
		peer := b.Labels()
		require.NotEqual(t, name, peer.Get("__name__"))
		require.NoError(t, contract.Readable(peer.Get("__name__"), rules.Central))
		require.Equal(t, "b", peer.Get("central_replica"))
	}
}

func BenchmarkRender(b *testing.B) {
	for _, cells := range []int{3, 300, 3000} {
		o := options()
		o.Cells = nil
		for i := range cells {
			o.Cells = append(o.Cells, central.Cell{Geography: "asia", Region: "r", Name: fmt.Sprintf("cell-%04d", i)})
		}
		b.Run(fmt.Sprintf("cells=%d", cells), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := central.Render(o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
