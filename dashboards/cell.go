package dashboards

import (
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// cell is one cell and the business clusters hosted in it.
func cell() page {
	return page{
		uid: CellUID, title: "Pharos: cell",
		description: "One cell: how fresh it is, what it has left, its business clusters, and their nodes that are not ready.",
		variables:   []variable{cells()},
		panels:      slices.Concat(cellInNumbers(), nodesOfCell(), capacityOfCell(), controlPlanesOfCell(), hostsOfCell()),
	}
}

// perCluster aggregates away who told of a series of the cell's clusters.
func perCluster(aggregate, series string) string {
	return aggregate + ` by (geography, region, cell, cluster) (` + series + `{cell=~"$cell"})`
}

const cellCluster = "{{cell}} {{cluster}}"

func cellInNumbers() []panel {
	return []panel{
		{
			kind: number, title: "Heartbeat age", unit: units.Seconds, width: 6, height: 4,
			description: "Age of the cell's newest heartbeat. Above six intervals nothing below is to be believed.",
			queries:     []query{{`max(cell:heartbeat_age:seconds{cell=~"$cell"})`, "age", ""}},
			runbook:     "PharosCellStale", opens: toPipeline(),
		},
		{
			kind: number, title: "Clusters up", unit: units.Short, width: 6, height: 4,
			description: "Business clusters whose watch and API server are both up, and those that are heard of at all.",
			queries: []query{
				{`sum(max by (cell, cluster) (cluster:up:min{cell=~"$cell", cluster!="_meta"}))`, "up", ""},
				{`count(group by (cell, cluster) (cluster:up:min{cell=~"$cell", cluster!="_meta"}))`, "heard of", ""},
			},
			runbook: "PharosClusterDown", opens: toCluster(),
		},
		{
			kind: number, title: "Nodes not ready", unit: units.Short, width: 6, height: 4,
			description: "Nodes that every observer calls not ready. No figure while the cell does not contribute.",
			queries: []query{{
				`count(group by (cell, cluster, node) (node:unhealthy:info{cell=~"$cell"})) or 0 * count(fleet:cell_contributing:bool{cell=~"$cell"} == 1)`, "not ready", "",
			}},
			runbook: "PharosNodeNotReady", opens: toCluster(),
		},
		{
			kind: number, title: "Targets", unit: units.Short, width: 6, height: 4,
			description: "Targets that the cell's edge scraped last time it tried, and those that it should scrape.",
			queries: []query{
				{`sum(max by (geography, region, cell) (cell:targets_up:count{cell=~"$cell"}))`, "answer", ""},
				{`sum(max by (geography, region, cell) (cell:targets:count{cell=~"$cell"}))`, "there are", ""},
			},
			runbook: "PharosTargetsDown", opens: toPipeline(),
		},
	}
}

func nodesOfCell() []panel {
	return []panel{
		{
			kind: graph, title: "Ready nodes by cluster", unit: units.Short, width: 12, height: 8,
			description: "Ready nodes of each business cluster. A line that ends is a cluster that cannot be watched.",
			queries:     []query{{perCluster("min", "cluster:nodes_ready:count"), cellCluster, ""}},
			opens:       toCluster(), rows: true,
		},
		{
			kind: graph, title: "Nodes missing by cluster", unit: units.Short, width: 12, height: 8,
			description: "Nodes of each business cluster that are not ready.",
			queries: []query{{
				perCluster("max", "cluster:nodes:count") + " - " + perCluster("min", "cluster:nodes_ready:count"), cellCluster, "",
			}},
			runbook: "PharosNodeNotReady", opens: toCluster(), rows: true,
		},
		{
			kind: list, title: "Which nodes are not ready", unit: units.Short, width: 24, height: 10,
			description: "Each node that is not ready, with its place and the reason.",
			queries:     []query{{`max by (cell, cluster, node, reason, zone, rack, pool) (node:unhealthy:info{cell=~"$cell"})`, "", ""}},
			runbook:     "PharosNodeNotReady", opens: toCluster(), rows: true,
		},
	}
}

func capacityOfCell() []panel {
	return []panel{
		{
			kind: graph, title: "Capacity taken", unit: units.PercentUnit, width: 12, height: 8,
			description: "Share of each pool of the cell that is taken: addresses, clusters, and the cores and memory of the meta cluster that its pods ask for.",
			queries:     []query{{`cell:capacity:ratio{cell=~"$cell"}`, "{{cell}} {{pool}}", ""}},
			runbook:     "PharosCapacityRunningOut",
		},
		{
			kind: list, title: "Capacity forecast", unit: units.NoUnit, width: 12, height: 8,
			description: "What is taken of each pool and what there is, and the share that is taken now, will be in a day if it goes on as in the last six hours, and in a week if it goes on as in the last day.",
			queries: []query{
				{`cell:capacity_used:value{cell=~"$cell"}`, "taken", ""},
				{`cell:capacity_total:value{cell=~"$cell"}`, "there is", ""},
				{`cell:capacity:ratio{cell=~"$cell"}`, "now", units.PercentUnit},
				{`cell:capacity_in_1d:ratio{cell=~"$cell"}`, "in a day", units.PercentUnit},
				{`cell:capacity_in_7d:ratio{cell=~"$cell"}`, "in a week", units.PercentUnit},
			},
			runbook: "PharosCapacityExhausted",
		},
		{
			kind: number, title: "Clusters hosted", unit: units.Short, width: 12, height: 6,
			description: "Business clusters that the cell hosts, by size.",
			queries:     []query{{`sum by (cell, size) (max by (cell, edge_shard, size) (cell:clusters:count{cell=~"$cell"}))`, "{{cell}} {{size}}", ""}},
			opens:       toCluster(),
		},
		{
			kind: list, title: "Certificates", unit: units.Seconds, width: 12, height: 6,
			description: "Time until the first certificate of each cluster ends.",
			queries:     []query{{`sort(` + perCluster("min", "cluster:certificate_expiry:seconds") + `)`, "ends in", ""}},
			runbook:     "PharosCertificateExpiring", opens: toCluster(), rows: true,
		},
	}
}

func controlPlanesOfCell() []panel {
	return []panel{
		{
			kind: graph, title: "API server requests", unit: units.RequestsPerSecond, width: 12, height: 8,
			description: "Requests that the API servers of each cluster answered, but for long-lived ones.",
			queries:     []query{{perCluster("max", "cluster:apiserver_requests:rate5m"), cellCluster, ""}},
			opens:       toCluster(), rows: true,
		},
		{
			kind: graph, title: "API server errors", unit: units.PercentUnit, width: 12, height: 8,
			description: "Share of requests to each API server that were answered with a 5xx, over five minutes.",
			queries: []query{{
				perCluster("max", "cluster:apiserver_errors:rate5m") + " / (" + perCluster("max", "cluster:apiserver_requests:rate5m") + " > 0)", cellCluster, "",
			}},
			runbook: "PharosAPIServerBurn", opens: toCluster(), rows: true,
		},
		{
			kind: list, title: "Error budgets that burn", unit: units.NoUnit, width: 8, height: 8,
			description: "How many times faster than allowed API servers burn the error budget of 30 days. Only above 1.",
			queries:     []query{{`sort_desc(max by (cell, cluster, slo, window) (cluster:apiserver_burn:min{cell=~"$cell"}) > 1)`, "times", ""}},
			runbook:     "PharosAPIServerBurn", opens: toCluster(), rows: true,
		},
		{
			kind: list, title: "etcd", unit: units.Short, width: 16, height: 8,
			description: "Of each cluster's etcd: whether every member has a leader, members that answer, what writing the log and a commit take (99th percentile of the slowest member), and the share of its quota that is used.",
			queries: []query{
				{perCluster("min", "cluster:etcd_has_leader:min"), "leader", units.BoolYesNo},
				{perCluster("max", "cluster:etcd_members:count"), "members", ""},
				{perCluster("max", "cluster:etcd_wal_fsync_seconds:p99"), "log", units.Seconds},
				{perCluster("max", "cluster:etcd_backend_commit_seconds:p99"), "commit", units.Seconds},
				{perCluster("max", "cluster:etcd_db_quota:ratio"), "of quota", units.PercentUnit},
			},
			runbook: "PharosEtcdNoLeader", opens: toCluster(), rows: true,
		},
		{
			kind: graph, title: "Scheduler backlog", unit: units.Short, width: 12, height: 8,
			description: "Pods that wait in the scheduler of each cluster, but for gated ones.",
			queries:     []query{{perCluster("max", "cluster:scheduler_pending_pods:count"), cellCluster, ""}},
			runbook:     "PharosSchedulerBacklog", opens: toCluster(), rows: true,
		},
		{
			kind: graph, title: "Controller-manager backlog", unit: units.Short, width: 12, height: 8,
			description: "Items that wait in all queues of each cluster's controller-manager.",
			queries:     []query{{perCluster("max", "cluster:controller_queue:count"), cellCluster, ""}},
			runbook:     "PharosControllerBacklog", opens: toCluster(), rows: true,
		},
	}
}

func hostsOfCell() []panel {
	return []panel{
		{
			kind: list, title: "Hosts by cluster", unit: units.PercentUnit, width: 12, height: 10,
			description: "Of the hosts of each cluster: how many are read, how busy their cores and memory are, the fullest filesystem, and packets with errors or dropped.",
			queries: []query{
				{perCluster("max", "cluster:hosts:count"), "hosts", units.Short},
				{perCluster("max", "cluster:cpu_utilisation:ratio"), "CPU", ""},
				{perCluster("max", "cluster:memory_utilisation:ratio"), "memory", ""},
				{perCluster("max", "cluster:filesystem_utilisation:max"), "fullest disk", ""},
				{perCluster("max", "cluster:network_faults:rate5m"), "network faults", units.PacketsPerSecond},
			},
			runbook: "PharosClusterSaturated", opens: toCluster(), rows: true,
		},
		{
			kind: list, title: "Workloads by cluster", unit: units.Short, width: 12, height: 10,
			description: "Pods of each cluster that wait for long, crash again and again, or used up their memory, and how often containers were started again within ten minutes.",
			queries: []query{
				{perCluster("max", "cluster:pods_pending:count"), "pending", ""},
				{perCluster("max", "cluster:pods_crash_looping:count"), "crash looping", ""},
				{perCluster("max", "cluster:pods_oom_killed:count"), "out of memory", ""},
				{perCluster("max", "cluster:container_restarts:increase10m"), "restarts", ""},
			},
			runbook: "PharosWorkloadsFailing", opens: toCluster(), rows: true,
		},
	}
}
