package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// mostOpen bounds the incidents that are not closed. Suspects beyond it hold their
	// machines all the same, for as long as they are suspects.
	mostOpen = 100
	// mostClosed bounds those that are kept to be read, and for what they say of evidence.
	mostClosed = 200
	// mostClusters is how many clusters an incident names.
	mostClusters = 50
	// defaultStormCooldown is in seconds.
	defaultStormCooldown = 300
)

// IncidentReport is what becomes of one incident that is not closed, or is closed now.
type IncidentReport struct {
	Name   string
	Spec   api.IncidentSpec
	Status api.IncidentStatus
	// New means that it is to be written down first.
	New bool
	// Message says in words how it stands.
	Message string
}

// open are the incidents that are not closed, by name.
func (r *run) open() []*api.Incident {
	return slices.DeleteFunc(sorted(r.ix.snapshot.Incidents), func(in *api.Incident) bool { return in.Status.Phase == api.IncidentClosed })
}

// incidents follows those that are open, and opens one for each suspect that has none.
func (r *run) incidents() {
	c := r.correlate()
	r.plan.Suspects = c.suspects
	open := r.open()
	for _, in := range open {
		r.plan.Incidents = append(r.plan.Incidents, r.follow(c, in, open))
	}
	largest := slices.Clone(c.suspects)
	slices.SortStableFunc(largest, func(a, b Suspect) int { return cmp.Compare(b.Affected, a.Affected) })
	for _, s := range largest {
		if r.ix.snapshot.IncidentsErr == "" && len(r.plan.Incidents) < mostOpen && !c.covered(s.shared(), open) {
			r.plan.Incidents = append(r.plan.Incidents, r.begin(c, s))
		}
	}
	slices.SortFunc(r.plan.Incidents, func(a, b IncidentReport) int { return cmp.Compare(a.Name, b.Name) })
	r.forget()
}

// covered says whether an incident that is not closed is of the suspect, or of what has
// nearly all of its sick machines: then there is one cause, and it is told of.
func (c *correlation) covered(s shared, open []*api.Incident) bool {
	return slices.ContainsFunc(open, func(in *api.Incident) bool {
		of := sharedOf(&in.Spec)
		return of == s || c.within(c.counts[s], c.counts[of])
	})
}

func (r *run) begin(c *correlation, s Suspect) IncidentReport {
	report := IncidentReport{Name: r.incidentName(s.shared()), Spec: s.Spec, New: true, Message: s.String()}
	report.Status = api.IncidentStatus{Phase: api.IncidentOpen, Since: r.instant(r.now)}
	r.measure(c, c.counts[s.shared()], &report.Status)
	return report
}

// incidentName is the same for whoever opens an incident of the suspect now, so that
// there is one at most, and new once that has been closed.
func (r *run) incidentName(s shared) string {
	of := strings.Join([]string{string(s.kind), s.cell, s.region, s.zone, s.cluster, s.name}, "\x00")
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", of, n))
		name := "incident-" + strings.ToLower(string(s.kind)) + "-" + hex.EncodeToString(sum[:5])
		if !slices.ContainsFunc(r.ix.snapshot.Incidents, func(in api.Incident) bool { return in.Name == name }) {
			return name
		}
	}
}

func (r *run) instant(t time.Time) *metav1.Time { return &metav1.Time{Time: t.Truncate(time.Second)} }

// measure fills in what is counted now.
func (r *run) measure(c *correlation, n *census, s *api.IncidentStatus) {
	out := c.rest(n)
	s.Affected, s.Unseen, s.Domain = int32(n.affected()), int32(n.mayBe()-n.affected()), int32(n.machines)
	s.ElsewhereAffected, s.Elsewhere = int32(out.unhealthy), int32(out.machines)
	s.Peak = max(s.Peak, s.Affected)
	for name := range n.clusters {
		s.Clusters = append(s.Clusters, name)
	}
	slices.Sort(s.Clusters)
	s.Clusters = slices.Compact(s.Clusters)
	s.Clusters = s.Clusters[:min(len(s.Clusters), mostClusters)]
	r.evidence(s, metav1.ConditionTrue, ReasonEvidenceComplete, "all that it has is seen")
	if s.Unseen > 0 {
		r.evidence(s, metav1.ConditionFalse, ReasonEvidenceMissing, fmt.Sprintf("%d of %d machines may be unhealthy: nobody sees them, or sources contradict each other", s.Unseen, s.Domain))
	}
}

func (r *run) evidence(s *api.IncidentStatus, status metav1.ConditionStatus, reason Reason, message string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: api.ConditionEvidenceAvailable, Status: status, Reason: string(reason), Message: message, LastTransitionTime: *r.instant(r.now),
	})
}

// follow says how an incident stands.
func (r *run) follow(c *correlation, in *api.Incident, open []*api.Incident) IncidentReport {
	report := IncidentReport{Name: in.Name, Spec: in.Spec, Status: *in.Status.DeepCopy()}
	s, n := &report.Status, c.counts[sharedOf(&in.Spec)]
	if s.Since == nil {
		s.Phase, s.Since = api.IncidentOpen, r.instant(r.now)
	}
	if why := r.unlisted(in.Spec.Cells); why != "" {
		r.evidence(s, metav1.ConditionFalse, ReasonInventoryUnknown, clip(why, 1024))
		r.stall(s)
	} else if larger := c.larger(n, open); larger != "" {
		r.measure(c, n, s)
		s.Phase, s.RecoveredAt, s.CooldownUntil = api.IncidentClosed, nil, nil
		report.Message = "it is part of " + larger
		return report
	} else {
		before := s.Affected + s.Unseen
		r.measure(c, n, s)
		r.move(in, s, s.Affected+s.Unseen > before)
	}
	report.Message = stands(sharedOf(&in.Spec), s)
	return report
}

// stall keeps an incident that cannot be seen from closing.
func (r *run) stall(s *api.IncidentStatus) { s.RecoveredAt, s.CooldownUntil = nil, nil }

// unlisted says which of the cells' machines are not known. A cell that is no part of the
// fleet any more has none.
func (r *run) unlisted(cells []string) string {
	for _, name := range cells {
		if cell := r.ix.cells[name]; cell != nil && cell.Err != "" {
			return fmt.Sprintf("the machines of cell %s cannot be listed: %s", name, cell.Err)
		}
	}
	return ""
}

// larger is the name of an incident of something larger that is as bad as can be and has
// nearly all sick machines of this one.
func (c *correlation) larger(n *census, open []*api.Incident) string {
	for _, in := range open {
		of := c.counts[sharedOf(&in.Spec)]
		if c.of[of.shared] != nil && smaller(n, of) && c.within(n, of) {
			return in.Name
		}
	}
	return ""
}

// move lets an incident recover once no more is unhealthy than may be, and close when
// that number has not risen for the cooldown. What is not seen may be unhealthy.
func (r *run) move(in *api.Incident, s *api.IncidentStatus, rose bool) {
	most := max(0, tally{machines: int(s.Domain)}.allowed(int(*in.Spec.MaxUnhealthyPercent)))
	switch until := r.instant(r.now.Add(r.stormCooldown(&in.Spec))); {
	case int(s.Affected) > most:
		s.Phase = api.IncidentOpen
		r.stall(s)
	case int(s.Affected+s.Unseen) > most:
		r.stall(s)
	case s.RecoveredAt == nil:
		s.Phase, s.RecoveredAt, s.CooldownUntil = api.IncidentRecovering, r.instant(r.now), until
	case rose || s.CooldownUntil == nil:
		s.CooldownUntil = until
	case !r.now.Before(s.CooldownUntil.Time):
		s.Phase = api.IncidentClosed
	}
	if s.CooldownUntil != nil {
		r.lookAt(s.CooldownUntil.Time)
	}
}

// stormCooldown is the longest of the budgets that cover something of the suspect.
func (r *run) stormCooldown(s *api.IncidentSpec) time.Duration {
	cluster, pool := s.Cluster, ""
	switch s.Kind {
	case api.IncidentPool:
		pool = s.Value
	case api.IncidentClusterControlPath:
		cluster = s.Value
	}
	var longest figure
	for _, name := range s.Cells {
		cell := r.ix.cells[name]
		if cell == nil {
			cell = &Cell{Name: name}
		}
		for _, d := range domains(cell, cluster, pool) {
			longest.n = max(longest.n, r.limits(d).cooldown.n)
		}
	}
	return time.Duration(cmp.Or(longest.n, defaultStormCooldown)) * time.Second
}

// stands is an incident in words.
func stands(of shared, s *api.IncidentStatus) string {
	numbers := fmt.Sprintf("%s: %d of %d machines are unhealthy and %d not seen, %d were at most, since %s",
		of, s.Affected, s.Domain, s.Unseen, s.Peak, s.Since.UTC().Format(time.RFC3339))
	switch {
	case s.Phase == api.IncidentOpen:
		return numbers
	case s.Phase == api.IncidentClosed:
		return numbers + "; the number has not risen for the cooldown"
	case s.CooldownUntil == nil:
		return numbers + "; whether it has recovered is not known"
	}
	return numbers + "; it recovers, and is over at " + s.CooldownUntil.UTC().Format(time.RFC3339) + " unless the number rises"
}

// forget drops the closed incidents that are the oldest.
func (r *run) forget() {
	closed := slices.DeleteFunc(sorted(r.ix.snapshot.Incidents), func(in *api.Incident) bool { return in.Status.Phase != api.IncidentClosed })
	slices.SortStableFunc(closed, func(a, b *api.Incident) int { return b.Status.Since.Compare(a.Status.Since.Time) })
	for _, in := range closed[min(len(closed), mostClosed):] {
		r.plan.Forgotten = append(r.plan.Forgotten, in.Name)
	}
	slices.Sort(r.plan.Forgotten)
}
