package edge

import (
	"maps"
	"slices"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// Static are the addresses, host:port, that an edge scrapes without discovery.
// Every agent is asked for the state of every business cluster that is named.
type Static struct {
	Edges, Agents []string
	// Business are the API servers' metrics endpoints by name of the cluster.
	Business map[string]string
}

// staticSources are the sources whose addresses are given.
func staticSources(o Options) []source {
	state, apiServers := source{component: componentState}.spoken(), source{component: componentAPIServer}
	for _, cluster := range slices.Sorted(maps.Keys(o.Static.Business)) {
		apiServers.job.Static = append(apiServers.job.Static, promcfg.StaticGroup{
			Targets: []string{o.Static.Business[cluster]}, Labels: map[string]string{"cluster": cluster},
		})
		state.job.Static = append(state.job.Static, promcfg.StaticGroup{
			Targets: o.Static.Agents, Labels: map[string]string{"cluster": cluster, "__metrics_path__": "/state/static/" + cluster + "/metrics"},
		})
	}
	return []source{agent(o), o.saysLess(state), apiServers}
}
