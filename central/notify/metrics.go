package notify

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of a webhook call, as the metric's label has them.
const (
	resultQueued    = "queued"
	resultDuplicate = "duplicate"
	resultInvalid   = "invalid" // answered 4xx, never to come again
	resultFailed    = "failed"  // answered 5xx, Alertmanager asks again
)

// unknownRobot stands for every name that is not configured, so that a caller
// cannot make labels.
const unknownRobot = "unknown"

type metrics struct {
	received *prometheus.CounterVec // robot, result
	attempts *prometheus.CounterVec // robot, verdict
	digests  *prometheus.CounterVec // robot
	leftOut  *prometheus.CounterVec // robot
}

// robotMetrics are those of one robot's worker.
type robotMetrics struct {
	attempts map[verdict]prometheus.Counter
	digests  prometheus.Counter
	leftOut  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_notify_received_total",
			Help: "Notifications that Alertmanager handed over, by what became of the call.",
		}, []string{"robot", "result"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_notify_send_attempts_total",
			Help: "Attempts to send a message to the provider, by how it answered.",
		}, []string{"robot", "verdict"}),
		digests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_notify_digests_total",
			Help: "Times that waiting notifications were merged into one digest.",
		}, []string{"robot"}),
		leftOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_notify_alerts_left_out_total",
			Help: "Alerts of which a message gave only the number, because they were too many.",
		}, []string{"robot"}),
	}
	reg.MustRegister(m.received, m.attempts, m.digests, m.leftOut)
	m.initialise(unknownRobot)
	return m
}

func (m *metrics) initialise(robot string) {
	for _, result := range []string{resultQueued, resultDuplicate, resultInvalid, resultFailed} {
		m.received.WithLabelValues(robot, result)
	}
}

func (m *metrics) forRobot(robot string) *robotMetrics {
	m.initialise(robot)
	r := &robotMetrics{
		attempts: map[verdict]prometheus.Counter{},
		digests:  m.digests.WithLabelValues(robot), leftOut: m.leftOut.WithLabelValues(robot),
	}
	for _, v := range verdicts {
		r.attempts[v] = m.attempts.WithLabelValues(robot, string(v))
	}
	return r
}

// spoolCollector reads the spools when it is scraped, so that no gauge can lag.
type spoolCollector struct {
	spools map[string]*spool
	now    func() time.Time
}

var (
	queueDesc = prometheus.NewDesc("pharos_notify_queue_length",
		"Notifications that wait to be sent.", []string{"robot"}, nil)
	queueAgeDesc = prometheus.NewDesc("pharos_notify_queue_age_seconds",
		"Age of the oldest notification that waits to be sent, 0 when none does.", []string{"robot"}, nil)
	deadDesc = prometheus.NewDesc("pharos_notify_dead_letters",
		"Notifications that the provider refused for good and that wait for a person.", []string{"robot"}, nil)
)

// Describe implements prometheus.Collector.
func (c spoolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- queueDesc
	ch <- queueAgeDesc
	ch <- deadDesc
}

// Collect implements prometheus.Collector.
func (c spoolCollector) Collect(ch chan<- prometheus.Metric) {
	for robot, s := range c.spools {
		pending, oldest, dead := s.size()
		age := 0.0
		if pending > 0 {
			age = c.now().Sub(oldest).Seconds()
		}
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, robot)
		}
		gauge(queueDesc, float64(pending))
		gauge(queueAgeDesc, age)
		gauge(deadDesc, float64(dead))
	}
}
