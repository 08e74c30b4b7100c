package tiers_test

import "strings"

// directly has for every number of the whole the query that computes it from raw
// series of the whole fleet. Here raw series bear the labels of their cell and
// edge; plan_cell, plan_edge and so on are the fleet as it should be. Written
// without the rules: what an edge or cascade records is not in that server.
func directly() map[string]string {
	// A server that is alive scrapes itself, and one that knows its clusters has some,
	// and has missed none of them in this interval and the two before it. It would wait
	// for no cluster that fails for minutes, of which this world has none.
	const contributing = `(
		count by (geography, region, cell) (group by (geography, region, cell, edge_shard) (
			prometheus_tsdb_head_series{job="edge"}
			and on (geography, region, cell, edge_shard, edge_replica)
			(kube_node_info or pharos_cluster_up == 1)
			unless on (geography, region, cell, edge_shard, edge_replica)
			min_over_time(up{job="state"}[75s]) == 0
		))
		== on (geography, region, cell)
		count by (geography, region, cell) (plan_edge))`
	const contributes = `plan_cell * 0 + on (geography, region, cell) (0 * CONTRIBUTING + 1) or plan_cell * 0`
	out := map[string]string{
		"fleet:interval:seconds":         `vector(30)`,
		"fleet:central_expected:info":    `plan_central`,
		"fleet:cascade_expected:info":    `plan_cascade`,
		"fleet:edge_expected:info":       `plan_edge`,
		"fleet:cell_expected:info":       `plan_cell`,
		"fleet:cells_expected:count":     `count(plan_cell)`,
		"fleet:cell_contributing:bool":   contributes,
		"fleet:cell_heard:bool":          contributes, // nothing comes or goes while this world's sums are made
		"fleet:cell_heard_still:bool":    contributes,
		"fleet:cell_cut_off:bool":        `plan_cell * 0`, // every cascade is heard of
		"fleet:cell_dark:bool":           `plan_cell unless on (geography, region, cell) CONTRIBUTING or plan_cell * 0`,
		"fleet:cells_contributing:count": `count(CONTRIBUTING) or vector(0)`,
		"fleet:completeness:ratio":       `(count(CONTRIBUTING) or vector(0)) / count(plan_cell)`,
		"geography:cells_expected:count": `
			count by (geography) (plan_cell) or plan_geography * 0`,
		"geography:cells_contributing:count": `
			count by (geography) (CONTRIBUTING) or plan_geography * 0`,
		"geography:completeness:ratio": `
			(count by (geography) (CONTRIBUTING) or 0 * count by (geography) (plan_cell)) / count by (geography) (plan_cell)
			or plan_geography unless on (geography) plan_cell`,
		// What a cell that is dark told last.
		"fleet:alert_held:info": `
			label_replace(label_replace(
				group by (geography, region, cell, cluster, node, zone, rack, pool) (
					label_replace(label_replace(label_replace(
						last_over_time(kube_node_labels[30m]),
						"zone", "$1", "label_topology_kubernetes_io_zone", "(.*)"),
						"rack", "$1", "label_topology_pharos_dev_rack", "(.*)"),
						"pool", "$1", "label_pharos_dev_pool", "(.*)")
					and on (cell, cluster, node)
					last_over_time(kube_node_status_condition{condition="Ready", status="true"}[30m]) == 0
				)
				unless on (geography, region, cell) CONTRIBUTING,
				"alertname", "PharosNodeNotReady", "", ""), "because", "cell", "", "")`,
	}
	for name, ofCluster := range eachCluster() {
		told := `max`
		switch name { // of a pair that disagrees the one that sees it worse
		case "nodes_ready:count", "cpu_allocatable:cores", "memory_allocatable:bytes":
			told = `min`
		}
		all := told + ` by (geography, region, cell, cluster) (` + ofCluster + `) and on (geography, region, cell) CONTRIBUTING`
		out["geography:"+name] = `sum by (geography) (` + all + `)`
		out["fleet:"+name] = `sum(` + all + `)`
	}
	for name, ofPool := range map[string]string{
		"clusters:count": clustersBySize,
		// Of cells that tell both.
		"capacity_used:value":  `(` + capacityUsed + `) and on (geography, region, cell, pool) (` + capacityTotal + `)`,
		"capacity_total:value": `(` + capacityTotal + `) and on (geography, region, cell, pool) (` + capacityUsed + `)`,
	} {
		by := map[bool]string{true: "size", false: "pool"}[name == "clusters:count"]
		all := `(` + ofPool + `) and on (geography, region, cell) CONTRIBUTING`
		out["geography:"+name] = `sum by (geography, ` + by + `) (` + all + `)`
		out["fleet:"+name] = `sum by (` + by + `) (` + all + `)`
	}
	known := `(max by (geography, region, cell, cluster) (` + eachCluster()["nodes:count"] + `) and on (geography, region, cell) CONTRIBUTING)`
	hosted := `(group by (geography, region, cell, cluster) (up{job="state", cluster!="_meta"}) and on (geography, region, cell) CONTRIBUTING)`
	for of, by := range map[string]string{"geography:": ` by (geography)`, "fleet:": ``} {
		out[of+"clusters_known:count"] = `count` + by + known + ` or 0 * count` + by + hosted
		out[of+"clusters_expected:count"] = `count` + by + hosted
	}
	for name, query := range out {
		out[name] = strings.NewReplacer("CONTRIBUTING", contributing, "EACH", "geography, region, cell, cluster, edge_replica").Replace(query)
	}
	return out
}

// What a cell hosts and gives away. Each shard of an edge knows clusters of its
// own, and what the meta cluster has is known to one of them.
const (
	clustersBySize = `
		sum by (geography, region, cell, size) (
			max by (geography, region, cell, edge_shard, size) (
				count by (geography, region, cell, edge_shard, edge_replica, size) (pharos_cluster_info{cluster!="_meta"})
			)
		)`
	capacityUsed = `
		label_replace(sum by (geography, region, cell) (` + clustersBySize + `), "pool", "clusters", "", "")
		or label_replace(max by (geography, region, cell) (pharos_cell_addresses_used), "pool", "addresses", "", "")
		or label_replace(max by (geography, region, cell) (sum by (EACH) (
			kube_pod_container_resource_requests{resource="cpu", node!="", cluster="_meta"}
			unless on (EACH, namespace, pod) kube_pod_status_phase{phase=~"Succeeded|Failed"} == 1
		)), "pool", "cpu", "", "")
		or label_replace(max by (geography, region, cell) (sum by (EACH) (
			kube_pod_container_resource_requests{resource="memory", node!="", cluster="_meta"}
			unless on (EACH, namespace, pod) kube_pod_status_phase{phase=~"Succeeded|Failed"} == 1
		)), "pool", "memory", "", "")`
	capacityTotal = `
		min by (geography, region, cell, pool) (label_replace(
			sum by (EACH, resource) (kube_node_status_allocatable{resource=~"cpu|memory", cluster="_meta"}),
			"pool", "$1", "resource", "(.+)"
		))`
)

// eachCluster has what is summed up: a number of each business cluster, as each
// server of a pair of edges scraped it. What two of them saw counts once, by the
// one that saw it worse.
func eachCluster() map[string]string {
	const (
		scheduled = `max by (EACH, namespace, pod, container) (kube_pod_container_resource_requests{resource="RESOURCE", node!="", cluster!="_meta"})
			unless on (EACH, namespace, pod) kube_pod_status_phase{phase=~"Succeeded|Failed"} == 1`
		// Where pods are known, none in trouble is nought.
		pods = `count by (EACH) (group by (EACH, namespace, pod) (PODS)) or 0 * count by (EACH) (kube_pod_info{cluster!="_meta"})`
	)
	of := func(query, word, by string) string { return strings.ReplaceAll(query, word, by) }
	return map[string]string{
		// A cluster that is watched and has no nodes counts, with none.
		"nodes:count": `count by (EACH) (group by (EACH, node) (kube_node_info{cluster!="_meta"})) or 0 * (pharos_cluster_up{cluster!="_meta"} == 1)`,
		"nodes_ready:count": `
			count by (EACH) (kube_node_status_condition{condition="Ready", status="true", cluster!="_meta"} == 1)
			or 0 * count by (EACH) (kube_node_info{cluster!="_meta"})
			or 0 * max by (EACH) (pharos_cluster_up{cluster!="_meta"} == 1)`,
		"clusters_up:count":         `min by (EACH) (pharos_cluster_up{cluster!="_meta"}) * min by (EACH) (up{job="kube-apiserver", cluster!="_meta"})`,
		"apiserver_requests:rate5m": `sum by (EACH) (rate(apiserver_request_total{verb!~"WATCH|CONNECT", cluster!="_meta"}[5m]))`,
		"apiserver_errors:rate5m":   `sum by (EACH) (rate(apiserver_request_total{verb!~"WATCH|CONNECT", code="500", cluster!="_meta"}[5m]))`,
		"nodes_cordoned:count":      `sum by (EACH) (kube_node_spec_unschedulable{cluster!="_meta"})`,
		"hosts:count":               `count by (EACH) (node_memory_MemTotal_bytes{cluster!="_meta"})`,
		"cpu_allocatable:cores":     `sum by (EACH) (kube_node_status_allocatable{resource="cpu", cluster!="_meta"})`,
		"memory_allocatable:bytes":  `sum by (EACH) (kube_node_status_allocatable{resource="memory", cluster!="_meta"})`,
		"cpu_requested:cores":       `sum by (EACH) (` + of(scheduled, "RESOURCE", "cpu") + `)`,
		"memory_requested:bytes":    `sum by (EACH) (` + of(scheduled, "RESOURCE", "memory") + `)`,
		"pods_pending:count": of(pods, "PODS", `
			kube_pod_status_phase{phase="Pending", cluster!="_meta"}
			and on (EACH, namespace, pod) kube_pod_status_phase{phase="Pending"} offset 10m`),
		"pods_crash_looping:count": of(pods, "PODS", `
			kube_pod_info{cluster!="_meta"}
			and on (EACH, namespace, pod) max_over_time(kube_pod_container_status_waiting_reason{reason="CrashLoopBackOff"}[5m])`),
		"pods_oom_killed:count": of(pods, "PODS", `
			kube_pod_container_status_last_terminated_reason{reason="OOMKilled", cluster!="_meta"}
			and on (EACH, namespace, pod, container) increase(kube_pod_container_status_restarts_total[10m]) > 0`),
	}
}
