package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// consent is what people said to the repair of a machine.
type consent struct {
	// proposal is the name of the open one of the policy that speaks for the machine.
	proposal string
	// approved means that the repair that is written down was a proposal of that policy,
	// and that a person approved it.
	approved bool
	// missing means that it was a proposal, and that nobody did.
	missing bool
}

func (r *run) consent(p place, s settings) consent {
	var c consent
	if rem := r.proposal(p.machine.UID, s.name); rem != nil {
		c.proposal = rem.Name
	}
	if rem := r.ix.open[p.machine.UID]; rem != nil && rem.Spec.Mode.Proposes() {
		c.missing = !Approved(rem)
		c.approved = !c.missing && rem.Spec.PolicyName == s.name
	}
	return c
}

// Approved says whether a record that was a proposal may be acted on. It takes both: that
// the remediator wrote down that it saw the approval in time, and that it stands on the
// record, where whoever may only write the status cannot put it.
func Approved(rem *api.Remediation) bool {
	return rem.Spec.Mode == api.ModeApprove && rem.Status.Approval != nil &&
		rem.CurrentPhase() != api.RemediationProposed && approval(rem, time.Time{}) != nil
}

// consented asks whether people must be asked first. A repair that was written down
// without their word ends where it is needed now.
func (r *run) consented(s subject) (Reason, string) {
	mode := s.settings.mode
	switch {
	case s.consent.missing:
		return ReasonNotApproved, fmt.Sprintf("%s is a proposal that no person approved", s.pending)
	case !mode.Proposes(), s.consent.approved && mode == api.ModeApprove:
		return "", ""
	case s.pending != "":
		return ReasonNotApproved, fmt.Sprintf("policy %s is in mode %s now, and %s was not approved under it", s.settings.name, mode, s.pending)
	}
	if reason, message := r.pausing(s); reason != "" {
		return reason, message
	}
	if mode == api.ModeApprove {
		return ReasonApprovalAwaited, fmt.Sprintf("%s is proposed to people", s.step.action)
	}
	return ReasonRecommended, fmt.Sprintf("%s is recommended to people", s.step.action)
}

// denied keeps every policy from what a person denied, for as long as the policy leaves
// a machine alone after a repair.
func (r *run) denied(s subject) (Reason, string) {
	rem := r.ix.denied[identity(s.machine.HardwareID, s.machine.UID)]
	if rem == nil {
		return "", ""
	}
	until := endedAt(rem, r.now).Add(s.settings.cooldown)
	if !r.now.Before(until) {
		return "", ""
	}
	r.lookAt(until)
	return ReasonDenied, fmt.Sprintf("%s of the same hardware was denied by %s; left alone until %s", rem.Name, named(rem.Status.Denial), until.UTC().Format(time.RFC3339))
}

// named is who said something, and why.
func named(p *api.PersonRecord) string {
	if p.Reason == "" {
		return p.By
	}
	return p.By + " (" + p.Reason + ")"
}

const (
	// askedWindow is how long a proposal that nobody answered makes the next one later.
	askedWindow = 7 * 24 * time.Hour
	// longestPause is how late it makes it at most, or the policy's cooldown if that is longer.
	longestPause = 24 * time.Hour
)

// pausing spares people who do not answer a new proposal for the same machine each hour:
// the policy's cooldown lies between the first and the second, and twice as long before
// each that follows.
func (r *run) pausing(s subject) (Reason, string) {
	last, n := (*api.Remediation)(nil), 0
	for _, rem := range r.ix.unanswered[identity(s.machine.HardwareID, s.machine.UID)] {
		if rem.Spec.PolicyName != s.settings.name {
			continue
		}
		n++
		if last == nil || endedAt(rem, r.now).After(endedAt(last, r.now)) {
			last = rem
		}
	}
	if last == nil {
		return "", ""
	}
	pause := s.settings.cooldown
	for i := 1; i < n && pause < longestPause; i++ {
		pause = min(2*pause, longestPause)
	}
	until := endedAt(last, r.now).Add(pause)
	if !r.now.Before(until) {
		return "", ""
	}
	r.lookAt(until)
	return ReasonProposalExpired, fmt.Sprintf("nobody answered %s in time; it is proposed again at %s", last.Name, until.UTC().Format(time.RFC3339))
}

// approval is who approved a record, as far as it says; nil if nobody did. An approval by
// nobody is none, and one beside a denial is none either.
func approval(rem *api.Remediation, now time.Time) *api.PersonRecord {
	if strings.TrimSpace(rem.Annotations[api.AnnotationApprovedBy]) == "" || denial(rem, now) != nil {
		return nil
	}
	return person(rem, api.AnnotationApprovedBy, now)
}

// denial is who denied a record, or wants it back; nil if nobody did. One by nobody
// counts: whoever is in a hurry is obeyed.
func denial(rem *api.Remediation, now time.Time) *api.PersonRecord {
	if _, denied := rem.Annotations[api.AnnotationDeniedBy]; !denied {
		return nil
	}
	return person(rem, api.AnnotationDeniedBy, now)
}

// person is who wrote an annotation. The API server keeps which program wrote it, and
// when; who ran that program stands in its audit log alone.
func person(rem *api.Remediation, annotation string, now time.Time) *api.PersonRecord {
	p := &api.PersonRecord{By: clip(strings.TrimSpace(rem.Annotations[annotation]), 253), At: metav1.NewTime(now.Truncate(time.Second)),
		Reason: clip(rem.Annotations[api.AnnotationAnswerReason], 512)}
	if p.By == "" {
		p.By = "somebody"
	}
	last := time.Time{}
	for i := range rem.ManagedFields {
		m := &rem.ManagedFields[i]
		if m.Time != nil && m.Time.After(last) && !m.Time.After(now) && owns(m, annotation) {
			last = m.Time.Time
			p.Manager, p.At = clip(m.Manager, 253), *m.Time
		}
	}
	return p
}

// owns says whether a manager wrote an annotation, by the format that the API server
// keeps that in (FieldsV1).
func owns(m *metav1.ManagedFieldsEntry, annotation string) bool {
	if m.FieldsV1 == nil {
		return false
	}
	var fields struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"f:annotations"`
		} `json:"f:metadata"`
	}
	if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
		return false
	}
	_, is := fields.Metadata.Annotations["f:"+annotation]
	return is
}
