package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

const runbooks = "https://github.com/pharos-fleet/pharos/blob/main/docs/runbooks/"

// global is the fleet at a glance: every sum beside its completeness.
func global() (dashboard.Dashboard, error) {
	toCell, cellTitle := "/d/"+CellUID, "By cell"
	return page(GlobalUID, "Pharos: fleet",
		"The whole fleet as this central sees it, with how complete and how fresh the picture is.", nil, []panel{
			{
				kind: number, title: "Cells contributing", unit: units.Short, width: 6, height: 4,
				description: "Cells whose heartbeat is at most six intervals old, and the cells that there should be. All sums are over the former only.",
				queries:     []query{{"fleet:cells_contributing:count", "contributing"}, {"fleet:cells_expected:count", "expected"}},
				link:        runbooks + "PharosPartialView.md", linkTitle: "Runbook: PharosPartialView",
			},
			{
				kind: number, title: "Nodes", unit: units.Short, width: 6, height: 4,
				description: "Nodes of the contributing cells, and those of them that are ready.",
				queries:     []query{{"fleet:nodes:count", "all"}, {"fleet:nodes_ready:count", "ready"}},
				link:        toCell, linkTitle: cellTitle,
			},
			{
				kind: number, title: "Nodes not ready", unit: units.Short, width: 6, height: 4,
				description: "Nodes that every observer calls not ready, in cells that contribute.",
				queries:     []query{{"count(group by (geography, region, cell, cluster, node) (node:unhealthy:info)) or 0 * fleet:cells_expected:count", "not ready"}},
				link:        runbooks + "PharosNodeNotReady.md", linkTitle: "Runbook: PharosNodeNotReady",
			},
			{
				kind: number, title: "Oldest heartbeat", unit: units.Seconds, width: 6, height: 4,
				description: "Age of the newest heartbeat of the cell that was heard of least recently.",
				queries:     []query{{"max(cell:heartbeat_age:seconds)", "age"}},
				link:        runbooks + "PharosCellStale.md", linkTitle: "Runbook: PharosCellStale",
			},
			{
				kind: graph, title: "Ready nodes by geography", unit: units.Short, width: 12, height: 8,
				description: "Ready nodes of each geography, over the cells that contribute. A line that ends is a geography that is not heard of.",
				queries:     []query{{"geography:nodes_ready:count", "{{geography}}"}},
				link:        toCell, linkTitle: cellTitle,
			},
			{
				kind: graph, title: "Completeness by geography", unit: units.PercentUnit, width: 12, height: 8,
				description: "Share of a geography's cells that contribute.",
				queries: []query{{
					"geography:completeness:ratio", "{{geography}}",
				}},
				link: runbooks + "PharosPartialView.md", linkTitle: "Runbook: PharosPartialView",
			},
			{
				kind: list, title: "Cells not heard of", unit: units.Short, width: 12, height: 8,
				description: "Cells that there should be and that do not contribute.",
				queries:     []query{{"fleet:cell_expected:info unless on (geography, region, cell) (fleet:cell_contributing:bool == 1)", ""}},
				link:        runbooks + "PharosCellStale.md", linkTitle: "Runbook: PharosCellStale",
			},
			{
				kind: list, title: "Racks with unhealthy nodes", unit: units.PercentUnit, width: 12, height: 8,
				description: "Share of each rack's nodes that are not ready. Above a fifth nothing in the rack is repaired.",
				queries: []query{{
					"max by (geography, region, cell, cluster, zone, rack) (rack:nodes_unhealthy:count) / max by (geography, region, cell, cluster, zone, rack) (rack:nodes:count)", "",
				}},
				link: runbooks + "PharosRackNotReady.md", linkTitle: "Runbook: PharosRackNotReady",
			},
		})
}
