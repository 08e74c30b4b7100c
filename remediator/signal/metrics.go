package signal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have a series for each cell, and none for a node or machine.
type metrics struct {
	current  *prometheus.GaugeVec
	machines *prometheus.GaugeVec
	failures *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	label := []string{"cell"}
	m := &metrics{
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pharos_remediator_cell_current_timestamp_seconds", Help: "The moment that the inventory of the cell was known to be of when it was known last.",
		}, label),
		machines: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pharos_remediator_cell_machines", Help: "Machines in the inventory of the cell when it was known last.",
		}, label),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_remediator_cell_watch_failures_total", Help: "Failures to list and watch the cell, after each of which it is unknown until it has been listed again.",
		}, label),
	}
	if r != nil {
		r.MustRegister(m.current, m.machines, m.failures)
	}
	return m
}

func (m *metrics) known(cell string, asOf time.Time, machines int) {
	m.current.WithLabelValues(cell).Set(float64(asOf.UnixMilli()) / 1000)
	m.machines.WithLabelValues(cell).Set(float64(machines))
}

func (m *metrics) failed(cell string) { m.failures.WithLabelValues(cell).Inc() }

// forget drops the series of a cell that is gone.
func (m *metrics) forget(cell string) {
	m.current.DeleteLabelValues(cell)
	m.machines.DeleteLabelValues(cell)
	m.failures.DeleteLabelValues(cell)
}
