package controller

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// What becomes of a repair that is written down: it may be acted on, and ends as one
// of the others.
const (
	becameRecorded  = "recorded"
	becameActed     = "acted"     // the request stood on the machine
	becameVerified  = "verified"  // the repair ran, and all evidence agrees that the machine is well
	becameFailed    = "failed"    // it did not help, or nobody knows
	becameRecovered = "recovered" // the machine was well before it was touched
	becameFalse     = "false"     // asked for, and before it was begun the evidence said that the machine is well
	becameEscalated = "escalated" // the machine was handed to people instead
	becameCancelled = "cancelled" // anything else was learned against it before it was begun
)

// What becomes of a finding, which is a machine that some source calls unhealthy.
const (
	becameDetected   = "detected"
	becameSelfHealed = "self_healed" // it ended, and no repair had been asked for
)

// effect counts what the remediator has done for the fleet. What is in records is
// counted from them, all of them, so that a remediator that is started anew goes on
// with what the last one knew: nothing is lost with a process, and nothing is counted
// again. Records are retired some day, so that the one that begins anew may begin with
// less; that would pass for growth in one series, and each has series of its own.
// Findings that have no record are counted as rounds see them; of those that were there
// before the first round, none that an open record or the status of its policy knows is
// counted again.
type effect struct {
	registry prometheus.Registerer
	repairs  *prometheus.CounterVec
	repaired prometheus.Histogram
	findings *prometheus.CounterVec
	detected prometheus.Histogram

	// counted is how far the records are counted that there are. It is nil before
	// the first round.
	counted map[types.UID]counted
	// open are the findings that go on, by the uid of their machine.
	open map[string]*finding
}

type counted struct{ acted, ended bool }

type finding struct {
	cell string
	node policy.NodeRef
	// acted means that a repair was asked for.
	acted bool
}

// newEffect registers nothing of what comes from records yet: that it is nought before
// they are read would pass for a counter that began anew.
func newEffect(r prometheus.Registerer, now time.Time) *effect {
	since := prometheus.Labels{"since": strconv.FormatInt(now.Unix(), 10)}
	e := &effect{
		registry: r, open: map[string]*finding{},
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name:        "pharos_remediator_repairs_total",
			Help:        "Repairs that the records tell of, by what became of them. Absent where this process does not lead.",
			ConstLabels: since,
		}, []string{"became"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pharos_remediator_findings_total",
			Help: "Machines that some source began to call unhealthy (detected), and those of them that got well without a repair (self_healed).",
		}, []string{"became"}),
		// Fixed buckets, which any Prometheus reads as it is configured. What matters are
		// minutes against the wait and the timeout of a policy, which lie around 300 and 1800.
		repaired: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:        "pharos_remediator_time_to_repair_seconds",
			Help:        "From the last that was heard of a node until its repair was verified, of the repairs that the records tell of.",
			ConstLabels: since,
			Buckets:     []float64{60, 120, 300, 600, 900, 1200, 1800, 2700, 3600, 7200, 14400, 43200, 86400},
		}),
		detected: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "pharos_remediator_time_to_detect_seconds",
			Help:    "From when a live node is not ready until a round knew of it.",
			Buckets: []float64{5, 10, 15, 30, 45, 60, 90, 120, 180, 300, 600, 1800},
		}),
	}
	r.MustRegister(e.findings, e.detected)
	for _, became := range []string{becameDetected, becameSelfHealed} {
		e.findings.WithLabelValues(became)
	}
	for _, became := range []string{becameRecorded, becameActed, becameVerified, becameFailed, becameEscalated, becameRecovered, becameFalse, becameCancelled} {
		e.repairs.WithLabelValues(became)
	}
	return e
}

// round counts what is new in what a round has read and decided.
func (e *effect) round(policies []api.RemediationPolicy, s policy.Snapshot, plan policy.Plan, now time.Time) {
	first := e.counted == nil
	e.records(s.Remediations)
	if first {
		e.registry.MustRegister(e.repairs, e.repaired)
	}
	e.begin(s, plan, now, first, policies)
	e.end(s, plan)
}

// records counts each record once for each step that it has made. One that was deleted
// stays counted.
func (e *effect) records(all []api.Remediation) {
	were := e.counted
	e.counted = make(map[types.UID]counted, len(all))
	for i := range all {
		rem := &all[i]
		was, known := were[rem.UID]
		is := counted{acted: rem.Status.ActedAt != nil, ended: rem.Status.Phase.Final()}
		e.counted[rem.UID] = is
		if !known {
			e.repairs.WithLabelValues(becameRecorded).Inc()
		}
		if f := e.open[rem.Spec.Target.MachineUID]; f != nil && is.acted && !was.ended {
			f.acted = true
		}
		if is.acted && !was.acted {
			e.repairs.WithLabelValues(becameActed).Inc()
		}
		if is.ended && !was.ended {
			e.ended(rem)
		}
	}
}

func (e *effect) ended(rem *api.Remediation) {
	e.repairs.WithLabelValues(became(rem)).Inc()
	if at, heard := rem.Status.VerifiedAt, lastHeard(rem); at != nil && !heard.IsZero() {
		e.repaired.Observe(max(0, at.Sub(heard).Seconds()))
	}
}

// became says what an ended record amounts to.
func became(rem *api.Remediation) string {
	switch rem.Status.Phase {
	case api.RemediationSucceeded:
		return becameVerified
	case api.RemediationEscalated:
		return becameEscalated
	case api.RemediationCancelled:
	default:
		return becameFailed
	}
	acted := rem.Status.ActedAt != nil
	switch reason := policy.Reason(rem.Status.Reason); {
	case reason == policy.ReasonRecovered && !acted:
		return becameRecovered
	case acted && (reason == policy.ReasonRecovered || reason == policy.ReasonLiveStateContradicts || reason == policy.ReasonEvidenceConflict):
		return becameFalse
	}
	return becameCancelled
}

// lastHeard is when the target's kubelet last renewed its Lease.
func lastHeard(rem *api.Remediation) time.Time {
	for _, signal := range rem.Spec.Evidence.Signals {
		if signal.Source == policy.SourceLease {
			return signal.ObservedAt.Time
		}
	}
	return time.Time{}
}

// begin counts the findings that a round is the first to see.
func (e *effect) begin(s policy.Snapshot, plan policy.Plan, now time.Time, first bool, policies []api.RemediationPolicy) {
	known := func(policy.Decision) bool { return false }
	if first {
		known = toldBefore(policies)
	}
	for i := range s.Remediations {
		rem := &s.Remediations[i]
		if t := rem.Spec.Target; !rem.Status.Phase.Final() && e.open[t.MachineUID] == nil {
			e.open[t.MachineUID] = &finding{t.Cell, policy.NodeRef{Cell: t.Cell, Cluster: t.Cluster, Node: t.Node}, rem.Status.ActedAt != nil}
		}
	}
	for _, d := range plan.Decisions {
		m := d.Machine
		if e.open[m.UID] != nil {
			continue
		}
		node := policy.NodeRef{Cell: d.Cell, Cluster: m.Cluster, Node: m.Node}
		e.open[m.UID] = &finding{cell: d.Cell, node: node}
		if known(d) {
			continue
		}
		e.findings.WithLabelValues(becameDetected).Inc()
		if since := notReadySince(s.Clusters, node); !since.IsZero() {
			e.detected.Observe(max(0, now.Sub(since).Seconds()))
		}
	}
}

// toldBefore tells of which findings the status of their policy knows, as far as it can
// be known: it holds no more than maxHolds.
func toldBefore(policies []api.RemediationPolicy) func(policy.Decision) bool {
	more, told := map[string]bool{}, map[api.HoldRecord]bool{}
	for i := range policies {
		s := &policies[i].Status
		more[policies[i].Name] = int(s.Held) > len(s.Holds)
		for _, h := range s.Holds {
			told[api.HoldRecord{Cell: h.Cell, Machine: h.Machine}] = true
		}
	}
	return func(d policy.Decision) bool {
		return more[d.Policy] || told[api.HoldRecord{Cell: d.Cell, Machine: d.Machine.Name}]
	}
}

func notReadySince(clusters []policy.LiveCluster, ref policy.NodeRef) time.Time {
	for i := range clusters {
		c := &clusters[i]
		if c.Cell != ref.Cell || c.Cluster != ref.Cluster {
			continue
		}
		for j := range c.Nodes {
			if n := &c.Nodes[j]; n.Name == ref.Node && n.Ready != "True" {
				return n.Since
			}
		}
	}
	return time.Time{}
}

// end forgets the findings that go on no more. What is not seen has not ended, and what
// a central still lists, or is no machine any more, has not healed.
func (e *effect) end(s policy.Snapshot, plan policy.Plan) {
	on := goingOn(s, plan)
	for uid, f := range e.open {
		if on[uid] || slices.Contains(plan.Unseen, f.cell) {
			continue
		}
		delete(e.open, uid)
		if !f.acted && inventoried(s.Cells, f.cell, uid) && !listed(s.Centrals, f.node) {
			e.findings.WithLabelValues(becameSelfHealed).Inc()
		}
	}
}

func goingOn(s policy.Snapshot, plan policy.Plan) map[string]bool {
	on := map[string]bool{}
	for _, d := range plan.Decisions {
		on[d.Machine.UID] = true
	}
	for i := range s.Remediations {
		if rem := &s.Remediations[i]; !rem.Status.Phase.Final() {
			on[rem.Spec.Target.MachineUID] = true
		}
	}
	return on
}

func inventoried(cells []policy.Cell, cell, uid string) bool {
	return slices.ContainsFunc(cells, func(c policy.Cell) bool {
		return c.Name == cell && slices.ContainsFunc(c.Machines, func(m policy.Machine) bool { return m.UID == uid })
	})
}

func listed(centrals []policy.Central, ref policy.NodeRef) bool {
	return slices.ContainsFunc(centrals, func(c policy.Central) bool {
		return slices.ContainsFunc(c.Unhealthy, func(n policy.NodeSample) bool {
			return n.Cell == ref.Cell && n.Cluster == ref.Cluster && n.Node == ref.Node
		})
	})
}
