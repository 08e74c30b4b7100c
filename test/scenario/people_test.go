package scenario_test

import (
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// What people have not said, or have said.
const (
	notApproved = "a repair that no person approved"
	wasDenied   = "a repair that a person denied"
)

// people are what was really said, whatever is written down of it.
type people struct {
	// approved is when, by the name of the record.
	approved map[string]time.Time
	// denied is when, by hardware.
	denied map[string]time.Time
}

// person lets somebody write on the open record of a machine. Without one there is
// nothing to write on.
func (f *fleet) person(name, what string) error {
	m := f.machine(name)
	i := slices.IndexFunc(f.records, func(r *api.Remediation) bool {
		return r.Spec.Target.MachineUID == m.UID && !r.CurrentPhase().Final()
	})
	if i < 0 {
		return nil
	}
	rem := f.records[i]
	if rem.Annotations == nil {
		rem.Annotations = map[string]string{}
	}
	switch what {
	case "approves":
		rem.Annotations[api.AnnotationApprovedBy] = "alice"
		if _, again := f.approved[rem.Name]; !again {
			f.approved[rem.Name] = f.now
		}
	case "denies":
		rem.Annotations[api.AnnotationDeniedBy] = "bob"
		f.denied[m.HardwareID] = f.now
	case "hesitates":
		delete(rem.Annotations, api.AnnotationApprovedBy)
		delete(f.approved, rem.Name)
	default:
		return fmt.Errorf("answering for %s: a person cannot %s", name, what)
	}
	f.say("a person %s %s", what, f.alias(rem.Name))
	return nil
}

// judgeConsent is asked just before a request is written.
func (f *fleet) judgeConsent(m *machine, rem *api.Remediation, p *api.RemediationPolicy) {
	if at, denied := f.denied[m.HardwareID]; denied && f.now.Sub(at) < cooldown {
		f.violate(wasDenied, "%s, %s ago", m.Name, f.now.Sub(at))
	}
	if rem == nil || !rem.Spec.Mode.Proposes() && p.Spec.Mode != api.ModeApprove {
		return
	}
	at, approved := f.approved[rem.Name]
	if rem.Spec.Mode != api.ModeApprove || !approved || !at.Before(rem.Spec.ExpiresAt.Time) {
		f.violate(notApproved, "%s, proposed in mode %q", m.Name, rem.Spec.Mode)
	}
}

// judgeProposals is asked after each step and each round.
func (f *fleet) judgeProposals() {
	open := map[string]bool{}
	for _, rem := range f.records {
		if rem.CurrentPhase() != api.RemediationProposed {
			continue
		}
		key := rem.Spec.PolicyName + " " + rem.Spec.Target.MachineUID
		if open[key] {
			f.violate(onePerMachine, "two proposals of %s", key)
		}
		open[key] = true
		if m := f.machine(rem.Spec.Target.Machine); m.Request != nil && m.Request.ID == rem.Name {
			f.violate(notApproved, "%s stands on %s", f.alias(rem.Name), m.Name)
		}
	}
}
