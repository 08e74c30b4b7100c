package alerting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

const (
	// nobody is the receiver of alerts that no person is told of.
	nobody = "nobody"
	// heartbeat is the receiver that is told that alerts flow.
	heartbeat = "heartbeat"
	// watchdog is the alert that always fires.
	watchdog = "PharosWatchdog"
)

type config struct {
	Route        route         `yaml:"route"`
	InhibitRules []inhibitRule `yaml:"inhibit_rules"`
	Receivers    []receiver    `yaml:"receivers"`
}

type route struct {
	Receiver       string          `yaml:"receiver,omitempty"`
	GroupBy        []string        `yaml:"group_by,omitempty,flow"`
	GroupWait      *model.Duration `yaml:"group_wait,omitempty"`
	GroupInterval  *model.Duration `yaml:"group_interval,omitempty"`
	RepeatInterval *model.Duration `yaml:"repeat_interval,omitempty"`
	Matchers       []string        `yaml:"matchers,omitempty"`
	Continue       bool            `yaml:"continue,omitempty"`
	Routes         []route         `yaml:"routes,omitempty"`
}

type inhibitRule struct {
	SourceMatchers []string `yaml:"source_matchers"`
	TargetMatchers []string `yaml:"target_matchers"`
	Equal          []string `yaml:"equal,omitempty,flow"`
}

type receiver struct {
	Name     string    `yaml:"name"`
	Webhooks []webhook `yaml:"webhook_configs,omitempty"`
}

type webhook struct {
	URL          string `yaml:"url,omitempty"`
	URLFile      string `yaml:"url_file,omitempty"`
	SendResolved bool   `yaml:"send_resolved"`
}

// routes sends the watchdog to the heartbeat, if there is one, and every other
// alert to every robot.
func routes(o Options) route {
	wait := promcfg.Duration(o.GroupWait)
	interval, repeat := promcfg.Duration(o.GroupInterval), promcfg.Duration(o.RepeatInterval)
	urgent := max(repeat/4, interval)
	root := route{
		Receiver:       nobody,
		GroupBy:        []string{"alertname", "geography", "cell", "cluster"},
		GroupWait:      &wait,
		GroupInterval:  &interval,
		RepeatInterval: &repeat,
	}
	if o.Heartbeat != nil {
		root.Routes = append(root.Routes, beats(o.Heartbeat.Interval))
	}
	root.Routes = append(root.Routes, route{Receiver: nobody, Matchers: []string{equals("severity", "none")}})
	for _, robot := range o.Robots {
		root.Routes = append(root.Routes, route{
			Receiver: receiverName(robot),
			Continue: true,
			Routes:   []route{{Matchers: []string{equals("severity", "critical")}, RepeatInterval: &urgent}},
		})
	}
	return root
}

// beats tells the heartbeat of the watchdog at each interval. A group is looked at
// once in its interval, and what was told less than repeat_interval ago is not told
// again: were the two equal, a look that is early by a hair would leave one out.
func beats(every time.Duration) route {
	wait, interval, repeat := promcfg.Duration(0), promcfg.Duration(every), promcfg.Duration(every/2)
	return route{
		Receiver: heartbeat, Matchers: []string{equals("alertname", watchdog)}, GroupBy: []string{"alertname"},
		GroupWait: &wait, GroupInterval: &interval, RepeatInterval: &repeat,
	}
}

// inhibitions keep the cause and drop the symptoms. Labels that both alerts
// lack count as equal.
func inhibitions() []inhibitRule {
	cellOf := []string{"geography", "region", "cell"}
	clusterOf := append(slices.Clone(cellOf), "cluster")
	return append([]inhibitRule{
		{
			// Who waits for the watchdog is the only one left to call somebody when
			// people cannot be told: then it must fall silent.
			SourceMatchers: []string{equals("alertname", "PharosPeopleUntold")},
			TargetMatchers: []string{equals("alertname", watchdog)},
		},
		{
			// Whatever is about a cluster is held while its cell cannot be seen.
			SourceMatchers: []string{equals("alertname", "PharosCellStale")},
			TargetMatchers: []string{`cluster=~".+"`},
			Equal:          cellOf,
		},
		{
			// One dead cascade is one message, and not one for each cell that it cuts off.
			SourceMatchers: []string{equals("alertname", "PharosCascadeStale")},
			TargetMatchers: []string{equals("alertname", "PharosCellStale"), equals("because", "cascade")},
			Equal:          []string{"geography"},
		},
		{
			// Why a cell is stale is said by PharosCellStale.
			SourceMatchers: []string{equals("alertname", "PharosCellStale")},
			TargetMatchers: []string{among([]string{"PharosCellUnreachable", "PharosEdgeDown", "PharosCellClockAhead", "PharosValuesImpossible"})},
			Equal:          cellOf,
		},
		{
			// Whatever makes a view partial is a cell that is stale.
			SourceMatchers: []string{equals("alertname", "PharosCellStale")},
			TargetMatchers: []string{equals("alertname", "PharosPartialView")},
		},
		{
			SourceMatchers: []string{equals("alertname", "PharosClusterDown")},
			TargetMatchers: []string{among(seenByItsWatch())},
			Equal:          clusterOf,
		},
	}, slices.Concat(ofNodes(clusterOf), warnings(cellOf, clusterOf))...)
}

// warnings are muted by the alert that says the same of the same thing, and worse.
func warnings(cellOf, clusterOf []string) []inhibitRule {
	mutes := func(worse, warning string, equal ...string) inhibitRule {
		return inhibitRule{
			SourceMatchers: []string{equals("alertname", worse)},
			TargetMatchers: []string{equals("alertname", warning)},
			Equal:          equal,
		}
	}
	return []inhibitRule{
		mutes("PharosAPIServerBurn", "PharosAPIServerBurnSlow", append(slices.Clone(clusterOf), "slo")...),
		mutes("PharosEtcdFull", "PharosEtcdNearQuota", clusterOf...),
		mutes("PharosMetaClusterFailing", "PharosMetaPodsFailing", append(slices.Clone(clusterOf), "trouble")...),
		mutes("PharosNodesUnderPressure", "PharosNodeCondition", append(slices.Clone(clusterOf), "condition")...),
		mutes("PharosAlertsUndelivered", "PharosAlertmanagerUnreachable", "central"),
		mutes("PharosCertificateEnding", "PharosCertificateExpiring", clusterOf...),
		mutes("PharosCapacityExhausted", "PharosCapacityRunningOut", append(slices.Clone(cellOf), "pool")...),
	}
}

// seenByItsWatch are the alerts about what is seen through the API server of a
// cluster, so that they say nothing new while it is down.
func seenByItsWatch() []string {
	return []string{
		"PharosNodeNotReady", "PharosRackNotReady", "PharosManyNodesNotReady", "PharosNodeCondition",
		"PharosWorkloadsFailing", "PharosMetaPodsFailing", "PharosMetaClusterFailing", "PharosPodsUnknown",
		"PharosNodesUnderPressure", "PharosAgentScrapesFailing", "PharosAPIServerBurn", "PharosAPIServerBurnSlow",
	}
}

// ofNodes keep what many nodes share and drop the single nodes.
func ofNodes(clusterOf []string) []inhibitRule {
	many := equals("alertname", "PharosManyNodesNotReady")
	rules := []inhibitRule{
		{
			SourceMatchers: []string{equals("alertname", "PharosRackNotReady")},
			TargetMatchers: []string{equals("alertname", "PharosNodeNotReady")},
			Equal:          append(slices.Clone(clusterOf), "zone", "rack"),
		},
		{
			SourceMatchers: []string{many, equals("domain", "cluster")},
			TargetMatchers: []string{equals("alertname", "PharosNodeNotReady")},
			Equal:          clusterOf,
		},
		{
			SourceMatchers: []string{many, equals("domain", "cluster")},
			TargetMatchers: []string{many, `domain=~"zone|pool"`},
			Equal:          clusterOf,
		},
	}
	for _, domain := range []string{"zone", "pool"} {
		rules = append(rules, inhibitRule{
			SourceMatchers: []string{many, equals("domain", domain)},
			TargetMatchers: []string{equals("alertname", "PharosNodeNotReady")},
			Equal:          append(slices.Clone(clusterOf), domain),
		})
	}
	return rules
}

// among is a matcher of alerts by their names.
func among(alerts []string) string { return fmt.Sprintf("alertname=~%q", strings.Join(alerts, "|")) }

// equals is a matcher in the only spelling that every version reads alike.
func equals(label, value string) string { return fmt.Sprintf("%s=%q", label, value) }
