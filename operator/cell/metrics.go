package cell

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

type metrics struct {
	reports *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{reports: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pharos_cell_reports_total",
		Help: "Reconciliations of Cells, by the reason of the Ready condition they ended with.",
	}, []string{"reason"})}
	for _, reason := range []string{
		v1alpha1.ReasonAvailable, v1alpha1.ReasonProgressing, v1alpha1.ReasonInvalid,
		v1alpha1.ReasonApplyFailed, v1alpha1.ReasonUnreachable,
	} {
		m.reports.WithLabelValues(reason)
	}
	r.MustRegister(m.reports)
	return m
}
