package cascade

import (
	"github.com/pharos-fleet/pharos/internal/promcfg"
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
