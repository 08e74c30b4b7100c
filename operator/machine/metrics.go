package machine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

type metrics struct {
	repairs *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pharos_machine_operator_repairs_total",
		Help: "Answers given to requests for repair, by phase.",
	}, []string{"phase"})}
	for _, p := range []v1alpha1.RepairPhase{v1alpha1.RepairRunning, v1alpha1.RepairSucceeded, v1alpha1.RepairFailed, v1alpha1.RepairRefused} {
		m.repairs.WithLabelValues(string(p))
	}
	r.MustRegister(m.repairs)
	return m
}
