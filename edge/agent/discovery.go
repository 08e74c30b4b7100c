package agent

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Components that an edge finds through the agent, as the paths of discovery
// and the jobs of the edge name them.
const (
	componentState        = "state"
	componentAPIServer    = "kube-apiserver"
	componentKubelet      = "kubelet"
	componentCadvisor     = "cadvisor"
	componentNodeExporter = "node-exporter"
)

// target is one entry of Prometheus' HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// serveDiscovery lists the targets of one component. All are the agent itself,
// by different paths.
func (a *Agent) serveDiscovery(w http.ResponseWriter, r *http.Request) {
	// After an error Prometheus keeps the targets that it has.
	if err := a.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	targets, ok := a.targets(r.PathValue("component"))
	if !ok {
		http.Error(w, "no such component is discovered here", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The reader may have gone; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(targets)
}

// targets are those of one component. A cluster or node that cannot be reached
// must show as down, and not disappear.
func (a *Agent) targets(component string) ([]target, bool) {
	clusters, _ := distinct(listOf[*v1alpha1.Cluster](a.clusters))
	out := make([]target, 0, len(clusters)+1)
	switch component {
	case componentState:
		for _, c := range clusters {
			out = append(out, a.target(statePath(c.Namespace+"/"+c.Name), "cluster", c.Name))
		}
		return append(out, a.target(statePath(metaCluster), "cluster", metaCluster)), true
	case componentAPIServer:
		for _, c := range clusters {
			out = append(out, a.target("/proxy/"+c.Namespace+"/"+c.Name+"/apiserver/metrics", "cluster", c.Name))
		}
		return out, true
	case componentKubelet, componentCadvisor, componentNodeExporter:
		return a.nodeTargets(component, clusters), true
	}
	return nil, false
}

func statePath(of string) string { return "/state/" + of + "/metrics" }

func (a *Agent) target(path string, labels ...string) target {
	t := target{Targets: []string{a.opts.Advertise}, Labels: map[string]string{"__metrics_path__": path}}
	for i := 0; i+1 < len(labels); i += 2 {
		t.Labels[labels[i]] = labels[i+1]
	}
	return t
}

// nodeTargets lists an endpoint of the nodes that are known now. Those of a
// cluster that is not watched are not known, and their targets end with their
// state.
func (a *Agent) nodeTargets(component string, clusters []*v1alpha1.Cluster) []target {
	now, out := a.now(), []target{}
	for _, c := range clusters {
		m := a.member(clusterKey{c.Namespace, c.Name})
		if m == nil {
			continue // not started yet
		}
		conn, _ := m.watching(now)
		if conn == nil {
			continue
		}
		nodes := conn.nodes.all()
		slices.SortFunc(nodes, func(a, b *nodeOutline) int { return cmp.Compare(a.name, b.name) })
		for _, n := range nodes {
			path := "/proxy/" + c.Namespace + "/" + c.Name + "/nodes/" + n.name + "/" + component + "/metrics"
			out = append(out, a.target(path, "cluster", c.Name, "node", n.name))
		}
	}
	return out
}
