package hint

import "github.com/prometheus/client_golang/prometheus"

// outcome is what became of a hint, the value of a label.
type outcome string

const (
	// taken means that the next round is to come at once.
	taken outcome = "taken"
	// merged means that one which was taken before has not had its round yet.
	merged outcome = "merged"
	// standby means that another process leads, and nothing came of the hint.
	standby outcome = "standby"
	// unauthorized means that who called the web hook did not show the token.
	unauthorized outcome = "unauthorized"
	// invalid means that the web hook was sent what it does not take.
	invalid outcome = "invalid"
	// failed means that an Alertmanager could not be asked, or that the web hook could
	// not answer: its token cannot be read, or it was called too often.
	failed outcome = "failed"
)

// metrics never bear what an alert says.
type metrics struct{ hints *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pharos_remediator_hints_total",
		Help: "Hints of Alertmanagers, by source (webhook, api) and by what became of them.",
	}, []string{"source", "outcome"})}
	r.MustRegister(m.hints)
	for source, outcomes := range map[string][]outcome{
		sourceWebhook: {taken, merged, standby, unauthorized, invalid, failed},
		sourceAPI:     {taken, merged, standby, failed},
	} {
		for _, o := range outcomes {
			m.hints.WithLabelValues(source, string(o))
		}
	}
	return m
}

func (m *metrics) count(source string, o outcome) {
	m.hints.WithLabelValues(source, string(o)).Inc()
}
