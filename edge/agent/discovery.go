package agent

import (
	"encoding/json"
	"net/http"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// target is one entry of Prometheus' HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// serveDiscovery lists the API server of every business cluster, reachable or
// not: one that cannot be reached must show as down, not disappear.
func (a *Agent) serveDiscovery(w http.ResponseWriter, _ *http.Request) {
	// After an error Prometheus keeps the targets that it has.
	if err := a.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	chosen, _ := distinct(listOf[*v1alpha1.Cluster](a.clusters))
	targets := make([]target, 0, len(chosen))
	for _, c := range chosen {
		targets = append(targets, target{
			Targets: []string{a.opts.Advertise},
			Labels: map[string]string{
				"__metrics_path__": "/proxy/" + c.Namespace + "/" + c.Name + "/apiserver/metrics",
				"cluster":          c.Name,
				"component":        "kube-apiserver",
			},
		})
	}
	w.Header().Set("Content-Type", "application/json")
	// The reader may have gone; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(targets)
}
