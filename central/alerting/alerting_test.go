package alerting_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central/alerting"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

func options() alerting.Options {
	return alerting.Options{Robots: []string{"oncall", "duty"}, GroupWait: time.Second, GroupInterval: 5 * time.Second}
}

func TestRenderIsWhatBothAlertmanagersAccept(t *testing.T) {
	nobody := options()
	nobody.Robots = nil
	local := options()
	local.NotifyURL = "http://127.64.128.9:9095/"
	local.GroupWait = 0
	beating := options()
	beating.Heartbeat = &alerting.Heartbeat{URLFile: "/etc/secrets/heartbeat/url", Interval: time.Minute}
	for name, o := range map[string]alerting.Options{"cluster": options(), "nobody": nobody, "local": local, "heartbeat": beating} {
		t.Run(name, func(t *testing.T) {
			files, err := alerting.Render(o)
			require.NoError(t, err)
			promcfgtest.Golden(t, name, files)
			_, err = config.Load(string(files[alerting.ConfigFile]))
			require.NoError(t, err)
			amtool(t, files)
			slices.Reverse(o.Robots)
			again, err := alerting.Render(o)
			require.NoError(t, err)
			require.Equal(t, files, again, "the order of robots must not matter")
		})
	}
}

// amtool is the older of the two versions that must accept the file.
func amtool(t *testing.T, files promcfg.Files) {
	t.Helper()
	path := filepath.Join(t.TempDir(), alerting.ConfigFile)
	require.NoError(t, os.WriteFile(path, files[alerting.ConfigFile], 0o600))
	out, err := exec.Command(testkit.Binary(t, "amtool"), "check-config", path).CombinedOutput()
	require.NoError(t, err, "amtool check-config:\n%s", out)
}

func TestEveryAlertReachesEveryRobotAndTheWatchdogNobody(t *testing.T) {
	tree, cfg := load(t, options())
	for name, tc := range map[string]struct {
		labels    model.LabelSet
		receivers []string
		repeat    time.Duration
	}{
		"warning":  {model.LabelSet{"alertname": "PharosNodeNotReady", "severity": "warning"}, []string{"dingtalk-duty", "dingtalk-oncall"}, 4 * time.Hour},
		"critical": {model.LabelSet{"alertname": "PharosCellStale", "severity": "critical"}, []string{"dingtalk-duty", "dingtalk-oncall"}, time.Hour},
		"unknown":  {model.LabelSet{"alertname": "SomebodyElses"}, []string{"dingtalk-duty", "dingtalk-oncall"}, 4 * time.Hour},
		"watchdog": {model.LabelSet{"alertname": "PharosWatchdog", "severity": "none"}, []string{"nobody"}, 4 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var receivers []string
			for _, r := range tree.Match(tc.labels) {
				receivers = append(receivers, r.RouteOpts.Receiver)
				require.Equal(t, tc.repeat, r.RouteOpts.RepeatInterval)
				require.Equal(t, time.Second, r.RouteOpts.GroupWait)
				require.Contains(t, r.RouteOpts.GroupBy, model.LabelName("cluster"))
			}
			require.Equal(t, tc.receivers, receivers)
		})
	}
	require.Len(t, cfg.Receivers, 3)
	for _, r := range cfg.Receivers[1:] {
		require.True(t, r.WebhookConfigs[0].SendResolved())
	}
}

// The heartbeat alone is told of the watchdog, at each look at its group, and of no
// end: silence is the end. It falls silent when people cannot be told.
func TestTheHeartbeatIsToldThatAlertsFlow(t *testing.T) {
	o := options()
	o.Heartbeat = &alerting.Heartbeat{URLFile: "/etc/secrets/heartbeat/url", Interval: time.Minute}
	tree, cfg := load(t, o)
	beats := tree.Match(model.LabelSet{"alertname": "PharosWatchdog", "severity": "none"})
	require.Len(t, beats, 1)
	require.Equal(t, "heartbeat", beats[0].RouteOpts.Receiver)
	require.Equal(t, time.Minute, beats[0].RouteOpts.GroupInterval)
	require.Less(t, beats[0].RouteOpts.RepeatInterval, time.Minute)
	require.Zero(t, beats[0].RouteOpts.GroupWait)
	for _, r := range cfg.Receivers {
		if r.Name == "heartbeat" {
			require.False(t, r.WebhookConfigs[0].SendResolved())
		}
	}
	others := tree.Match(model.LabelSet{"alertname": "SomebodyElses", "severity": "none"})
	require.Equal(t, "nobody", others[0].RouteOpts.Receiver)
	untold, watchdog := model.LabelSet{"alertname": "PharosPeopleUntold"}, model.LabelSet{"alertname": "PharosWatchdog", "severity": "none"}
	require.True(t, silences(cfg, untold, watchdog), "who waits for it is the only one left to call somebody")
	require.False(t, silences(cfg, model.LabelSet{"alertname": "PharosMessagesWaiting"}, watchdog))
}

func load(t *testing.T, o alerting.Options) (*dispatch.Route, *config.Config) {
	t.Helper()
	files, err := alerting.Render(o)
	require.NoError(t, err)
	cfg, err := config.Load(string(files[alerting.ConfigFile]))
	require.NoError(t, err)
	return dispatch.NewRoute(cfg.Route, nil), cfg
}

func TestACauseSilencesItsSymptomsOnly(t *testing.T) {
	_, cfg := load(t, options())
	rack := model.LabelSet{"alertname": "PharosRackNotReady", "cell": "asia-1", "cluster": "shop", "zone": "z", "rack": "rack-1"}
	cell := model.LabelSet{"alertname": "PharosCellStale", "cell": "asia-1"}
	node := model.LabelSet{"alertname": "PharosNodeNotReady", "cell": "asia-1", "cluster": "shop", "zone": "z", "rack": "rack-1", "node": "n"}
	other := node.Merge(model.LabelSet{"rack": "rack-2"})
	elsewhere := node.Merge(model.LabelSet{"cell": "asia-2"})
	require.True(t, silences(cfg, rack, node))
	require.False(t, silences(cfg, rack, other), "a node of another rack")
	require.False(t, silences(cfg, rack, elsewhere), "a rack of the same name in another cell")
	require.False(t, silences(cfg, node, rack), "the symptom must not silence the cause")
	require.True(t, silences(cfg, cell, node))
	require.True(t, silences(cfg, cell, rack))
	require.True(t, silences(cfg, cell, model.LabelSet{"alertname": "PharosPartialView"}), "one dead edge pages once")
	down := model.LabelSet{"alertname": "PharosClusterDown", "cell": "asia-1", "cluster": "shop"}
	require.True(t, silences(cfg, cell, down))
	require.True(t, silences(cfg, down, node))
	require.True(t, silences(cfg, down, rack))
	require.False(t, silences(cfg, down, node.Merge(model.LabelSet{"cluster": "bank"})), "a node of another cluster")
	require.False(t, silences(cfg, cell, elsewhere))
	disk := model.LabelSet{"alertname": "PharosNodeDiskFilling", "cell": "asia-1", "cluster": "shop", "node": "n"}
	require.True(t, silences(cfg, cell, disk), "whatever is held while the cell cannot be seen")
	require.False(t, silences(cfg, down, disk), "a node exporter is read without the API server")
	require.True(t, silences(cfg, down, model.LabelSet{"alertname": "PharosWorkloadsFailing", "cell": "asia-1", "cluster": "shop"}))
	require.False(t, silences(cfg, cell, model.LabelSet{"alertname": "PharosContractBreach", "cell": "asia-1"}), "why it may be stale")
}

// TestADeadCascadeIsOneMessage has a cascade of two that is dead, cells that it
// cut off, and one of the other cascade that died by itself.
func TestADeadCascadeIsOneMessage(t *testing.T) {
	_, cfg := load(t, options())
	cascade := model.LabelSet{"alertname": "PharosCascadeStale", "geography": "asia", "cascade_shard": "1"}
	dead := model.LabelSet{"alertname": "PharosCellStale", "geography": "asia", "region": "east", "cell": "asia-1"}
	cut := dead.Merge(model.LabelSet{"because": "cascade"})
	require.True(t, silences(cfg, cascade, cut))
	require.False(t, silences(cfg, cascade, dead), "a cell that is dead by itself")
	require.False(t, silences(cfg, cascade, cut.Merge(model.LabelSet{"geography": "europe"})), "another geography")
	require.False(t, silences(cfg, cut, cascade), "the symptom must not silence the cause")
	for _, why := range []model.LabelValue{"PharosCellUnreachable", "PharosEdgeDown", "PharosCellClockAhead", "PharosValuesImpossible"} {
		reason := dead.Merge(model.LabelSet{"alertname": why})
		require.True(t, silences(cfg, dead, reason), "one cell is one message")
		require.False(t, silences(cfg, reason, dead))
		require.False(t, silences(cfg, dead, reason.Merge(model.LabelSet{"cell": "asia-2"})))
	}
}

func TestWhatIsWorseSilencesItsWarning(t *testing.T) {
	_, cfg := load(t, options())
	etcd := model.LabelSet{"geography": "asia", "region": "east", "cell": "asia-1", "cluster": "shop"}
	burn, pool := etcd.Merge(model.LabelSet{"slo": "latency"}), model.LabelSet{"geography": "asia", "region": "east", "cell": "asia-1", "pool": "memory"}
	for _, tc := range []struct {
		of             model.LabelSet
		worse, warning model.LabelValue
		but            model.LabelSet
	}{
		{burn, "PharosAPIServerBurn", "PharosAPIServerBurnSlow", model.LabelSet{"slo": "availability"}},
		{etcd, "PharosEtcdFull", "PharosEtcdNearQuota", model.LabelSet{"cluster": "bank"}},
		{etcd.Merge(model.LabelSet{"trouble": "Pending"}), "PharosMetaClusterFailing", "PharosMetaPodsFailing", model.LabelSet{"trouble": "OOMKilled"}},
		{etcd.Merge(model.LabelSet{"condition": "PIDPressure"}), "PharosNodesUnderPressure", "PharosNodeCondition", model.LabelSet{"condition": "DiskPressure"}},
		{model.LabelSet{"central": "a"}, "PharosAlertsUndelivered", "PharosAlertmanagerUnreachable", model.LabelSet{"central": "b"}},
		{etcd, "PharosCertificateEnding", "PharosCertificateExpiring", model.LabelSet{"cluster": "bank"}},
		{pool, "PharosCapacityExhausted", "PharosCapacityRunningOut", model.LabelSet{"pool": "cpu"}},
	} {
		worse, warning := tc.of.Merge(model.LabelSet{"alertname": tc.worse}), tc.of.Merge(model.LabelSet{"alertname": tc.warning})
		require.True(t, silences(cfg, worse, warning), tc.worse)
		require.False(t, silences(cfg, warning, worse), "what is worse is told in any case")
		require.False(t, silences(cfg, worse, warning.Merge(tc.but)), "something else")
	}
}

func TestWhatManyNodesShareSilencesTheNodes(t *testing.T) {
	_, cfg := load(t, options())
	node := model.LabelSet{"alertname": "PharosNodeNotReady", "cell": "asia-1", "cluster": "shop", "zone": "z", "rack": "r", "pool": "p", "node": "n"}
	many := model.LabelSet{"alertname": "PharosManyNodesNotReady", "cell": "asia-1", "cluster": "shop", "domain": "cluster"}
	zone := many.Merge(model.LabelSet{"domain": "zone", "zone": "z"})
	pool := many.Merge(model.LabelSet{"domain": "pool", "pool": "p"})
	for _, cause := range []model.LabelSet{many, zone, pool} {
		require.True(t, silences(cfg, cause, node))
		require.False(t, silences(cfg, cause, node.Merge(model.LabelSet{"cluster": "bank"})), "a node of another cluster")
		require.False(t, silences(cfg, node, cause), "the symptom must not silence the cause")
		require.False(t, silences(cfg, cause, cause), "an alert that is its own cause")
	}
	require.False(t, silences(cfg, zone, node.Merge(model.LabelSet{"zone": "y"})), "a node of another zone")
	require.False(t, silences(cfg, pool, node.Merge(model.LabelSet{"pool": "q"})), "a node of another pool")
	require.True(t, silences(cfg, many, zone), "a whole cluster is one message")
	require.False(t, silences(cfg, zone, many))
}

// silences evaluates the inhibition rules as Alertmanager defines them.
func silences(cfg *config.Config, source, target model.LabelSet) bool {
	for _, rule := range cfg.InhibitRules {
		equal := labels.Matchers(rule.SourceMatchers).Matches(source) && labels.Matchers(rule.TargetMatchers).Matches(target)
		for _, label := range rule.Equal {
			equal = equal && source[model.LabelName(label)] == target[model.LabelName(label)]
		}
		if equal {
			return true
		}
	}
	return false
}

func TestRenderRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*alerting.Options)
		want   string
	}{
		"robot with a slash":   {func(o *alerting.Options) { o.Robots[0] = "a/b" }, `robot "a/b"`},
		"robot without a name": {func(o *alerting.Options) { o.Robots[0] = "" }, `robot ""`},
		"robot twice":          {func(o *alerting.Options) { o.Robots[0] = "duty" }, `robot "duty": is there twice`},
		"relay":                {func(o *alerting.Options) { o.NotifyURL = "notify:9095" }, "notify URL"},
		"negative wait":        {func(o *alerting.Options) { o.GroupWait = -1 }, "group wait -1ns"},
		"tiny interval":        {func(o *alerting.Options) { o.GroupInterval = time.Millisecond }, "group interval 1ms"},
		"heartbeat somewhere":  {func(o *alerting.Options) { o.Heartbeat = &alerting.Heartbeat{URLFile: "url", Interval: time.Minute} }, `heartbeat: file "url"`},
		"heartbeat that races": {func(o *alerting.Options) { o.Heartbeat = &alerting.Heartbeat{URLFile: "/url", Interval: 1} }, "interval 1ns"},
		"repeats too soon":     {func(o *alerting.Options) { o.RepeatInterval = time.Second }, "repeat interval 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			tc.change(&o)
			_, err := alerting.Render(o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
