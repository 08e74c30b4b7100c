package dashboards

import (
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// cluster is one business cluster, or the cell's own: its control plane, what it
// runs, and the hosts under it.
func cluster() page {
	return page{
		uid: ClusterUID, title: "Pharos: cluster",
		description: "One cluster of a cell: its control plane, its nodes and hosts, its workloads in outline, and what is wrong with any of them.",
		variables:   []variable{cells(), clusters()},
		panels:      slices.Concat(clusterInNumbers(), apiServer(), etcd(), backlogs(), nodesOfCluster(), hostsOfCluster(), hostsInTrouble(), workloads()),
	}
}

// ofCluster aggregates away who told of a series of the chosen clusters, and keeps
// more labels beside the place.
func ofCluster(aggregate, series, more string) string {
	if more != "" {
		more = ", " + more
	}
	return aggregate + ` by (cell, cluster` + more + `) (` + series + `{cell=~"$cell", cluster=~"$cluster"})`
}

func clusterInNumbers() []panel {
	return []panel{
		{
			kind: number, title: "Up", unit: units.BoolYesNo, width: 6, height: 4,
			description: "Whether the edge agent's watch and the API server are both up. Unknown where the API server is not scraped.",
			queries:     []query{{ofCluster("max", "cluster:up:min", ""), cellCluster, ""}},
			runbook:     "PharosClusterDown", opens: toCell(),
		},
		{
			kind: number, title: "Nodes", unit: units.Short, width: 6, height: 4,
			description: "Nodes that the API server knows, those that are ready, and those that are cordoned.",
			queries: []query{
				{ofCluster("max", "cluster:nodes:count", ""), "{{cluster}} all", ""},
				{ofCluster("min", "cluster:nodes_ready:count", ""), "{{cluster}} ready", ""},
				{ofCluster("max", "cluster:nodes_cordoned:count", ""), "{{cluster}} cordoned", ""},
			},
			runbook: "PharosNodeNotReady", opens: toCell(),
		},
		{
			kind: number, title: "Certificate ends in", unit: units.Seconds, width: 6, height: 4,
			description: "Time until the first certificate ends of those that the API server serves and that the edge agent shows to it. Less than 0 when one has ended.",
			queries:     []query{{ofCluster("min", "cluster:certificate_expiry:seconds", ""), cellCluster, ""}},
			runbook:     "PharosCertificateExpiring", opens: toCell(),
		},
		{
			kind: number, title: "etcd members", unit: units.Short, width: 6, height: 4,
			description: "Members of the cluster's etcd that answer, and those that belong to it and do not.",
			queries: []query{
				{ofCluster("max", "cluster:etcd_members:count", ""), "{{cluster}} answer", ""},
				{ofCluster("max", "cluster:etcd_members_missing:count", ""), "{{cluster}} missing", ""},
			},
			runbook: "PharosEtcdMembersMissing", opens: toCell(),
		},
	}
}

func apiServer() []panel {
	const buckets = "cluster:apiserver_request_duration_seconds:rate5m_bucket"
	return []panel{
		{
			kind: graph, title: "API server requests", unit: units.RequestsPerSecond, width: 12, height: 8,
			description: "Requests that the API servers answered, and those answered with a 5xx, but for long-lived ones.",
			queries: []query{
				{ofCluster("max", "cluster:apiserver_requests:rate5m", ""), "{{cluster}}", ""},
				{ofCluster("max", "cluster:apiserver_errors:rate5m", ""), "{{cluster}} errors", ""},
			},
			runbook: "PharosAPIServerBurn", opens: toCell(),
		},
		{
			kind: graph, title: "API server availability", unit: units.PercentUnit, width: 12, height: 8,
			description: "Share of requests that were not answered with a 5xx, over five minutes. The objective is 99.9 %.", zoomed: true,
			queries: []query{{
				"1 - " + ofCluster("max", "cluster:apiserver_errors:rate5m", "") + " / (" + ofCluster("max", "cluster:apiserver_requests:rate5m", "") + " > 0)", "{{cluster}}", "",
			}},
			runbook: "PharosAPIServerBurn", opens: toCell(),
		},
		{
			kind: graph, title: "API server latency", unit: units.Seconds, width: 8, height: 8,
			description: "Half and 99 % of the requests took at most this long, as far as buckets of 0.1, 1 and 5 s tell. The objective is 99 % within 1 s, lists within 30 s.",
			queries: []query{
				{"histogram_quantile(0.5, " + ofCluster("max", buckets, "le") + ")", "{{cluster}} half", ""},
				{"histogram_quantile(0.99, " + ofCluster("max", buckets, "le") + ")", "{{cluster}} 99 %", ""},
			},
			runbook: "PharosAPIServerBurn", opens: toCell(),
		},
		{
			kind: graph, title: "Error budget burn", unit: units.NoUnit, width: 8, height: 8,
			description: "How many times faster than allowed the error budget of 30 days burns, over each window and still over its last twelfth. Pages at 14.4 over 1h and at 6 over 6h; 3 over 1d is for working hours.",
			queries:     []query{{ofCluster("max", "cluster:apiserver_burn:min", "slo, window"), "{{cluster}} {{slo}} {{window}}", ""}},
			runbook:     "PharosAPIServerBurnSlow", opens: toCell(),
		},
		{
			kind: graph, title: "API server requests in flight", unit: units.Short, width: 8, height: 8,
			description: "Requests that the API servers are working on.",
			queries:     []query{{ofCluster("max", "cluster:apiserver_inflight:count", ""), "{{cluster}}", ""}},
			opens:       toCell(),
		},
	}
}

func etcd() []panel {
	return []panel{
		{
			kind: graph, title: "etcd: writing to disk", unit: units.Seconds, width: 8, height: 8,
			description: "99th percentile of what writing the log and a commit to the database take, of the slowest member.",
			queries: []query{
				{ofCluster("max", "cluster:etcd_wal_fsync_seconds:p99", ""), "{{cluster}} log", ""},
				{ofCluster("max", "cluster:etcd_backend_commit_seconds:p99", ""), "{{cluster}} commit", ""},
			},
			runbook: "PharosEtcdSlow", opens: toCell(),
		},
		{
			kind: graph, title: "etcd: size", unit: units.BytesIEC, width: 8, height: 8,
			description: "Size of the database of the largest member, and the share of its quota that the fullest uses. Above it etcd refuses every write.",
			queries: []query{
				{ofCluster("max", "cluster:etcd_db_size:bytes", ""), "{{cluster}}", ""},
				{ofCluster("max", "cluster:etcd_db_quota:ratio", ""), "{{cluster}} of quota", units.PercentUnit},
			},
			runbook: "PharosEtcdNearQuota", opens: toCell(),
		},
		{
			kind: list, title: "etcd: what is wrong", unit: units.Short, width: 8, height: 8,
			description: "A row for each cluster of which a member had no leader last, saw several elections within an hour, lets more than five writes wait, failed at writes within an hour, or takes more than 0.1 s to reach another.",
			queries: []query{
				{ofCluster("min", "cluster:etcd_has_leader:min", "") + " == 0", "leader", units.BoolYesNo},
				{ofCluster("max", "cluster:etcd_leader_changes_over:increase1h", ""), "elections", ""},
				{ofCluster("max", "cluster:etcd_proposals_pending_over:max", ""), "waiting", ""},
				{ofCluster("max", "cluster:etcd_proposals_errors:increase1h", ""), "failed", ""},
				{ofCluster("max", "cluster:etcd_peer_round_trip_seconds_over:p99", ""), "round trip", units.Seconds},
			},
			runbook: "PharosEtcdElections", opens: toCell(),
		},
	}
}

func backlogs() []panel {
	return []panel{
		{
			kind: graph, title: "Scheduler backlog", unit: units.Short, width: 8, height: 8,
			description: "Pods that wait in the scheduler, but for gated ones, and attempts a second that ended in an error of its own.",
			queries: []query{
				{ofCluster("max", "cluster:scheduler_pending_pods:count", ""), "{{cluster}} waiting", ""},
				{ofCluster("max", "cluster:scheduler_errors:rate5m", ""), "{{cluster}} errors", units.OpsPerSecond},
			},
			runbook: "PharosSchedulerBacklog", opens: toCell(),
		},
		{
			kind: graph, title: "Controller-manager backlog", unit: units.Short, width: 8, height: 8,
			description: "Items that wait in all queues of the controller-manager.",
			queries:     []query{{ofCluster("max", "cluster:controller_queue:count", ""), "{{cluster}}", ""}},
			runbook:     "PharosControllerBacklog", opens: toCell(),
		},
		{
			kind: graph, title: "Controller-manager: waiting", unit: units.Seconds, width: 8, height: 8,
			description: "99th percentile of what an item waits in a queue of the controller-manager, at most 10 s. No line while nothing is queued.",
			queries:     []query{{ofCluster("max", "cluster:controller_queue_seconds:p99", ""), "{{cluster}}", ""}},
			runbook:     "PharosControllerBacklog", opens: toCell(),
		},
	}
}
