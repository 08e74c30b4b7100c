package edge_test

import (
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/rules"
)

func pushing() edge.Options {
	o := options()
	o.Link = promcfg.Link{Kind: promcfg.Push, Credentials: promcfg.Credentials{CAFile: "../link/ca.crt", BearerFile: "../link/token"}}
	o.Receivers = []promcfg.Receiver{
		{Name: "cascade-asia-1", URL: "https://cascade-asia-1.example/api/v1/write"},
		{Name: "cascade-asia-0", URL: "https://cascade-asia-0.example/api/v1/write"},
	}
	return o
}

func loaded(t *testing.T, o edge.Options) *config.Config {
	t.Helper()
	files, err := edge.Render(o)
	require.NoError(t, err)
	require.NoError(t, promcfg.Validate(files))
	cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
	require.NoError(t, err)
	return cfg
}

// A cell that moves has two shards, and its edge writes to both.
func TestAnEdgeWritesToEachShardOfItsCell(t *testing.T) {
	o := pushing()
	files, err := edge.Render(o)
	require.NoError(t, err)
	fixed := pushing()
	fixed.Contract = small()
	golden, err := edge.Render(fixed)
	require.NoError(t, err)
	promcfgtest.Golden(t, "push", golden, rules.FileNames(rules.Edge)[1:]...)
	o.Receivers[0], o.Receivers[1] = o.Receivers[1], o.Receivers[0]
	again, err := edge.Render(o)
	require.NoError(t, err)
	require.Equal(t, files, again, "the order of receivers must not matter")
	require.Equal(t, []string{promcfg.FlushFlag}, o.Flags())
	cfg := loaded(t, o)
	require.Len(t, cfg.RemoteWriteConfigs, 2)
	contract, err := rules.Load()
	require.NoError(t, err)
	for _, w := range cfg.RemoteWriteConfigs {
		require.EqualValues(t, promcfg.WriteV2, w.ProtobufMessage)
		keep := w.WriteRelabelConfigs[0]
		for _, s := range contract.Series {
			for _, name := range s.Kind.Names(s.Name) {
				crosses := s.From == rules.Edge && s.To != rules.Edge
				require.Equal(t, crosses, keep.Regex.MatchString(name), name)
			}
		}
		require.False(t, keep.Regex.MatchString("up"))
	}
}

func TestAnEdgeThatIsReadWritesNothing(t *testing.T) {
	o := pushing()
	o.Link = promcfg.Link{}
	require.Empty(t, loaded(t, o).RemoteWriteConfigs)
	require.Equal(t, pushing().Flags(), o.Flags(), "a change of link restarts no edge")
	o = pushing()
	o.Receivers = nil
	require.Empty(t, loaded(t, o).RemoteWriteConfigs, "a cascade may not be known yet")
	require.Equal(t, pushing().Flags(), o.Flags())
}

func TestAContractOfOnesOwnCrosses(t *testing.T) {
	o := pushing()
	o.Contract = &rules.Contract{Series: []rules.Series{{
		Name: "team:latency:seconds", Kind: rules.Histogram, Labels: []string{"team"}, From: rules.Edge, To: rules.Cascade, Max: rules.Max{Per: "cell", Series: 1},
	}}}
	steps := loaded(t, o).RemoteWriteConfigs[0].WriteRelabelConfigs
	require.Equal(t, "team:latency:seconds_bucket|team:latency:seconds_count|team:latency:seconds_sum", steps[0].Regex.String())
	require.True(t, steps[1].Regex.MatchString("team"))
	require.True(t, steps[1].Regex.MatchString("edge_replica"))
	require.False(t, steps[1].Regex.MatchString("job"))
}

func TestRenderRefusesLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*edge.Options)
		want   string
	}{
		"unknown kind":   {func(o *edge.Options) { o.Link.Kind = "Mail" }, `edge of cell "asia-1": link: kind "Mail" is neither`},
		"receiver twice": {func(o *edge.Options) { o.Receivers[1] = o.Receivers[0] }, `edge of cell "asia-1": cascade to write to "cascade-asia-1": its name or its URL`},
		"open token": {
			func(o *edge.Options) { o.Receivers[0].URL = "http://a/write" }, `"cascade-asia-1": has files or a name for TLS`,
		},
		"absolute path": {func(o *edge.Options) { o.Link.Credentials.CAFile = "/etc/ca.crt" }, `CA file "/etc/ca.crt": must be relative`},
		"timeout":       {func(o *edge.Options) { o.Link = promcfg.Link{Timeout: 6 * time.Second} }, "link: scrape timeout 6s is above the interval of 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			o := pushing()
			tc.change(&o)
			_, err := edge.Render(o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
