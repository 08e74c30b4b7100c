package policy

import (
	"fmt"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// incidentsOf finds the incidents of what is shared.
func (r *run) incidentsOf(s shared) []*api.Incident {
	if r.incidentsBy == nil {
		r.incidentsBy = map[shared][]*api.Incident{}
		for _, in := range sorted(r.ix.snapshot.Incidents) {
			of := sharedOf(&in.Spec)
			r.incidentsBy[of] = append(r.incidentsBy[of], in)
		}
	}
	return r.incidentsBy[s]
}

// storm says whether an incident holds the machine: one that is not written down as
// closed, or one after which nobody has looked yet. What was seen while a storm lasted
// says nothing, and what has recovered begins anew to have been unhealthy for long enough.
func (r *run) storm(s subject, p place) (Reason, string) {
	if why := r.ix.snapshot.IncidentsErr; why != "" {
		return ReasonEvidenceMissing, "whether the machine is part of an incident is not known: " + why
	}
	late, lateMessage := Reason(""), ""
	for _, of := range p.shares() {
		for _, in := range r.incidentsOf(of) {
			if in.Status.Phase != api.IncidentClosed {
				return ReasonIncidentOpen, fmt.Sprintf("%s is not closed: %s", in.Name, standsNow(of, in))
			}
			if reason, message := r.after(s, in); reason != "" {
				late, lateMessage = reason, message
			}
		}
	}
	return late, lateMessage
}

func standsNow(of shared, in *api.Incident) string {
	if in.Status.Since == nil {
		return of.String()
	}
	return stands(of, &in.Status)
}

// after says what is too old, or too young, after an incident that has recovered.
func (r *run) after(s subject, in *api.Incident) (Reason, string) {
	if in.Status.RecoveredAt == nil {
		return "", ""
	}
	recovered := in.Status.RecoveredAt.Time
	if at := s.observed(); !at.After(recovered) {
		return ReasonIncidentOpen, fmt.Sprintf("%s recovered at %s, and the machine was not observed since", in.Name, recovered.UTC().Format(time.RFC3339))
	}
	if long, least := r.now.Sub(recovered), s.rests(r.now); long < least {
		r.lookAt(recovered.Add(least))
		return ReasonNotLongEnough, fmt.Sprintf("%s since %s recovered, required are %s", long.Round(time.Second), in.Name, least)
	}
	return "", ""
}

// observed is when the oldest of the evidence was.
func (s subject) observed() time.Time {
	oldest := s.live.cluster.ReadAt
	for _, f := range s.facts {
		if f.sample.At.Before(oldest) {
			oldest = f.sample.At
		}
	}
	return oldest
}
