package notify

import (
	"syscall"
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
	refusals *prometheus.CounterVec // robot, errcode
}

// robotMetrics are those of one robot's worker.
type robotMetrics struct {
	attempts map[verdict]prometheus.Counter
	digests  prometheus.Counter
	leftOut  prometheus.Counter
	refusals map[string]prometheus.Counter // by errcode
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
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_notify_refusals_total",
			Help: "Notifications that were put aside because the provider refused them for good, by its code.",
		}, []string{"robot", "errcode"}),
	}
	reg.MustRegister(m.received, m.attempts, m.digests, m.leftOut, m.refusals)
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
		attempts: map[verdict]prometheus.Counter{}, refusals: map[string]prometheus.Counter{},
		digests: m.digests.WithLabelValues(robot), leftOut: m.leftOut.WithLabelValues(robot),
	}
	for _, code := range errcodes() {
		r.refusals[code] = m.refusals.WithLabelValues(robot, code)
	}
	for _, v := range verdicts {
		r.attempts[v] = m.attempts.WithLabelValues(robot, string(v))
	}
	return r
}

// spoolCollector reads the spools when it is scraped, so that no gauge can lag.
type spoolCollector struct {
	// dir has all of the spools.
	dir    string
	spools map[string]*spool
	robots map[string]Robot
	now    func() time.Time
}

var (
	queueDesc = prometheus.NewDesc("pharos_notify_queue_length",
		"Notifications that wait to be sent.", []string{"robot"}, nil)
	queueAgeDesc = prometheus.NewDesc("pharos_notify_queue_age_seconds",
		"Age of the oldest notification that waits to be sent, 0 when none does.", []string{"robot"}, nil)
	queueFillDesc = prometheus.NewDesc("pharos_notify_queue_fill_ratio",
		"Share that is taken of the notifications that may wait.", []string{"robot"}, nil)
	diskFreeDesc = prometheus.NewDesc("pharos_notify_disk_free_bytes",
		"Bytes that are free on the volume of the spool.", nil, nil)
	deadDesc = prometheus.NewDesc("pharos_notify_dead_letters",
		"Notifications that the provider refused for good and that wait for a person.", []string{"robot"}, nil)
	refusingDesc = prometheus.NewDesc("pharos_notify_refusing",
		"Whether the provider refused the newest message for good, by its code, 0 once it has taken one; of code credentials, whether the robot's files cannot be read.",
		[]string{"robot", "errcode"}, nil)
)

// Describe implements prometheus.Collector.
func (c spoolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- queueDesc
	ch <- queueAgeDesc
	ch <- queueFillDesc
	ch <- diskFreeDesc
	ch <- deadDesc
	ch <- refusingDesc
}

// Collect implements prometheus.Collector.
func (c spoolCollector) Collect(ch chan<- prometheus.Metric) {
	for robot, s := range c.spools {
		is := s.state()
		age := 0.0
		if is.pending > 0 {
			age = c.now().Sub(is.oldest).Seconds()
		}
		gauge := func(d *prometheus.Desc, v float64, more ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{robot}, more...)...)
		}
		gauge(queueDesc, float64(is.pending))
		gauge(queueAgeDesc, age)
		gauge(queueFillDesc, float64(is.pending)/maxPending)
		gauge(deadDesc, float64(is.dead))
		refusing := c.refusing(robot, is) // reads the robot's files
		for _, code := range append(errcodes(), noCredentials) {
			refuses := 0.0
			if code == refusing {
				refuses = 1
			}
			gauge(refusingDesc, refuses, code)
		}
	}
	ch <- prometheus.MustNewConstMetric(diskFreeDesc, prometheus.GaugeValue, freeBytes(c.dir))
}

// refusing is why a robot is known to take nothing, if it is. Without its token there
// is nothing to try, and no message need wait to know that.
func (c spoolCollector) refusing(robot string, is state) string {
	if _, _, err := c.robots[robot].credentials(); err != nil {
		return noCredentials
	}
	return is.refusing
}

// freeBytes is nought where the volume cannot be asked: nothing can be kept there.
func freeBytes(dir string) float64 {
	var volume syscall.Statfs_t
	if err := syscall.Statfs(dir, &volume); err != nil {
		return 0
	}
	return float64(volume.Bavail) * float64(volume.Bsize)
}
