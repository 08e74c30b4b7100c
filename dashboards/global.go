package dashboards

import (
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// global is the fleet at a glance: every sum beside its completeness.
func global() page {
	return page{
		uid: GlobalUID, title: "Pharos: fleet",
		description: "The whole fleet as this central sees it, with how complete and how fresh the picture is.",
		panels:      slices.Concat(fleetInNumbers(), fleetOfClusters(), fleetByGeography(), worstOfFleet(), runningOut()),
	}
}

func fleetInNumbers() []panel {
	return []panel{
		{
			kind: number, title: "Cells contributing", unit: units.Short, width: 6, height: 4,
			description: "Cells of which every edge shard is heard of, at most six intervals ago, and the cells that there should be. All sums are over the former only.",
			queries:     []query{{"fleet:cells_contributing:count", "contributing", ""}, {"fleet:cells_expected:count", "expected", ""}},
			runbook:     "PharosPartialView", opens: toPipeline(),
		},
		{
			kind: number, title: "Nodes", unit: units.Short, width: 6, height: 4,
			description: "Nodes of business clusters, those of them that are ready, and those that are cordoned.",
			queries: []query{
				{"fleet:nodes:count", "all", ""}, {"fleet:nodes_ready:count", "ready", ""}, {"fleet:nodes_cordoned:count", "cordoned", ""},
			},
			complete: ofFleet(), opens: toGeography(),
		},
		{
			kind: number, title: "Nodes not ready", unit: units.Short, width: 6, height: 4,
			description: "Nodes that every observer calls not ready.",
			queries: []query{{
				"count(group by (geography, region, cell, cluster, node) (node:unhealthy:info)) or 0 * fleet:cells_expected:count", "not ready", "",
			}},
			complete: ofFleet(), runbook: "PharosNodeNotReady", opens: toGeography(),
		},
		{
			kind: number, title: "Oldest heartbeat", unit: units.Seconds, width: 6, height: 4,
			description: "Age of the newest heartbeat of the cell that was heard of least recently.",
			queries:     []query{{"max(cell:heartbeat_age:seconds)", "age", ""}},
			runbook:     "PharosCellStale", opens: toPipeline(),
		},
	}
}

func fleetOfClusters() []panel {
	return []panel{
		{
			kind: number, title: "Clusters up", unit: units.Short, width: 6, height: 4,
			description: "Business clusters whose watch and API server are both up, those whose nodes the sums have, and those that there are.",
			queries:     []query{{"fleet:clusters_up:count", "up", ""}, {"fleet:clusters_known:count", "known", ""}, {"fleet:clusters_expected:count", "there are", ""}},
			complete:    ofFleet(), runbook: "PharosClusterDown", opens: toGeography(),
		},
		{
			kind: number, title: "API server errors", unit: units.PercentUnit, width: 6, height: 4,
			description: "Share of requests to the API servers of business clusters that were answered with a 5xx, over five minutes.",
			queries:     []query{{"fleet:apiserver_errors:rate5m / (fleet:apiserver_requests:rate5m > 0)", "errors", ""}},
			complete:    ofFleet(), runbook: "PharosAPIServerBurn", opens: toGeography(),
		},
		{
			kind: number, title: "Pods in trouble", unit: units.Short, width: 6, height: 4,
			description: "Pods of business clusters that wait for long, crash again and again, or used up their memory.",
			queries: []query{
				{"fleet:pods_pending:count", "pending", ""}, {"fleet:pods_crash_looping:count", "crash looping", ""}, {"fleet:pods_oom_killed:count", "out of memory", ""},
			},
			complete: ofFleet(), runbook: "PharosWorkloadsFailing", opens: toGeography(),
		},
		{
			kind: number, title: "Hosts read", unit: units.Short, width: 6, height: 4,
			description: "Nodes of business clusters whose node exporter is read. What is said of hosts is about these.",
			queries:     []query{{"fleet:hosts:count", "hosts", ""}},
			complete:    ofFleet(), opens: toGeography(),
		},
	}
}

func fleetByGeography() []panel {
	return []panel{
		{
			kind: graph, title: "Ready nodes by geography", unit: units.Short, width: 12, height: 8,
			description: "Ready nodes of each geography. A line that ends is a geography that is not heard of.",
			queries:     []query{{"geography:nodes_ready:count", "{{geography}}", ""}},
			complete:    ofGeography(""), opens: toGeography(), rows: true,
		},
		{
			kind: graph, title: "Completeness by geography", unit: units.PercentUnit, width: 12, height: 8,
			description: "Share of a geography's cells that contribute.",
			queries:     []query{{"geography:completeness:ratio", "{{geography}}", ""}},
			runbook:     "PharosPartialView", opens: toGeography(), rows: true,
		},
		{
			kind: graph, title: "CPU asked for by geography", unit: units.PercentUnit, width: 12, height: 8,
			description: "What pods ask for of the cores that nodes of business clusters have for pods.",
			queries:     []query{{"geography:cpu_requested:cores / (geography:cpu_allocatable:cores > 0)", "{{geography}}", ""}},
			complete:    ofGeography(""), opens: toGeography(), rows: true,
		},
		{
			kind: graph, title: "Memory asked for by geography", unit: units.PercentUnit, width: 12, height: 8,
			description: "What pods ask for of the memory that nodes of business clusters have for pods.",
			queries:     []query{{"geography:memory_requested:bytes / (geography:memory_allocatable:bytes > 0)", "{{geography}}", ""}},
			complete:    ofGeography(""), opens: toGeography(), rows: true,
		},
	}
}

func worstOfFleet() []panel {
	return []panel{
		{
			kind: list, title: "Cells not heard of", unit: units.Short, width: 12, height: 8,
			description: "Cells that there should be and that do not contribute.",
			queries:     []query{{"fleet:cell_expected:info unless on (geography, region, cell) (fleet:cell_contributing:bool == 1)", "", ""}},
			runbook:     "PharosCellStale", opens: toCell(), rows: true,
		},
		{
			kind: list, title: "Racks with unhealthy nodes", unit: units.PercentUnit, width: 12, height: 8,
			description: "Share of each rack's nodes that are not ready, of the fifty worst. Above a fifth nothing in the rack is repaired.",
			queries: []query{{top(50,
				"max by (geography, region, cell, cluster, zone, rack) (rack:nodes_unhealthy:count) / max by (geography, region, cell, cluster, zone, rack) (rack:nodes:count)"), "", "",
			}},
			runbook: "PharosRackNotReady", opens: toCluster(), rows: true,
		},
		{
			kind: list, title: "Clusters with nodes not ready", unit: units.Short, width: 12, height: 8,
			description: "The twenty clusters that have most nodes that every observer calls not ready.",
			queries:     []query{{top(20, "count by (geography, region, cell, cluster) (group by (geography, region, cell, cluster, node) (node:unhealthy:info))"), "not ready", ""}},
			runbook:     "PharosManyNodesNotReady", opens: toCluster(), rows: true,
		},
		{
			kind: list, title: "Clusters that are down", unit: units.Bool, width: 12, height: 8,
			description: "Clusters whose watch or API server is down.",
			queries:     []query{{"max by (geography, region, cell, cluster) (cluster:up:min) == 0", "up", ""}},
			runbook:     "PharosClusterDown", opens: toCluster(), rows: true,
		},
	}
}

// runningOut is what will end if nobody does anything.
func runningOut() []panel {
	return []panel{
		{
			kind: list, title: "Error budgets that burn", unit: units.NoUnit, width: 12, height: 8,
			description: "How many times faster than allowed API servers burn the error budget of 30 days, over each window and still over its last twelfth. Only above 1, the thirty fastest.",
			queries:     []query{{top(30, "max by (geography, region, cell, cluster, slo, window) (cluster:apiserver_burn:min) > 1"), "times", ""}},
			runbook:     "PharosAPIServerBurn", opens: toCluster(), rows: true,
		},
		{
			kind: list, title: "Certificates that end first", unit: units.Seconds, width: 12, height: 8,
			description: "Time until the first certificate of a cluster ends, of the ten clusters where that is soonest.",
			queries:     []query{{"bottomk(10, min by (geography, region, cell, cluster) (cluster:certificate_expiry:seconds))", "ends in", ""}},
			runbook:     "PharosCertificateExpiring", opens: toCluster(), rows: true,
		},
		{
			kind: list, title: "Pools of cells that run out", unit: units.PercentUnit, width: 24, height: 8,
			description: "The twenty pools of cells of which most is taken, with what will be taken in a day and in a week if it goes on so. Only of cells that contribute.",
			queries: []query{
				{top(20, "cell:capacity:ratio"), "taken", ""},
				{"cell:capacity_in_1d:ratio and " + top(20, "cell:capacity:ratio"), "in a day", ""},
				{"cell:capacity_in_7d:ratio and " + top(20, "cell:capacity:ratio"), "in a week", ""},
			},
			runbook: "PharosCapacityRunningOut", opens: toCell(), rows: true,
		},
	}
}
