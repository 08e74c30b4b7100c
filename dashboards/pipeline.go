package dashboards

import (
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// pipeline is whether the three tiers themselves work.
func pipeline() page {
	return page{
		uid: PipelineUID, title: "Pharos: pipeline",
		description: "The tiers themselves: who is heard of and how old that is, what they refuse, what fails in them, how large they are, whether the centrals agree, and what repairs come to.",
		panels:      slices.Concat(pipelineInNumbers(), lags(), failures(), sizes(), strains(), effect(), lastHop()),
	}
}

// cascadeShard tells shards of cascades apart.
const cascadeShard = "{{geography}} {{cascade_shard}}"

func pipelineInNumbers() []panel {
	return []panel{
		{
			kind: number, title: "Cells contributing", unit: units.Short, width: 6, height: 4,
			description: "Cells of which every edge shard is heard of, at most six intervals ago, and the cells that there should be.",
			queries:     []query{{"fleet:cells_contributing:count", "contributing", ""}, {"fleet:cells_expected:count", "expected", ""}},
			runbook:     "PharosPartialView", opens: toGeography(),
		},
		{
			kind: number, title: "Centrals: cells contributing", unit: units.Short, width: 6, height: 4,
			description: "What each central says how many cells contribute. They must agree; what they disagree on is neither repaired nor to be believed.",
			queries:     []query{{"max by (central_replica) (central:peer_cells_contributing:count)", "{{central_replica}}", ""}},
			runbook:     "PharosCentralsDiverge",
		},
		{
			kind: number, title: "Centrals: nodes", unit: units.Short, width: 6, height: 4,
			description: "What each central says how many nodes there are.",
			queries:     []query{{"max by (central_replica) (central:peer_nodes:count)", "{{central_replica}}", ""}},
			complete:    ofFleet(), runbook: "PharosCentralsDiverge",
		},
		{
			kind: number, title: "Alerts held", unit: units.Short, width: 6, height: 4,
			description: "Alerts that go on firing because what they are about cannot be seen: the cell is dark, its edge has no object state, or the cluster is not watched.",
			queries:     []query{{"count by (because) (fleet:alert_held:info) or label_replace(0 * fleet:cells_expected:count, \"because\", \"none\", \"\", \"\") unless on () fleet:alert_held:info", "{{because}}", ""}},
			runbook:     "PharosCellStale",
		},
		{
			kind: graph, title: "Cells contributing by geography", unit: units.Short, width: 12, height: 8,
			description: "Cells of each geography that contribute, and those that there should be.",
			queries: []query{
				{"geography:cells_contributing:count", "{{geography}} contributing", ""},
				{"geography:cells_expected:count", "{{geography}} expected", ""},
			},
			runbook: "PharosPartialView", opens: toGeography(), rows: true,
		},
		{
			kind: graph, title: "Completeness", unit: units.PercentUnit, width: 12, height: 8,
			description: "Share of the expected cells that contribute, of each geography and of the fleet.",
			queries:     []query{{"fleet:completeness:ratio", "fleet", ""}, {"geography:completeness:ratio", "{{geography}}", ""}},
			runbook:     "PharosPartialView", opens: toGeography(),
		},
	}
}

func lags() []panel {
	return []panel{
		{
			kind: graph, title: "Edge to central", unit: units.Seconds, width: 8, height: 8,
			description: "Age at a central of what the cell told that was heard of least recently, for each geography. It goes on rising for a quarter of an hour after the last word.",
			queries:     []query{{"max by (geography) (cell:heartbeat_age:seconds)", "{{geography}}", ""}},
			runbook:     "PharosCellStale", opens: toGeography(), rows: true,
		},
		{
			kind: graph, title: "Edge to cascade", unit: units.Seconds, width: 8, height: 8,
			description: "Age at its cascade of what the cell told that was heard of least recently, for each geography.",
			queries:     []query{{"max by (geography) (cell:cascade_age:seconds)", "{{geography}}", ""}},
			runbook:     "PharosCellStale", opens: toGeography(), rows: true,
		},
		{
			kind: graph, title: "Cascade to central", unit: units.Seconds, width: 8, height: 8,
			description: "Age at a central of what each shard of a cascade told last.",
			queries:     []query{{"cascade:heartbeat_age:seconds", cascadeShard, ""}},
			runbook:     "PharosCascadeStale", opens: toGeography(), rows: true,
		},
		{
			kind: list, title: "Oldest cells", unit: units.Seconds, width: 12, height: 8,
			description: "The twenty cells of which what was told last is oldest, at a central and at their cascade: the difference is the second hop.",
			queries: []query{
				{top(20, "cell:heartbeat_age:seconds"), "at a central", ""},
				{"max by (geography, region, cell) (cell:cascade_age:seconds) and " + top(20, "cell:heartbeat_age:seconds"), "at the cascade", ""},
			},
			runbook: "PharosCellStale", opens: toCell(), rows: true,
		},
		{
			kind: list, title: "Cells not seen", unit: units.BoolYesNo, width: 12, height: 8,
			description: "Cells of which nothing can be told now, of which no edge server answers its cascade, or whose edge has no object state.",
			queries: []query{
				{"fleet:cell_dark:bool == 1", "dark", ""},
				{"max by (geography, region, cell) (cell:edge_up:max) == 0", "edge answers", ""},
				{"max by (geography, region, cell) (cell:state_known:bool) == 0", "state known", ""},
			},
			runbook: "PharosCellUnreachable", opens: toCell(), rows: true,
		},
	}
}

func failures() []panel {
	const perCell, perShard = "max by (geography, region, cell) (", "max by (geography, cascade_shard) ("
	return []panel{
		{
			kind: list, title: "Targets that do not answer", unit: units.Short, width: 12, height: 8,
			description: "The twenty cells with most targets that did not answer, of those that their edge should scrape.",
			queries: []query{
				{top(20, perCell+"cell:targets:count) - "+perCell+"cell:targets_up:count) > 0"), "do not answer", ""},
				{perCell + "cell:targets:count) and " + top(20, perCell+"cell:targets:count) - "+perCell+"cell:targets_up:count) > 0"), "targets", ""},
			},
			runbook: "PharosTargetsDown", opens: toCell(), rows: true,
		},
		{
			kind: list, title: "Cells that refuse or fail", unit: units.Short, width: 12, height: 8,
			description: "Within ten minutes: evaluations of rules that failed in the edge of a cell, and scrapes that it refused because a target sent more than allowed.",
			queries: []query{
				{perCell + "cell:rules_failed:increase10m) > 0", "rules failed", ""},
				{perCell + "cell:scrapes_refused:increase10m) > 0", "scrapes refused", ""},
			},
			runbook: "PharosRulesFailing", opens: toCell(), rows: true,
		},
		{
			kind: graph, title: "Rules that fail above the edge", unit: units.Short, width: 8, height: 8,
			description: "Evaluations of rules that failed within ten minutes in each shard of a cascade and in each central. What such a rule records is missing.",
			queries: []query{
				{perShard + "cascade:rules_failed:increase10m)", "cascade " + cascadeShard, ""},
				{`max by (central) (sum by (central, instance) (increase(prometheus_rule_evaluation_failures_total{job="central"}[10m])))`, "central {{central}}", ""},
			},
			runbook: "PharosRulesFailing",
		},
		{
			kind: graph, title: "Scrapes that cascades refuse", unit: units.Short, width: 8, height: 8,
			description: "Scrapes that each shard of a cascade refused within ten minutes, because an edge sent more than allowed. Nothing of such a scrape is taken.",
			queries:     []query{{perShard + "cascade:scrapes_refused:increase10m)", cascadeShard, ""}},
			runbook:     "PharosContractBreach",
		},
		{
			kind: graph, title: "Series that nobody declared", unit: units.Short, width: 8, height: 8,
			description: "Series that reach a cascade or this central and that the contract does not declare.",
			queries: []query{
				{perShard + "cascade:series_undeclared:count)", "cascade " + cascadeShard, ""},
				{"max(central:series_undeclared:count)", "central", ""},
			},
			runbook: "PharosContractBreach",
		},
	}
}

func sizes() []panel {
	return []panel{
		{
			kind: list, title: "Largest edges", unit: units.Short, width: 8, height: 8,
			description: "The twenty cells whose largest edge server holds most series.",
			queries:     []query{{top(20, "max by (geography, region, cell) (cell:series:count)"), "series", ""}},
			opens:       toCell(), rows: true,
		},
		{
			kind: graph, title: "Cascades against their limit", unit: units.PercentUnit, width: 8, height: 8,
			description: "Series of cells that each shard of a cascade has, by what it should have at most. Above the limit the shard is split.",
			queries: []query{{
				"max by (geography, cascade_shard) (cascade:series_passed:count) / (max by (geography, cascade_shard) (cascade:series_limit:count) > 0)", cascadeShard, "",
			}},
			runbook: "PharosCascadeNearLimit", opens: toGeography(), rows: true,
		},
		{
			kind: graph, title: "Series in memory", unit: units.Short, width: 8, height: 8,
			description: "Series that each central and each shard of a cascade holds in memory, those among them that ended within hours.",
			queries: []query{
				{`max by (central) (prometheus_tsdb_head_series{job="central"})`, "{{central}}", ""},
				{"max by (geography, cascade_shard) (cascade:series:count)", "cascade " + cascadeShard, ""},
			},
			runbook: "PharosCentralDown",
		},
	}
}

// strains are what fails next, or fails already and is seen nowhere else.
func strains() []panel {
	const perCell, perShard = "max by (geography, region, cell) (", "max by (geography, cascade_shard) ("
	return []panel{
		{
			kind: list, title: "Edges near a limit", unit: units.PercentUnit, width: 12, height: 8,
			description: "The twenty cells whose fullest target sends most of the samples that it may, and what nine of ten targets of the slowest job take. Above the limit nothing of a target is taken.",
			queries: []query{
				{top(20, perCell+"cell:scrape_fill:ratio)"), "of the samples", ""},
				{perCell + "cell:scrape_duration:seconds) and " + top(20, perCell+"cell:scrape_fill:ratio)"), "slowest", units.Seconds},
			},
			runbook: "PharosScrapesNearLimit", opens: toCell(), rows: true,
		},
		{
			kind: graph, title: "Cascades near a limit", unit: units.PercentUnit, width: 12, height: 8,
			description: "Samples of the edge that sends a shard of a cascade most of what it may, and what the slowest scrape takes. Nothing where edges write.",
			queries: []query{
				{perShard + "cascade:scrape_fill:ratio)", cascadeShard + " samples", ""},
				{perShard + "cascade:scrape_duration:seconds)", cascadeShard + " slowest", units.Seconds},
			},
			runbook: "PharosScrapesNearLimit",
		},
		{
			kind: list, title: "Configurations refused", unit: units.BoolYesNo, width: 8, height: 8,
			description: "Edges and cascades that go on with an older configuration, because they refused the newest.",
			queries: []query{
				{perCell + "cell:config_refused:bool) == 1", "edge", ""},
				{perShard + "cascade:config_refused:bool) == 1", "cascade", ""},
			},
			runbook: "PharosConfigRefused",
		},
		{
			kind: list, title: "Scrapes through edge agents that fail", unit: units.PercentUnit, width: 8, height: 8,
			description: "Share of the scrapes of a component of a cluster that failed within ten minutes, where it is more than half, of the twenty worst.",
			queries:     []query{{top(20, "max by (geography, region, cell, cluster, component) (cluster:agent_scrapes_failed:ratio)"), "fail", ""}},
			runbook:     "PharosAgentScrapesFailing", opens: toCluster(), rows: true,
		},
		{
			kind: graph, title: "Alerts not taken", unit: units.Short, width: 8, height: 8,
			description: "Alerts that each central could not send to an Alertmanager, or gave up, within ten minutes.",
			queries: []query{
				{`sum by (central) (increase(prometheus_notifications_errors_total{job="central"}[10m]))`, "{{central}} not sent", ""},
				{`sum by (central) (increase(prometheus_notifications_dropped_total{job="central"}[10m]))`, "{{central}} given up", ""},
			},
			runbook: "PharosAlertsUndelivered",
		},
	}
}
