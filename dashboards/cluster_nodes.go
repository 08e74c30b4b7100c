package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

func nodesOfCluster() []panel {
	return []panel{
		{
			kind: list, title: "Which nodes are not ready", unit: units.Short, width: 12, height: 8,
			description: "Each node that is not ready, with its place and the reason.",
			queries:     []query{{ofCluster("max", "node:unhealthy:info", "node, reason, zone, rack, pool"), "", ""}},
			runbook:     "PharosNodeNotReady", opens: toCell(),
		},
		{
			kind: list, title: "Nodes with a condition", unit: units.Short, width: 12, height: 8,
			description: "Each node with a condition which says that something is wrong other than with its readiness, at most fifty for each condition, and how many nodes of the cluster have that condition.",
			queries: []query{
				{ofCluster("max", "node:condition:info", "condition, node, zone, rack, pool"), "has it", units.BoolYesNo},
				{ofCluster("max", "node:condition:info", "condition, node, zone, rack, pool") + " * on (cell, cluster, condition) group_left () " +
					ofCluster("max", "cluster:nodes_by_condition:count", "condition"), "in the cluster", ""},
			},
			runbook: "PharosNodeCondition", opens: toCell(),
		},
		{
			kind: list, title: "Zones with nodes not ready", unit: units.Short, width: 8, height: 8,
			description: "Nodes of each zone that has one that is not ready, and how many are not.",
			queries: []query{
				{ofCluster("max", "zone:nodes_unhealthy:count", "zone"), "not ready", ""},
				{ofCluster("max", "zone:nodes:count", "zone"), "nodes", ""},
			},
			runbook: "PharosManyNodesNotReady", opens: toCell(),
		},
		{
			kind: list, title: "Pools with nodes not ready", unit: units.Short, width: 8, height: 8,
			description: "Nodes of each pool that has one that is not ready, and how many are not.",
			queries: []query{
				{ofCluster("max", "pool:nodes_unhealthy:count", "pool"), "not ready", ""},
				{ofCluster("max", "pool:nodes:count", "pool"), "nodes", ""},
			},
			runbook: "PharosManyNodesNotReady", opens: toCell(),
		},
		{
			kind: list, title: "Kubelet versions", unit: units.Short, width: 8, height: 8,
			description: "The version of the kubelet that most nodes have, and the nodes of each while there are several.",
			queries: []query{
				{ofCluster("max", "cluster:kubelet_version:info", "kubelet_version"), "most nodes", units.BoolYesNo},
				{ofCluster("max", "cluster:nodes_by_version:count", "kubelet_version"), "nodes", ""},
			},
			opens: toCell(),
		},
	}
}

func hostsOfCluster() []panel {
	return []panel{
		{
			kind: graph, title: "CPU and memory asked for", unit: units.PercentUnit, width: 12, height: 8,
			description: "What pods ask for of what the nodes have for pods.",
			queries: []query{
				{ofCluster("max", "cluster:cpu_requested:cores", "") + " / (" + ofCluster("min", "cluster:cpu_allocatable:cores", "") + " > 0)", "{{cluster}} CPU", ""},
				{ofCluster("max", "cluster:memory_requested:bytes", "") + " / (" + ofCluster("min", "cluster:memory_allocatable:bytes", "") + " > 0)", "{{cluster}} memory", ""},
			},
			runbook: "PharosClusterSaturated", opens: toCell(),
		},
		{
			kind: list, title: "What the nodes have", unit: units.NoUnit, width: 12, height: 8,
			description: "Cores and memory of the nodes, and the hosts whose node exporter is read: what is said of hosts is about these.",
			queries: []query{
				{ofCluster("min", "cluster:cpu_capacity:cores", ""), "cores", ""},
				{ofCluster("min", "cluster:memory_capacity:bytes", ""), "memory", units.BytesIEC},
				{ofCluster("max", "cluster:hosts:count", ""), "hosts read", ""},
			},
			opens: toCell(),
		},
		{
			kind: graph, title: "Hosts: how busy", unit: units.PercentUnit, width: 8, height: 8,
			description: "Busy share of the cores, used share of the memory, used share of the fullest filesystem, by bytes or by inodes, and of the busiest link.",
			queries: []query{
				{ofCluster("max", "cluster:cpu_utilisation:ratio", ""), "{{cluster}} CPU", ""},
				{ofCluster("max", "cluster:memory_utilisation:ratio", ""), "{{cluster}} memory", ""},
				{ofCluster("max", "cluster:filesystem_utilisation:max", ""), "{{cluster}} fullest disk", ""},
				{ofCluster("max", "cluster:network_utilisation:max", ""), "{{cluster}} busiest link", ""},
			},
			runbook: "PharosClusterSaturated", opens: toCell(),
		},
		{
			kind: graph, title: "Hosts: waiting", unit: units.PercentUnit, width: 8, height: 8,
			description: "Share of time in which something waited for a core, or everything waited for memory or a disk (io), on average over the hosts.",
			queries:     []query{{ofCluster("max", "cluster:pressure:avg", "resource"), "{{cluster}} {{resource}}", ""}},
			runbook:     "PharosClusterSaturated", opens: toCell(),
		},
		{
			kind: graph, title: "Hosts: network faults", unit: units.PacketsPerSecond, width: 8, height: 8,
			description: "Packets that the hosts received or sent with errors, or dropped.",
			queries:     []query{{ofCluster("max", "cluster:network_faults:rate5m", ""), "{{cluster}}", ""}},
			runbook:     "PharosNodeNetworkErrors", opens: toCell(),
		},
	}
}

func hostsInTrouble() []panel {
	return []panel{
		{
			kind: list, title: "Disks that fill", unit: units.PercentUnit, width: 12, height: 8,
			description: "Filesystems that are more than 85 % full, and those that will be full within a day at the pace of the last hours, fifty of each at most.",
			queries: []query{
				{ofCluster("max", "node:filesystem_nearly_full:ratio", "node, mountpoint, resource"), "full", ""},
				{ofCluster("min", "node:filesystem_full_in:seconds", "node, mountpoint"), "full in", units.Seconds},
			},
			runbook: "PharosNodeDiskFilling", opens: toCell(),
		},
		{
			kind: list, title: "Nodes under pressure", unit: units.PercentUnit, width: 12, height: 8,
			description: "Nodes on which something waited for a core, or everything waited for memory or a disk, more than half of the time; the twenty worst for each resource.",
			queries:     []query{{ofCluster("max", "node:pressure_high:ratio", "node, resource"), "of the time", ""}},
			runbook:     "PharosClusterSaturated", opens: toCell(),
		},
		{
			kind: list, title: "Nodes with a saturated network", unit: units.PercentUnit, width: 8, height: 8,
			description: "Nodes of which a link carries more than 80 % of what it can, each way by itself, the fifty busiest.",
			queries:     []query{{ofCluster("max", "node:network_nearly_full:ratio", "node, direction"), "used", ""}},
			runbook:     "PharosNodeNetworkSaturated", opens: toCell(),
		},
		{
			kind: list, title: "Nodes with network errors", unit: units.PacketsPerSecond, width: 8, height: 8,
			description: "Nodes with more than one packet with errors a second, the fifty worst.",
			queries:     []query{{ofCluster("max", "node:network_errors_high:rate5m", "node"), "errors", ""}},
			runbook:     "PharosNodeNetworkErrors", opens: toCell(),
		},
		{
			kind: list, title: "Nodes with the wrong time", unit: units.Seconds, width: 8, height: 8,
			description: "Nodes whose clock is off by more than a quarter of a second, the fifty worst.",
			queries:     []query{{ofCluster("max", "node:clock_offset:seconds", "node"), "off by", ""}},
			runbook:     "PharosNodeClockOff", opens: toCell(),
		},
	}
}

func workloads() []panel {
	return []panel{
		{
			kind: graph, title: "Pods in trouble", unit: units.Short, width: 8, height: 8,
			description: "Pods that wait for long, crash again and again, or used up their memory.",
			queries: []query{
				{ofCluster("max", "cluster:pods_pending:count", ""), "{{cluster}} pending", ""},
				{ofCluster("max", "cluster:pods_crash_looping:count", ""), "{{cluster}} crash looping", ""},
				{ofCluster("max", "cluster:pods_oom_killed:count", ""), "{{cluster}} out of memory", ""},
			},
			runbook: "PharosWorkloadsFailing", opens: toCell(),
		},
		{
			kind: graph, title: "Container restarts", unit: units.Short, width: 8, height: 8,
			description: "How often containers were started again within ten minutes.",
			queries:     []query{{ofCluster("max", "cluster:container_restarts:increase10m", ""), "{{cluster}}", ""}},
			runbook:     "PharosWorkloadsFailing", opens: toCell(),
		},
		{
			kind: list, title: "Namespaces with pods in trouble", unit: units.Short, width: 8, height: 8,
			description: "Pods in trouble in the five namespaces that have most, for each kind of trouble.",
			queries:     []query{{ofCluster("max", "namespace:pods_troubled:count", "namespace, trouble"), "pods", ""}},
			runbook:     "PharosWorkloadsFailing", opens: toCell(),
		},
	}
}
