package central_test

import (
	"testing"

	"github.com/prometheus/prometheus/config"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// theirs is a fleet that sends to Alertmanagers of others as well.
func theirs() central.Options {
	o := options()
	o.Existing = []central.Alertmanager{
		{Name: "old", URL: "https://am.example.org/alerts/", BearerFile: "../secrets/alertmanager-old/token"},
		{Name: "lab", URL: "http://[2001:db8::7]"},
	}
	return o
}

func jobs(t *testing.T, cfg *config.Config) map[string]*config.ScrapeConfig {
	t.Helper()
	scrapes, err := cfg.GetScrapeConfigs()
	require.NoError(t, err)
	out := map[string]*config.ScrapeConfig{}
	for _, s := range scrapes {
		out[s.JobName] = s
	}
	return out
}

// An Alertmanager of somebody else is sent to and scraped where it is, under its
// prefix, at the port that its scheme has.
func TestEveryAlertmanagerIsSentToAndScraped(t *testing.T) {
	cfg := loaded(t, theirs())
	files, err := central.Render(theirs())
	require.NoError(t, err)
	managers, scraped := cfg.AlertingConfig.AlertmanagerConfigs, jobs(t, cfg)
	require.Len(t, managers, 3)
	lab, old := managers[1], managers[2]
	require.Equal(t, []string{"http", ""}, []string{lab.Scheme, lab.PathPrefix})
	require.Equal(t, []string{"https", "/alerts"}, []string{old.Scheme, old.PathPrefix})
	require.Equal(t, "../secrets/alertmanager-old/token", old.HTTPClientConfig.Authorization.CredentialsFile)
	require.Contains(t, string(files[promcfg.ConfigFile]), "'[2001:db8::7]:80'")
	require.Contains(t, string(files[promcfg.ConfigFile]), "am.example.org:443")
	require.Equal(t, "/alerts/metrics", scraped["alertmanager-old"].MetricsPath)
	require.Equal(t, "/metrics", scraped["alertmanager-lab"].MetricsPath)
	require.Equal(t, "../secrets/alertmanager-old/token", scraped["alertmanager-old"].HTTPClientConfig.Authorization.CredentialsFile)
	require.NotNil(t, scraped["alertmanager"])
	expected := string(files[rules.TopologyFileName])
	require.Regexp(t, `central:alertmanagers_expected:count\n +expr: vector\(2\)`, expected, "those of others do not count")
	require.Regexp(t, `central:robot_expected:info\n +expr: vector\(1\)\n +labels:\n +robot: duty`, expected)
}

// A team that runs its own Alertmanagers has none of Pharos'.
func TestNoneButTheirs(t *testing.T) {
	o := theirs()
	o.Alertmanagers = 0
	cfg := loaded(t, o)
	files, err := central.Render(o)
	require.NoError(t, err)
	require.Len(t, cfg.AlertingConfig.AlertmanagerConfigs, 2)
	require.NotContains(t, jobs(t, cfg), "alertmanager")
	require.Regexp(t, `central:alertmanagers_expected:count\n +expr: vector\(0\)`, string(files[rules.TopologyFileName]))
}

// named has the second Alertmanager at a URL.
func named(url string) func(*central.Options) {
	return func(o *central.Options) { o.Existing[1].URL = url }
}

func TestRenderRefusesAlertmanagersThatCannotWork(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*central.Options)
		want   string
	}{
		"name twice":       {func(o *central.Options) { o.Existing[0].Name = "lab" }, `Alertmanager "lab": its name is there twice`},
		"URL twice":        {func(o *central.Options) { o.Existing[1].URL = o.Existing[0].URL }, `Alertmanager "old": https://am.example.org/alerts/ is the one called "lab" already`},
		"case":             {named("HTTPS://AM.example.org./alerts"), `is the one called "lab" already`},
		"usual port":       {named("https://am.example.org:0443/alerts//"), `an empty step`},
		"port and slash":   {named("https://am.example.org:443/alerts"), `is the one called "lab" already`},
		"scheme":           {named("http://am.example.org:443/alerts"), `is the one called "lab" already`},
		"steps up":         {named("https://am/x/../alerts"), `has .., ., an empty step`},
		"step up at last":  {named("https://am/x/.."), `has .., ., an empty step`},
		"hidden slash":     {named("https://am/x%2Falerts"), `or a percent sign in its path`},
		"hidden steps":     {named("https://am/x/%2e%2E/alerts"), `or a percent sign in its path`},
		"credentials":      {named("https://me:secret@am/x"), `"https://me:xxxxx@am/x" has a user or a query`},
		"query":            {named("https://am/x?a=b"), `has a user or a query`},
		"no name":          {func(o *central.Options) { o.Existing[0].Name = "" }, "name: is empty"},
		"no URL":           {func(o *central.Options) { o.Existing[0].URL = "am:9093" }, `Alertmanager "old": URL`},
		"token over http":  {func(o *central.Options) { o.Existing[0].URL = "http://am" }, "over plain http, for everybody to read: say https"},
		"robot twice":      {func(o *central.Options) { o.Robots[0] = "duty" }, `robot "duty": is there twice`},
		"robot of no name": {func(o *central.Options) { o.Robots[0] = "" }, "name of a robot: is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			o := theirs()
			tc.change(&o)
			_, err := central.Render(o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
