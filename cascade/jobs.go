package cascade

import (
	"regexp"
	"strconv"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// self is the server's view of itself. A geography can have many cascades, and each
// records how large it is and what it refuses under its own shard: what it scraped
// of another would pass for its own.
func self(o Options) promcfg.ScrapeConfig {
	job := promcfg.ScrapeConfig{JobName: "cascade"}
	if len(o.Self) > 0 {
		job.Static = []promcfg.StaticGroup{{Targets: o.Self}}
		return job
	}
	job.Kubernetes = []promcfg.KubernetesSD{o.APIServer.Pods(map[string]string{
		v1alpha1.LabelComponent: v1alpha1.ComponentCascade,
		v1alpha1.LabelGeography: o.Geography,
	})}
	job.Relabel = append(promcfg.PodAddress(promcfg.Port),
		promcfg.Relabel{SourceLabels: []string{podShard}, Regex: strconv.Itoa(o.Shard), Action: "keep"},
		promcfg.Relabel{SourceLabels: []string{podReplica}, Regex: regexp.QuoteMeta(o.Replica), Action: "keep"},
	)
	return job
}

// How Prometheus names the labels of a pod by which servers of a geography are told
// apart, v1alpha1.LabelShard and v1alpha1.LabelReplica, while it relabels.
const (
	podShard   = "__meta_kubernetes_pod_label_pharos_dev_shard"
	podReplica = "__meta_kubernetes_pod_label_pharos_dev_replica"
)
