package edge

import (
	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/rules"
)

// The components that an edge scrapes. The name is the value of the label job
// of their targets, for the meta cluster and the business clusters alike, and
// the source of their series in the contract.
const (
	componentEdge         = "edge"
	componentAgent        = "edge-agent-self"
	componentState        = "state"
	componentAPIServer    = "kube-apiserver"
	componentEtcd         = "etcd"
	componentControllers  = "kube-controller-manager"
	componentScheduler    = "kube-scheduler"
	componentKubelet      = "kubelet"
	componentCadvisor     = "cadvisor"
	componentNodeExporter = "node-exporter"
)

// components are all that the edge scrapes.
func (o Options) components() []string {
	all := []string{
		componentEdge, componentAgent, componentState, componentAPIServer, componentEtcd, componentControllers,
		componentScheduler, componentKubelet, componentCadvisor, componentNodeExporter,
	}
	if o.fromKubeStateMetrics() {
		all = append(all, componentAgentState)
	}
	return all
}

// MetaCluster is the value of the label cluster on what is about the cell
// itself, not about a cluster that it hosts.
const MetaCluster = rules.MetaCluster

// limits bound one target of a component, so that one that has gone wrong is
// refused as a whole, and told of, instead of filling the server.
type limits struct {
	// samples are what is left of a scrape after the contract's choice.
	samples uint
	// body is the size of the answer before that, uncompressed.
	body string
}

// limitsOf has about four times what the largest healthy target has been seen or
// reckoned to have.
func limitsOf(component string, size v1alpha1.CellSize) limits {
	switch component {
	case componentState:
		// One cluster: 60 series a node and 6 a pod, 10 by kube-state-metrics.
		return limits{SizingOf(size).StateSamples, "512MB"}
	case componentAPIServer:
		// 400 kinds of request, each with six buckets; the answer also has all
		// that is not kept, up to 40 MB. The agent passes on no more than 64.
		return limits{50_000, "64MB"}
	case componentCadvisor:
		// 110 to 500 pods a node, some hundred lines each before the choice.
		return limits{5_000, "64MB"}
	case componentNodeExporter:
		// Eight series for each of up to 512 processors.
		return limits{10_000, "10MB"}
	case componentControllers, componentScheduler:
		// Some fifteen series for each of a hundred queues.
		return limits{10_000, "32MB"}
	case componentAgentState:
		// Three series for each machine of a cluster.
		return limits{50_000, "64MB"}
	case componentAgent:
		// A dozen for each cluster of the cell.
		return limits{20_000, "16MB"}
	}
	return limits{5_000, "16MB"}
}
