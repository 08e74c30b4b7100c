package dashboards

import (
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// chosen is what of a geography's series a person has chosen.
const chosen = `{geography=~"$geography"}`

// geography is what each geography sums up to, and the cells in it.
func geography() page {
	return page{
		uid: GeographyUID, title: "Pharos: geography",
		description: "Sums over the cells of a geography beside how complete they are, and each of its cells.",
		variables:   []variable{geographies()},
		panels:      slices.Concat(geographyInNumbers(), geographyOverTime(), cellsOfGeography()),
	}
}

func geographyInNumbers() []panel {
	return []panel{
		{
			kind: number, title: "Cells contributing", unit: units.Short, width: 6, height: 6,
			description: "Cells of which every edge shard is heard of, at most six intervals ago, and the cells that there should be.",
			queries: []query{
				{"geography:cells_contributing:count" + chosen, "{{geography}} contributing", ""},
				{"geography:cells_expected:count" + chosen, "{{geography}} expected", ""},
			},
			runbook: "PharosPartialView", opens: toPipeline(),
		},
		{
			kind: number, title: "Nodes", unit: units.Short, width: 6, height: 6,
			description: "Nodes of business clusters, those of them that are ready, and those that are cordoned.",
			queries: []query{
				{"geography:nodes:count" + chosen, "{{geography}} all", ""},
				{"geography:nodes_ready:count" + chosen, "{{geography}} ready", ""},
				{"geography:nodes_cordoned:count" + chosen, "{{geography}} cordoned", ""},
			},
			complete: ofGeography(chosen), runbook: "PharosNodeNotReady",
		},
		{
			kind: number, title: "Clusters up", unit: units.Short, width: 6, height: 6,
			description: "Business clusters whose watch and API server are both up, those whose nodes the sums have, those that there are, and those that cells host, by size.",
			queries: []query{
				{"geography:clusters_up:count" + chosen, "{{geography}} up", ""},
				{"geography:clusters_known:count" + chosen, "{{geography}} known", ""},
				{"geography:clusters_expected:count" + chosen, "{{geography}} there are", ""},
				{"geography:clusters:count" + chosen, "{{geography}} {{size}}", ""},
			},
			complete: ofGeography(chosen), runbook: "PharosClusterDown",
		},
		{
			kind: number, title: "Pods in trouble", unit: units.Short, width: 6, height: 6,
			description: "Pods of business clusters that wait for long, crash again and again, or used up their memory.",
			queries: []query{
				{"geography:pods_pending:count" + chosen, "{{geography}} pending", ""},
				{"geography:pods_crash_looping:count" + chosen, "{{geography}} crash looping", ""},
				{"geography:pods_oom_killed:count" + chosen, "{{geography}} out of memory", ""},
			},
			complete: ofGeography(chosen), runbook: "PharosWorkloadsFailing",
		},
	}
}

func geographyOverTime() []panel {
	return []panel{
		{
			kind: graph, title: "API server requests", unit: units.RequestsPerSecond, width: 8, height: 8,
			description: "Requests to the API servers of business clusters, but for long-lived ones.",
			queries:     []query{{"geography:apiserver_requests:rate5m" + chosen, "{{geography}}", ""}},
			complete:    ofGeography(chosen),
		},
		{
			kind: graph, title: "API server errors", unit: units.PercentUnit, width: 8, height: 8,
			description: "Share of requests to the API servers of business clusters that were answered with a 5xx, over five minutes.",
			queries: []query{{
				"geography:apiserver_errors:rate5m" + chosen + " / (geography:apiserver_requests:rate5m" + chosen + " > 0)", "{{geography}}", "",
			}},
			complete: ofGeography(chosen), runbook: "PharosAPIServerBurn",
		},
		{
			kind: graph, title: "Hosts read", unit: units.Short, width: 8, height: 8,
			description: "Nodes of business clusters whose node exporter is read. What is said of hosts is about these.",
			queries:     []query{{"geography:hosts:count" + chosen, "{{geography}}", ""}},
			complete:    ofGeography(chosen),
		},
		{
			kind: list, title: "Capacity of the cells", unit: units.NoUnit, width: 24, height: 8,
			description: "What is taken of each pool, and what there is: cores, bytes, addresses and clusters, summed over the contributing cells that say it.",
			queries: []query{
				{"geography:capacity_used:value" + chosen, "taken", ""},
				{"geography:capacity_total:value" + chosen, "there is", ""},
				{"geography:capacity_used:value" + chosen + " / (geography:capacity_total:value" + chosen + " > 0)", "share", units.PercentUnit},
				{"geography:capacity_used:value" + chosen + " * 0 + on (geography) group_left () geography:completeness:ratio" + chosen, "of the cells", units.PercentUnit},
			},
			runbook: "PharosCapacityRunningOut",
		},
	}
}

func cellsOfGeography() []panel {
	return []panel{
		{
			kind: list, title: "Cells", unit: units.Short, width: 24, height: 12,
			description: "Each cell that there should be: whether it contributes, how old its heartbeat is, its clusters that are up, its nodes, and those that are ready.",
			queries: []query{
				{"fleet:cell_contributing:bool" + chosen, "contributes", units.BoolYesNo},
				{"cell:heartbeat_age:seconds" + chosen, "age", units.Seconds},
				{`sum by (geography, region, cell) (max by (geography, region, cell, cluster) (cluster:up:min{geography=~"$geography", cluster!="_meta"}))`, "clusters up", ""},
				{`sum by (geography, region, cell) (max by (geography, region, cell, cluster) (cluster:nodes:count{geography=~"$geography", cluster!="_meta"}))`, "nodes", ""},
				{`sum by (geography, region, cell) (min by (geography, region, cell, cluster) (cluster:nodes_ready:count{geography=~"$geography", cluster!="_meta"}))`, "ready", ""},
			},
			runbook: "PharosCellStale", opens: toCell(), rows: true,
		},
	}
}
