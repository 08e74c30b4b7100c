package kubelet

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	pods        prometheus.Gauge
	starts      prometheus.Counter
	exits       *prometheus.CounterVec
	volumes     prometheus.Counter
	statusFails prometheus.Counter
	logFails    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		pods: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pharos_kubelet_pods", Help: "Pods that this kubelet looks after, finished ones included.",
		}),
		starts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pharos_kubelet_container_starts_total", Help: "Containers started.",
		}),
		exits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_kubelet_container_exits_total", Help: "Containers ended, by reason.",
		}, []string{"reason"}),
		volumes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pharos_kubelet_volume_updates_total", Help: "Changes of volume files that followed the API.",
		}),
		statusFails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pharos_kubelet_status_write_errors_total", Help: "Pod status writes that the API server did not take; each is tried again.",
		}),
		logFails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pharos_kubelet_log_write_errors_total", Help: "Lines of container output that could not be kept.",
		}),
	}
	for _, reason := range []string{reasonCompleted, reasonError, reasonStartError} {
		m.exits.WithLabelValues(reason)
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.pods, m.starts, m.exits, m.volumes, m.statusFails, m.logFails} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}
