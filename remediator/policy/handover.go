package policy

import (
	"cmp"
	"slices"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Handover ends the claim on a spare. The claim is what says that it is still to be done:
// it is taken away last.
type Handover struct {
	Cell, Namespace string
	// Remediation is whose claim it is.
	Remediation string
	// Spare is the machine that is claimed, Failed the one in whose place it stands.
	Spare, SpareUID   string
	Failed, FailedUID string
	// Phase is how the repair ended: after Succeeded the spare is in use and the failed
	// machine quarantined, after Failed the spare is quarantined, and else it is free.
	Phase api.RemediationPhase
}

// handovers finds the claims of repairs that have ended. A claim that no record explains is
// left to people: somebody else may have written it.
func (ix *index) handovers() []Handover {
	var found []Handover
	for _, p := range ix.machines {
		m := p.machine
		if m.ClaimedBy == "" {
			continue
		}
		rem := ix.closed[m.ClaimedBy]
		if rem == nil || rem.Spec.Replacement == nil || rem.Spec.Replacement.MachineUID != m.UID || rem.Spec.Target.Cell != p.cell.Name {
			continue
		}
		found = append(found, Handover{
			Cell: p.cell.Name, Namespace: m.Namespace, Remediation: rem.Name, Spare: m.Name, SpareUID: m.UID,
			Failed: rem.Spec.Target.Machine, FailedUID: rem.Spec.Target.MachineUID, Phase: rem.Status.Phase,
		})
	}
	slices.SortFunc(found, func(a, b Handover) int { return cmp.Compare(a.SpareUID, b.SpareUID) })
	return found
}
