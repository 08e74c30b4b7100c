package central

import (
	"maps"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

func scrapes(o Options, contract rules.Contract) []promcfg.ScrapeConfig {
	all := append([]promcfg.ScrapeConfig{centrals(o), cascades(o, contract), peers(o)}, tellers(o, contract)...)
	if o.Static == nil {
		all = append(all, programs(o, contract))
	}
	return all
}

// programs scrapes Pharos' own programs in the hub, and keeps what is declared
// of them. A pod is a target at its port http only.
func programs(o Options, contract rules.Contract) promcfg.ScrapeConfig {
	return promcfg.ScrapeConfig{
		JobName:    "pharos",
		Kubernetes: []promcfg.KubernetesSD{o.APIServer.Pods(map[string]string{"app.kubernetes.io/name": "pharos"})},
		Relabel: []promcfg.Relabel{
			{SourceLabels: []string{"__meta_kubernetes_pod_phase"}, Regex: "Failed|Succeeded", Action: "drop"},
			{SourceLabels: []string{"__meta_kubernetes_pod_container_port_name"}, Regex: "http", Action: "keep"},
			{SourceLabels: []string{"__meta_kubernetes_pod_label_app_kubernetes_io_component"}, TargetLabel: "component"},
		},
		MetricRelabel: keep(contract, "pharos"),
	}
}

// keep leaves what the contract declares of a source.
func keep(contract rules.Contract, source string) []promcfg.Relabel {
	return []promcfg.Relabel{{SourceLabels: []string{"__name__"}, Regex: strings.Join(contract.RawFrom(source), "|"), Action: "keep"}}
}

// centrals scrapes every central, this one as well, so that each knows whether
// the other answers.
func centrals(o Options) promcfg.ScrapeConfig {
	job := promcfg.ScrapeConfig{JobName: "central"}
	if o.Static == nil {
		job.Kubernetes = []promcfg.KubernetesSD{o.pods("central")}
		job.Relabel = append(promcfg.PodAddress(promcfg.Port), promcfg.Relabel{
			SourceLabels: []string{"__meta_kubernetes_pod_label_pharos_dev_replica"}, TargetLabel: "central",
		})
		return job
	}
	for _, replica := range slices.Sorted(maps.Keys(o.Static.Centrals)) {
		job.Static = append(job.Static, promcfg.StaticGroup{
			Targets: []string{o.Static.Centrals[replica]}, Labels: map[string]string{"central": replica},
		})
	}
	return job
}

// peers reads from every central what it says of the whole fleet, under names of
// their own, so that each central knows whether they agree.
func peers(o Options) promcfg.ScrapeConfig {
	renamed := "central:peer_$1"
	job := promcfg.Federation{
		Job:   "federate-central",
		Match: []string{"fleet:cells_contributing:count", "fleet:nodes:count"},
		Pass: []promcfg.Relabel{
			{SourceLabels: []string{"__name__"}, Regex: "fleet:(.+)", TargetLabel: "__name__", Replacement: &renamed},
		},
		Samples:  10,
		Interval: o.Interval,
	}.Scrape()
	if o.Static == nil {
		job.Kubernetes = []promcfg.KubernetesSD{o.pods("central")}
		job.Relabel = promcfg.PodAddress(promcfg.Port)
		return job
	}
	for _, replica := range slices.Sorted(maps.Keys(o.Static.Centrals)) {
		job.Static = append(job.Static, promcfg.StaticGroup{Targets: []string{o.Static.Centrals[replica]}})
	}
	return job
}

// mostCells is how many cells the largest geography has.
func mostCells(cells []Cell) uint {
	counts := map[string]uint{}
	var most uint
	for _, c := range cells {
		counts[c.Geography]++
		most = max(most, counts[c.Geography])
	}
	return most
}

// mostShards is how many parts the edge of a cell has at most.
func mostShards(cells []Cell) uint {
	var most uint
	for _, c := range cells {
		most = max(most, c.Shards)
	}
	return most
}

func (o Options) pods(component string) promcfg.KubernetesSD {
	return o.APIServer.Pods(map[string]string{"app.kubernetes.io/component": component})
}
