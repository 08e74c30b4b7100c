package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// cell is one cell and the business clusters hosted in it.
func cell() (dashboard.Dashboard, error) {
	return page(CellUID, "Pharos: cell",
		"One cell: how fresh it is, its business clusters, and their nodes that are not ready.",
		[]cog.Builder[dashboard.VariableModel]{cellVariable()}, []panel{
			{
				kind: number, title: "Heartbeat age", unit: units.Seconds, width: 8, height: 4,
				description: "Age of the cell's newest heartbeat. Above six intervals nothing below is to be believed.",
				queries:     []query{{`max(cell:heartbeat_age:seconds{cell=~"$cell"})`, "age"}},
				link:        runbooks + "PharosCellStale.md", linkTitle: "Runbook: PharosCellStale",
			},
			{
				kind: number, title: "Clusters up", unit: units.Short, width: 8, height: 4,
				description: "Business clusters whose watch and API server are both up, and those that are heard of at all.",
				queries: []query{
					{`sum(min by (cell, cluster) (cluster:up:min{cell=~"$cell"}))`, "up"},
					{`count(group by (cell, cluster) (cluster:up:min{cell=~"$cell"}))`, "heard of"},
				},
			},
			{
				kind: number, title: "Nodes not ready", unit: units.Short, width: 8, height: 4,
				description: "Nodes that every observer calls not ready. No figure while the cell does not contribute.",
				queries: []query{{
					`count(group by (cell, cluster, node) (node:unhealthy:info{cell=~"$cell"})) or 0 * count(fleet:cell_contributing:bool{cell=~"$cell"} == 1)`, "not ready",
				}},
				link: runbooks + "PharosNodeNotReady.md", linkTitle: "Runbook: PharosNodeNotReady",
			},
			{
				kind: graph, title: "Ready nodes by cluster", unit: units.Short, width: 12, height: 8,
				description: "Ready nodes of each business cluster. A line that ends is a cluster that cannot be watched.",
				queries:     []query{{`max by (cell, cluster) (cluster:nodes_ready:count{cell=~"$cell"})`, "{{cell}} {{cluster}}"}},
			},
			{
				kind: graph, title: "Nodes missing by cluster", unit: units.Short, width: 12, height: 8,
				description: "Nodes of each business cluster that are not ready.",
				queries: []query{{
					`max by (cell, cluster) (cluster:nodes:count{cell=~"$cell"}) - max by (cell, cluster) (cluster:nodes_ready:count{cell=~"$cell"})`, "{{cell}} {{cluster}}",
				}},
				link: runbooks + "PharosNodeNotReady.md", linkTitle: "Runbook: PharosNodeNotReady",
			},
			{
				kind: list, title: "Which nodes are not ready", unit: units.Short, width: 24, height: 10,
				description: "Each node that is not ready, with its place and the reason.",
				queries:     []query{{`max by (cell, cluster, node, reason, zone, rack, pool) (node:unhealthy:info{cell=~"$cell"})`, ""}},
				link:        runbooks + "PharosNodeNotReady.md", linkTitle: "Runbook: PharosNodeNotReady",
			},
		})
}

// cellVariable reads one series for each cell, and says "all" in three
// characters however many cells there are.
func cellVariable() cog.Builder[dashboard.VariableModel] {
	values := "label_values(fleet:cell_expected:info, cell)"
	return dashboard.NewQueryVariableBuilder("cell").Label("Cell").Datasource(source()).
		Query(dashboard.StringOrMap{String: &values}).Definition(values).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".*")
}
