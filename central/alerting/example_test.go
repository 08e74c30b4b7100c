package alerting_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central/alerting"
	"github.com/pharos-fleet/pharos/central/alerting/alertingtest"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// example is the configuration that is given to who runs Alertmanagers already, as it is
// written but for the folder of its secrets.
func example(t *testing.T) promcfg.Files {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "deploy", "examples", "alertmanager.yml"))
	require.NoError(t, err)
	secrets := t.TempDir()
	for _, name := range []string{"mail/password", "heartbeat/url", "pager/url"} {
		require.NoError(t, os.MkdirAll(filepath.Join(secrets, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(secrets, name), []byte("http://127.0.0.1:1/"), 0o600))
	}
	return promcfg.Files{alerting.ConfigFile: bytes.ReplaceAll(raw, []byte("/etc/alertmanager/secrets"), []byte(secrets))}
}

// The example has the inhibitions of the Alertmanagers that Pharos runs, and tells the
// heartbeat, the pager, the relay and the mail what each is for.
func TestTheExampleForOwnAlertmanagersTellsWhoItShould(t *testing.T) {
	files := example(t)
	amtool(t, files)
	cfg, err := config.Load(string(files[alerting.ConfigFile]))
	require.NoError(t, err)
	_, ours := load(t, options())
	require.Equal(t, ours.InhibitRules, cfg.InhibitRules, "copy them from central/alerting/testdata/cluster/alertmanager.yml")
	route := dispatch.NewRoute(cfg.Route, nil)
	for alert, want := range map[string]struct {
		labels    model.LabelSet
		receivers []string
	}{
		"the watchdog":       {model.LabelSet{"alertname": "PharosWatchdog", "severity": "none"}, []string{"heartbeat"}},
		"what tells nobody":  {model.LabelSet{"alertname": "X", "severity": "none"}, []string{"nobody"}},
		"what is critical":   {model.LabelSet{"alertname": "PharosCellStale", "severity": "critical"}, []string{"pager", "dingtalk-oncall", "mail-operations"}},
		"what is a warning":  {model.LabelSet{"alertname": "PharosEdgeDown", "severity": "warning"}, []string{"dingtalk-oncall", "mail-operations"}},
		"what has no weight": {model.LabelSet{"alertname": "Theirs"}, []string{"dingtalk-oncall", "mail-operations"}},
	} {
		var told []string
		for _, r := range route.Match(want.labels) {
			told = append(told, r.RouteOpts.Receiver)
		}
		require.Equal(t, want.receivers, told, alert)
	}
}

// A stock Alertmanager with the example names each of its receivers in its metrics, by
// which Pharos knows whether people can be told by it (0010).
func TestTheExampleForOwnAlertmanagersNamesItsReceivers(t *testing.T) {
	a := alertingtest.Member(t, alertingtest.Free(t, loopback), t.TempDir(), 0, nil, example(t)).Ready(t)
	page, err := a.Get("/metrics")
	require.NoError(t, err)
	for receiver, by := range map[string]string{"pager": "webhook", "dingtalk-oncall": "webhook", "heartbeat": "webhook", "mail-operations": "email"} {
		for _, name := range []string{"alertmanager_notification_requests_total", "alertmanager_notification_requests_failed_total"} {
			require.Contains(t, string(page), name+`{integration="`+by+`",receiver_name="`+receiver+`"} 0`)
		}
	}
}
