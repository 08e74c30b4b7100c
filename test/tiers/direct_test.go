package tiers_test

import "strings"

// directly has for every number of the whole the query that computes it from raw
// series of the whole fleet. Here raw series bear the labels of their cell and
// edge; plan_cell, plan_edge and so on are the fleet as it should be. Written
// without the rules: what an edge or cascade records is not in that server.
func directly() map[string]string {
	// A server that is alive scrapes itself.
	const contributing = `(
		count by (geography, region, cell) (group by (geography, region, cell, edge_shard) (prometheus_tsdb_head_series{job="edge"}))
		== on (geography, region, cell)
		count by (geography, region, cell) (plan_edge))`
	out := map[string]string{
		"fleet:interval:seconds":         `vector(30)`,
		"fleet:central_expected:info":    `plan_central`,
		"fleet:cascade_expected:info":    `plan_cascade`,
		"fleet:edge_expected:info":       `plan_edge`,
		"fleet:cell_expected:info":       `plan_cell`,
		"fleet:cells_expected:count":     `count(plan_cell)`,
		"fleet:cell_contributing:bool":   `plan_cell * 0 + on (geography, region, cell) (0 * CONTRIBUTING + 1) or plan_cell * 0`,
		"fleet:cell_dark:bool":           `plan_cell unless on (geography, region, cell) CONTRIBUTING or plan_cell * 0`,
		"fleet:cells_contributing:count": `count(CONTRIBUTING)`,
		"fleet:completeness:ratio":       `count(CONTRIBUTING) / count(plan_cell)`,
		"geography:cells_expected:count": `
			count by (geography) (plan_cell) or plan_geography * 0`,
		"geography:cells_contributing:count": `
			count by (geography) (CONTRIBUTING) or plan_geography * 0`,
		"geography:completeness:ratio": `
			count by (geography) (CONTRIBUTING) / count by (geography) (plan_cell)
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
	for name, query := range map[string]string{
		"nodes:count":       `group by (geography, region, cell, cluster, node) (kube_node_info{cluster!="_meta"})`,
		"nodes_ready:count": `max by (geography, region, cell, cluster, node) (kube_node_status_condition{condition="Ready", status="true", cluster!="_meta"}) == 1`,
	} {
		out["geography:"+name] = `count by (geography) ((` + query + `) and on (geography, region, cell) CONTRIBUTING)`
		out["fleet:"+name] = `count((` + query + `) and on (geography, region, cell) CONTRIBUTING)`
	}
	for name, query := range out {
		out[name] = strings.ReplaceAll(query, "CONTRIBUTING", contributing)
	}
	return out
}
