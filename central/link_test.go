package central_test

import (
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/rules"
)

func stored() central.Options {
	o := static()
	o.Link = promcfg.Link{Kind: promcfg.Push}
	o.LongTerm = []central.LongTerm{
		{Name: "victoria", URL: "http://victoria:8428/api/v1/write"},
		{Name: "mimir", URL: "https://mimir/api/v1/push", Message: promcfg.WriteV2, Credentials: promcfg.Credentials{BearerFile: "../stores/mimir/token"}},
	}
	return o
}

func loaded(t *testing.T, o central.Options) *config.Config {
	t.Helper()
	files, err := central.Render(o)
	require.NoError(t, err)
	require.NoError(t, promcfg.Validate(files))
	cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
	require.NoError(t, err)
	return cfg
}

func TestRenderStoresAsPrometheusAcceptsThem(t *testing.T) {
	files, err := central.Render(stored())
	require.NoError(t, err)
	promcfgtest.Golden(t, "stored", files, rules.FileNames(rules.Central)[1:]...)
	require.NoError(t, promcfg.Validate(files))
	o := stored()
	o.LongTerm[0], o.LongTerm[1] = o.LongTerm[1], o.LongTerm[0]
	again, err := central.Render(o)
	require.NoError(t, err)
	require.Equal(t, files, again, "the order of stores must not matter")
}

// A store gets everything recorded that there is at a central, with every label
// that says who told: without central_replica, the two centrals would write
// different samples into one series.
func TestAStoreGetsWhatACentralKeeps(t *testing.T) {
	cfg := loaded(t, stored())
	require.Len(t, cfg.RemoteWriteConfigs, 2)
	require.EqualValues(t, promcfg.WriteV2, cfg.RemoteWriteConfigs[0].ProtobufMessage)
	require.EqualValues(t, promcfg.WriteV1, cfg.RemoteWriteConfigs[1].ProtobufMessage, "what every store understands")
	contract, err := rules.Load()
	require.NoError(t, err)
	for _, w := range cfg.RemoteWriteConfigs {
		name, label := w.WriteRelabelConfigs[0].Regex, w.WriteRelabelConfigs[1].Regex
		for _, s := range contract.Series {
			for _, n := range s.Kind.Names(s.Name) {
				require.Equal(t, s.To == rules.Central, name.MatchString(n), n)
			}
		}
		for _, n := range []string{"up", "ALERTS", "pharos_remediator_rounds_total"} {
			require.False(t, name.MatchString(n), n)
		}
		for _, l := range rules.Tellers() {
			require.True(t, label.MatchString(l), l)
		}
	}
}

func TestACentralReadsOrIsWrittenTo(t *testing.T) {
	jobs := func(o central.Options) []string {
		var out []string
		for _, job := range loaded(t, o).ScrapeConfigs {
			out = append(out, job.JobName)
		}
		return out
	}
	require.Empty(t, static().Flags())
	require.Equal(t, []string{"central", "federate-cascade", "federate-central", "alertmanager"}, jobs(static()))
	require.Zero(t, loaded(t, static()).StorageConfig.TSDBConfig.OutOfOrderTimeWindowFlag)
	require.Equal(t, []string{promcfg.ReceiveFlag, promcfg.FlushFlag}, stored().Flags())
	require.Equal(t, []string{"central", "cascade", "federate-central", "alertmanager"}, jobs(stored()), "whether a cascade answers is known all the same")
	require.Equal(t, model.Duration(4*time.Hour), loaded(t, stored()).StorageConfig.TSDBConfig.OutOfOrderTimeWindowFlag)
}

func TestRenderRefusesLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*central.Options)
		want   string
	}{
		"unknown kind":  {func(o *central.Options) { o.Link.Kind = "Mail" }, `link: kind "Mail" is neither`},
		"timeout":       {func(o *central.Options) { o.Link = promcfg.Link{Timeout: 6 * time.Second} }, "link: scrape timeout 6s is above the interval of 5s"},
		"open token":    {func(o *central.Options) { o.Link = promcfg.Link{Credentials: promcfg.Credentials{BearerFile: "t"}} }, `link: would send the token in "t" over plain http`},
		"store twice":   {func(o *central.Options) { o.LongTerm[1].Name = "victoria" }, `long-term store "victoria": its name or its URL`},
		"nameless":      {func(o *central.Options) { o.LongTerm[0].Name = "" }, "long-term store: name: is empty"},
		"no URL":        {func(o *central.Options) { o.LongTerm[0].URL = "victoria:8428" }, `long-term store "victoria": "victoria:8428" is not an absolute URL`},
		"password":      {func(o *central.Options) { o.LongTerm[0].URL = "http://me:secret@victoria/write" }, `long-term store "victoria": the URL has a password in it`},
		"message":       {func(o *central.Options) { o.LongTerm[0].Message = "3.0" }, `long-term store "victoria": message "3.0" is neither`},
		"its own token": {func(o *central.Options) { o.LongTerm[1].URL = "http://mimir/" }, `long-term store "mimir": would send the token`},
		"key alone":     {func(o *central.Options) { o.LongTerm[1].Credentials.KeyFile = "key" }, `long-term store "mimir": credentials: certificate file "" and key file "key"`},
	} {
		t.Run(name, func(t *testing.T) {
			o := stored()
			tc.change(&o)
			_, err := central.Render(o)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}
