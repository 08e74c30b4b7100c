package cascade

import (
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

func self(o Options) promcfg.ScrapeConfig {
	job := promcfg.ScrapeConfig{JobName: "cascade"}
	if len(o.Self) > 0 {
		job.Static = []promcfg.StaticGroup{{Targets: o.Self}}
		return job
	}
	job.Kubernetes = []promcfg.KubernetesSD{o.APIServer.Pods(map[string]string{
		"app.kubernetes.io/component": "cascade",
		"pharos.dev/geography":        o.Geography,
	})}
	job.Relabel = promcfg.PodAddress(promcfg.Port)
	return job
}

// labelTargetCell is, on the targets of edges, the cell that the address belongs
// to. It stays on up and is taken off everything else.
const labelTargetCell = "target_cell"

// edges reads every edge server as a target of its own. A cell's labels on the
// target make up{cell="…"} say which edge is dead; series that bear labels of
// their own keep them, but an edge speaks for no cell but its own: where labels
// were copied or an address was given to another cell, what it says of that
// cell is dropped. Its own cell then has no heartbeat, and counts as stale.
func edges(o Options, contract rules.Contract) promcfg.ScrapeConfig {
	limit := contract.SampleLimit(rules.Cascade, rules.Size{Cells: 1, ClustersPerCell: o.ClustersPerCell})
	job := promcfg.Federate("federate-edge", contract.Matchers(rules.Cascade), limit)
	for _, c := range o.Cells {
		if len(c.Endpoints) == 0 {
			continue
		}
		labels := map[string]string{"geography": o.Geography, "region": c.Region, "cell": c.Name, labelTargetCell: c.Name}
		if c.Shards <= 1 {
			labels["edge_shard"] = "0" // an External edge has no such label of its own
		}
		job.Static = append(job.Static, promcfg.StaticGroup{Targets: c.Endpoints, Labels: labels})
	}
	job.MetricRelabel = []promcfg.Relabel{
		{SourceLabels: []string{"cell"}, TargetLabel: labelTargetCell, Action: "keepequal"},
		{Regex: labelTargetCell, Action: "labeldrop"},
	}
	return job
}
