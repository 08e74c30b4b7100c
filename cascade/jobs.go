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

// edges reads every edge server as a target of its own. A cell's labels on the
// target make up{cell="…"} say which edge is dead; series that bear labels of
// their own keep them.
func edges(o Options, contract rules.Contract) promcfg.ScrapeConfig {
	limit := contract.SampleLimit(rules.Cascade, rules.Size{Cells: 1, ClustersPerCell: o.ClustersPerCell})
	job := promcfg.Federate("federate-edge", contract.Matchers(rules.Cascade), limit)
	for _, c := range o.Cells {
		if len(c.Endpoints) == 0 {
			continue
		}
		job.Static = append(job.Static, promcfg.StaticGroup{
			Targets: c.Endpoints,
			Labels:  map[string]string{"geography": o.Geography, "region": c.Region, "cell": c.Name},
		})
	}
	return job
}
