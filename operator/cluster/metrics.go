package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

type metrics struct {
	looks *prometheus.CounterVec
}

// newMetrics begins at zero for every reason. No label names a Cluster: how each
// of them is, the edge agent exports.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{looks: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pharos_cluster_looks_total",
		Help: "Looks at the API server of a Cluster, by the reason of the Ready condition they ended with.",
	}, []string{"reason"})}
	for _, reason := range reasons() {
		m.looks.WithLabelValues(reason)
	}
	r.MustRegister(m.looks)
	return m
}

// reasons are all that Ready can have.
func reasons() []string {
	return []string{
		v1alpha1.ReasonAPIServerReady, v1alpha1.ReasonAPIServerNotReady, v1alpha1.ReasonUnreachable, v1alpha1.ReasonUnauthorized,
		v1alpha1.ReasonKubeconfigMissing, v1alpha1.ReasonKubeconfigUnreadable, v1alpha1.ReasonKubeconfigInvalid,
	}
}
