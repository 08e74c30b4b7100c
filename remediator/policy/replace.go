package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// mostUnfit bounds how many spares a message names.
const mostUnfit = 3

// chooseSpare finds the machine that takes another's place, where that is what is due. Of
// those that are fit it is one of the same zone, of another rack, and the first by name: two
// remediators choose the same, of which one alone can claim it.
func (r *run) chooseSpare(s *subject, p place) {
	if s.step.action != api.ActionReplace || s.exhausted != "" {
		s.replacement, s.spareless = nil, ""
		return
	}
	fit, unfit := r.spares(*s)
	switch chosen := s.replacement; {
	case chosen != nil:
		if !slices.ContainsFunc(fit, func(o place) bool { return sameSpare(o.machine, chosen) }) {
			s.spareless = fmt.Sprintf("%s, which was chosen to take its place, cannot%s", chosen.Machine, among(unfit))
		}
	case len(fit) == 0:
		s.spareless = fmt.Sprintf("no machine on standby in pool %q of cluster %s can take its place%s", s.sparePool(), s.ref.Cluster, among(unfit))
	default:
		best := slices.MinFunc(fit, func(a, b place) int { return compareSpares(p.machine, a.machine, b.machine) })
		s.replacement = &api.ReplacementTarget{
			Machine: best.machine.Name, MachineUID: best.machine.UID, Node: best.machine.Node,
			HardwareID: best.machine.HardwareID, ProviderID: best.machine.ProviderID,
		}
	}
}

// spared says why nothing can take the machine's place.
func (s subject) spared() (Reason, string) {
	if s.spareless == "" {
		return "", ""
	}
	return ReasonNoSpare, s.spareless
}

func (s subject) sparePool() string { return cmp.Or(s.step.sparePool, s.machine.Pool) }

// spares are the machines on standby that can take the place of one, and why others cannot.
func (r *run) spares(s subject) (fit []place, unfit []string) {
	c := r.ix.clusters[clusterRef{s.ref.Cell, s.ref.Cluster}]
	if c == nil {
		return nil, nil
	}
	for _, o := range c.places {
		m := o.machine
		if m.InUse || m.Pool != s.sparePool() || m.Namespace != s.machine.Namespace {
			continue
		}
		if why := r.unfit(s, o); why != "" {
			unfit = append(unfit, m.Name+": "+why)
			continue
		}
		fit = append(fit, o)
	}
	return fit, unfit
}

// unfit says why a machine on standby cannot be taken; empty means that it can.
func (r *run) unfit(s subject, o place) string {
	if why := o.machine.taken(s.pending); why != "" {
		return why
	}
	if why := r.claimedElsewhere(s, o.machine); why != "" {
		return why
	}
	m := o.machine
	past := r.ix.triesOf(identity(m.HardwareID, m.UID), s.settings.window)
	switch {
	case len(r.ix.on(o.ref())) > 1:
		return "several machines claim node " + m.Node
	case r.ix.hardware[m.HardwareID] > 1 || r.ix.sameUID[m.UID]:
		return "several machines claim hardware " + m.HardwareID
	case past.unresolved():
		return "its hardware failed, and nobody has looked at it"
	}
	if why := r.inUse(o); why != "" {
		return why
	}
	return r.inIncident(o)
}

// unresolved says whether something was done to the hardware in vain, as far as is known.
func (t tries) unresolved() bool {
	return t.escalated != nil || t.failed != nil || t.unproven != nil || t.overdue != nil
}

// inUse says of a spare's node that it lives, or that nobody knows whether it does.
func (r *run) inUse(o place) string {
	switch l := r.ix.liveFact(o.ref()); {
	case l.cluster == nil || l.cluster.Err != "":
		return "whether its node is in the cluster already is not known"
	case l.lease != nil && l.lease.Beats(l.cluster.ReadAt):
		return "node " + o.machine.Node + " is in the cluster already: somebody uses it"
	}
	return ""
}

// taken says what the Machine itself has against being taken by a repair.
func (m *Machine) taken(by string) string {
	switch {
	case m.Quarantined != "":
		return "quarantined by " + m.Quarantined
	case m.ClaimedBy != "" && m.ClaimedBy != by:
		return "claimed by " + m.ClaimedBy
	case m.Paused:
		return "paused"
	case m.Deleting:
		return "being deleted"
	case m.ControlPlane:
		return "part of a control plane"
	case m.Request != nil || m.running():
		return "under repair"
	case slices.Contains([]string{m.Node, m.HardwareID, m.ProviderID, m.Rack}, ""):
		return "names no node, hardware, provider id or rack"
	}
	return ""
}

// claimedElsewhere says which other repair is to take the spare, as far as is written down.
func (r *run) claimedElsewhere(s subject, m *Machine) string {
	if by := r.claimed[m.UID]; by != "" && by != s.pending {
		return "claimed by " + by
	}
	for _, rem := range r.ix.open {
		if other := rem.Spec.Replacement; other != nil && other.MachineUID == m.UID && rem.Name != s.pending {
			return "chosen by " + rem.Name
		}
	}
	return ""
}

// inIncident says of what the spare shares with others an incident is open.
func (r *run) inIncident(o place) string {
	for _, of := range o.shares() {
		for _, in := range r.incidentsOf(of) {
			if in.Status.Phase != api.IncidentClosed {
				return fmt.Sprintf("%s of %s is not closed", in.Name, of)
			}
		}
	}
	return ""
}

// compareSpares prefers the zone of the failed machine, and then another rack than its own.
func compareSpares(failed, a, b *Machine) int {
	far := func(m *Machine) int {
		switch {
		case m.Zone != failed.Zone:
			return 2
		case m.Rack == failed.Rack:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(far(a), far(b)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

func sameSpare(m *Machine, by *api.ReplacementTarget) bool {
	return m.UID == by.MachineUID && m.Name == by.Machine && m.Node == by.Node && m.HardwareID == by.HardwareID && m.ProviderID == by.ProviderID
}

func among(unfit []string) string {
	if len(unfit) == 0 {
		return ""
	}
	more := ""
	if n := len(unfit) - mostUnfit; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return " (" + strings.Join(unfit[:min(len(unfit), mostUnfit)], "; ") + more + ")"
}

// replaced is a repair as if it were of the machine that takes the target's place, which is
// what must be shown to be well. That has no boot id yet: any will do.
func replaced(rem *api.Remediation) *api.Remediation {
	of, by := *rem, rem.Spec.Replacement
	of.Spec.Target.Machine, of.Spec.Target.MachineUID, of.Spec.Target.Node = by.Machine, by.MachineUID, by.Node
	of.Spec.Target.HardwareID, of.Spec.Target.ProviderID, of.Spec.Target.BootID = by.HardwareID, by.ProviderID, ""
	return &of
}
