package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// metrics never bear a node's or machine's name.
type metrics struct {
	rounds    *prometheus.CounterVec
	duration  prometheus.Histogram
	leading   prometheus.Gauge
	phases    *prometheus.CounterVec
	requests  *prometheus.CounterVec
	checks    *prometheus.CounterVec
	held      *prometheus.GaugeVec
	unhealthy prometheus.Gauge
	unmatched prometheus.Gauge
	escalated prometheus.Gauge
	centrals  *prometheus.GaugeVec
	cells     *prometheus.GaugeVec
	frozen    *prometheus.GaugeVec
	incidents *prometheus.GaugeVec
	records   prometheus.Gauge
	refused   prometheus.Gauge
	jumps     prometheus.Counter
	pruned    prometheus.Counter
	unpruned  prometheus.Counter
	proposed  *prometheus.GaugeVec
	oldest    *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer, centrals []signal.Central) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "pharos_remediator_" + name, Help: help})
	}
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pharos_remediator_" + name, Help: help}, []string{label})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "pharos_remediator_" + name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pharos_remediator_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		rounds: counters("rounds_total", "Rounds of reading, deciding and acting, by result.", "result"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pharos_remediator_round_duration_seconds", Help: "Time that a round took.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 12),
		}),
		leading:   gauge("leader", "1 while this process leads."),
		phases:    counters("remediations_total", "Repairs that entered a phase; Pending counts those written down.", "phase"),
		requests:  counters("requests_total", "Attempts to begin a repair, by result.", "result"),
		checks:    counters("node_checks_total", "Node checks that came to a result; Pending counts those asked for.", "result"),
		held:      gauges("machines_held", "Unhealthy machines that are not being repaired, by reason.", "reason"),
		unhealthy: gauge("machines_unhealthy", "Machines selected by a policy that some source calls unhealthy."),
		unmatched: gauge("nodes_unmatched", "Nodes called unhealthy that no machine of the inventory bears."),
		escalated: gauge("machines_escalated", "Machines that were handed to people, who have not acknowledged it."),
		centrals:  gauges("central_up", "1 if the central answered whole in the last round.", "central"),
		cells:     gauges("cell_up", "1 if the cell's inventory could be read in the last round.", "cell"),
		frozen:    gauges("frozen_since_timestamp_seconds", "When a disruption budget was first seen to be frozen without an end, by budget.", "budget"),
		incidents: gauges("incidents_open", "Incidents that are not closed, by what is suspected.", "kind"),
		records:   gauge("records", "Remediations that the hub has, open ones included."),
		jumps:     counter("clock_jumps_total", "Rounds that decided nothing because the process's clock had jumped."),
		refused:   gauge("records_refused", "Machines whose repair the hub does not let be written down; each is tried again ever more rarely."),
		pruned:    counter("records_pruned_total", "Remediations that ended long ago and were taken away."),
		unpruned:  counter("records_prune_failures_total", "Rounds in which Remediations could not be taken away, or not be written into the audit log."),
		proposed:  gauges("proposals_open", "Repairs that are proposed and not answered, by mode of the policy.", "mode"),
		oldest:    gauges("proposal_oldest_timestamp_seconds", "When the oldest of them was proposed, by mode of the policy.", "mode"),
	}
	r.MustRegister(
		m.rounds, m.duration, m.leading, m.phases, m.requests, m.checks, m.held, m.unhealthy, m.unmatched, m.escalated, m.centrals, m.cells, m.frozen,
		m.records, m.refused, m.jumps, m.pruned, m.unpruned, m.incidents, m.proposed, m.oldest,
	)
	m.initialise(centrals)
	return m
}

func (m *metrics) initialise(centrals []signal.Central) {
	for _, result := range []string{"success", "error"} {
		m.rounds.WithLabelValues(result)
	}
	for _, result := range []string{requested, withheld, draining, conflict, refused, failed} {
		m.requests.WithLabelValues(result)
	}
	for _, p := range []api.RemediationPhase{
		api.RemediationProposed, api.RemediationPending, api.RemediationDraining, api.RemediationActing, api.RemediationVerifying,
		api.RemediationSucceeded, api.RemediationFailed, api.RemediationCancelled, api.RemediationEscalated,
	} {
		m.phases.WithLabelValues(string(p))
	}
	for _, result := range []api.NodeCheckResult{
		api.NodeCheckPending, api.NodeCheckRunning, api.NodeCheckPass, api.NodeCheckFail, api.NodeCheckTimeout, api.NodeCheckNotRun,
	} {
		m.checks.WithLabelValues(string(result))
	}
	for _, reason := range policy.HoldReasons() {
		m.held.WithLabelValues(string(reason))
	}
	for _, c := range centrals {
		m.centrals.WithLabelValues(c.Name)
	}
}

func (m *metrics) round(took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.rounds.WithLabelValues(result).Inc()
	m.duration.Observe(took.Seconds())
}

// Results of an attempt to begin a repair.
const (
	requested = "requested" // it stands on the machine
	withheld  = "withheld"  // the last look spoke against it
	draining  = "draining"  // its node is emptied first
	conflict  = "conflict"  // the machine changed in between
	refused   = "refused"   // the API server will not have it
	failed    = "error"     // anything else
)

func (m *metrics) request(result string) { m.requests.WithLabelValues(result).Inc() }

func (m *metrics) retired(gone int, err error) {
	m.pruned.Add(float64(gone))
	if err != nil {
		m.unpruned.Inc()
	}
}

func (m *metrics) leader(yes bool) { m.leading.Set(one(yes)) }

func (m *metrics) check(r api.NodeCheckResult) { m.checks.WithLabelValues(string(r)).Inc() }

func (m *metrics) phase(p api.RemediationPhase) { m.phases.WithLabelValues(string(p)).Inc() }

func (m *metrics) plan(plan policy.Plan, s policy.Snapshot) {
	count := map[policy.Reason]int{}
	for _, d := range plan.Decisions {
		if d.Verdict != policy.Act {
			count[d.Reason]++
		}
	}
	for _, reason := range policy.HoldReasons() {
		m.held.WithLabelValues(string(reason)).Set(float64(count[reason]))
	}
	unhealthy := 0
	for _, r := range plan.Policies {
		unhealthy += r.Unhealthy
	}
	m.unhealthy.Set(float64(unhealthy))
	m.unmatched.Set(float64(plan.Unmatched))
	m.escalated.Set(float64(plan.Escalated))
	for _, c := range s.Centrals {
		m.centrals.WithLabelValues(c.Name).Set(one(c.Err == "" && len(c.Warnings) == 0))
	}
	m.cells.Reset()
	for _, c := range s.Cells {
		m.cells.WithLabelValues(c.Name).Set(one(c.Err == ""))
	}
	m.proposals(s.Remediations)
	if s.BudgetsErr == "" {
		m.budgets(plan.Budgets)
	}
	if s.IncidentsErr == "" {
		m.openIncidents(plan.Incidents)
	}
}

// openIncidents is not asked while they cannot be read: none has ended by that.
func (m *metrics) openIncidents(reports []policy.IncidentReport) {
	open := map[api.IncidentKind]int{}
	for _, r := range reports {
		if r.Status.Phase != api.IncidentClosed {
			open[r.Spec.Kind]++
		}
	}
	for _, kind := range policy.IncidentKinds() {
		m.incidents.WithLabelValues(string(kind)).Set(float64(open[kind]))
	}
}

// budgets leaves out what is not frozen, and is not asked while they cannot be read:
// a stop that nobody can see has not ended.
func (m *metrics) budgets(reports []policy.BudgetReport) {
	m.frozen.Reset()
	for _, r := range reports {
		if r.FrozenSince != nil {
			m.frozen.WithLabelValues(r.Name).Set(float64(r.FrozenSince.Unix()))
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
