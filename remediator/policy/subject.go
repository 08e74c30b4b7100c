package policy

import (
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// subject is one machine with everything that speaks for or against its repair
// and can be read again just before the write.
type subject struct {
	settings      settings
	ref           NodeRef
	cellErr       string
	cellPaused    bool
	clusterPaused bool
	// upgrade says from which version to which the cluster is on its way; empty if it is not.
	upgrade string
	// needs is the node check that the repair must be verified by, checkable that
	// the Cluster names a credential for it, and access whether it was seen to work.
	needs     demand
	checkable bool
	// drainable means the same of draining.
	drainable bool
	access    *CheckAccess
	machine   Machine
	// twins says which other machine claims the same node or hardware.
	twins string
	// tries are what was done to its hardware, step is the one that is due by them, and
	// exhausted says why none is.
	tries     tries
	step      step
	exhausted string
	// replacement is the spare that is to take the machine's place, of a repair that is
	// written down the one that was chosen then; spareless says why there is none.
	replacement *api.ReplacementTarget
	spareless   string
	// pending is the name of the repair that is written down and, as far as the
	// node operator has said, not begun.
	pending string
	// consent is what people said to the repair.
	consent consent
	// standing means that its request is on the machine already, and lingers that one is
	// of a repair that has ended.
	standing, lingers bool
	// draining means that its node is being drained.
	draining bool
	facts    []fact
	live     liveFact
}

func (r *run) subject(p place) subject {
	ref := p.ref()
	s := subject{
		settings: resolve(r.policyFor(p)), ref: ref,
		cellErr: p.cell.Err, cellPaused: p.cell.Paused,
		clusterPaused: slices.Contains(p.cell.PausedClusters, p.machine.Cluster),
		upgrade:       p.cell.Upgrades[p.machine.Cluster],
		drainable:     slices.Contains(p.cell.DrainableClusters, p.machine.Cluster),
		checkable:     slices.Contains(p.cell.CheckedClusters, p.machine.Cluster),
		machine:       *p.machine, facts: r.ix.facts(ref), live: r.ix.liveFact(ref),
	}
	s.needs, s.consent = r.demand(p), r.consent(p, s.settings)
	if n := len(r.ix.on(ref)); n > 1 {
		s.twins = fmt.Sprintf("%d machines claim node %s", n, ref.Node)
	} else if n := r.ix.hardware[p.machine.HardwareID]; n > 1 {
		s.twins = fmt.Sprintf("%d machines claim hardware %s", n, p.machine.HardwareID)
	} else if r.ix.sameUID[p.machine.UID] {
		s.twins = "several machines have uid " + p.machine.UID + ", as after a cell was restored beside itself"
	}
	if rem := r.ix.open[p.machine.UID]; rem != nil {
		s.pending, s.standing = rem.Name, standing(rem, p.machine)
		s.draining = phase(rem) == api.RemediationDraining
		s.needs, s.replacement = demanded(rem, s.needs), rem.Spec.Replacement
	}
	s.lingers = p.machine.Request != nil && r.ix.closed[p.machine.Request.ID] != nil
	s.access = r.ix.access(ref, s.needs.check)
	r.escalate(&s)
	r.chooseSpare(&s, p)
	return s
}

// objects says why what people and other controllers wrote on the objects
// forbids a repair.
func (s subject) objects() (Reason, string) {
	if s.cellErr != "" {
		return ReasonInventoryUnknown, "listing the cell's machines: " + s.cellErr
	}
	for _, mark := range []struct {
		set  bool
		what string
	}{
		{s.settings.paused, "policy " + s.settings.name},
		{s.cellPaused, "cell " + s.ref.Cell},
		{s.clusterPaused, "cluster " + s.ref.Cluster},
		{s.machine.Paused, "machine " + s.machine.Name},
	} {
		if mark.set {
			return ReasonPaused, mark.what + " is paused or being deleted"
		}
	}
	return s.identity()
}

func (s subject) identity() (Reason, string) {
	m := s.machine
	switch {
	case m.Deleting:
		return ReasonDeleting, "the Machine is being deleted"
	case m.Quarantined != "":
		return ReasonQuarantined, fmt.Sprintf("the Machine is annotated %s=%s: look at it, then take the annotation away", api.AnnotationQuarantined, m.Quarantined)
	case !m.InUse:
		return ReasonNotInUse, "the machine is a spare"
	case m.ControlPlane:
		return ReasonControlPlane, "the machine is part of a control plane, whose members are not counted: leave it to people"
	case m.HardwareID == "":
		return ReasonIdentityUnknown, "the Machine has no hardware id, so attempts cannot be counted"
	case s.twins != "":
		return ReasonDuplicateMachine, s.twins
	case m.Rack == "":
		return ReasonFailureDomainUnknown, "the Machine names no rack, so the gate cannot be measured"
	case s.lingers:
		return ReasonInFlight, fmt.Sprintf("the request of %s, which has ended, is being taken away first", m.Request.ID)
	case m.Request != nil && m.Request.ID != s.pending:
		return ReasonForeignRemediation, fmt.Sprintf("request %s stands on the Machine", m.Request.ID)
	}
	return "", ""
}

// own is the part of the decision that rests on the machine alone: what stands
// on the objects, what the centrals say and what the live node says. It is asked
// when deciding, and once more with everything re-read just before the write.
func (s subject) own(now time.Time) (Reason, string) {
	if reason, message := s.objects(); reason != "" {
		return reason, message
	}
	f, reason, message := agree(s.facts, s.ref, s.settings.evidenceAge, now)
	if f == findingHealthy {
		return ReasonRecovered, "no central lists the node as unhealthy any more"
	}
	if f != findingUnhealthy {
		return reason, message
	}
	reason, message = s.live.confirms(s.settings, now)
	if reason != "" && (reason != ReasonNotLongEnough || !s.flaps()) {
		return reason, message
	}
	return s.provider()
}

// provider says why the Node is not proven to be the machine: the two are
// matched by name, which says nothing of what stands behind it.
func (s subject) provider() (Reason, string) {
	machine, node := s.machine.ProviderID, s.live.node.ProviderID
	switch {
	case machine == "" || machine == node:
		return "", ""
	case node == "":
		return ReasonIdentityUnknown, fmt.Sprintf("the Machine has provider id %s, the Node has none", machine)
	}
	return ReasonIdentityUnknown, fmt.Sprintf("the Machine has provider id %s, the Node has %s", machine, node)
}

// changed says in what a machine is not the one that a record names; empty means
// that it is. A Node that has no provider id yet says nothing.
func changed(t api.RemediationTarget, m *Machine, n *LiveNode) string {
	switch {
	case m.HardwareID != t.HardwareID:
		return fmt.Sprintf("the Machine's hardware id is %q now, recorded was %q", m.HardwareID, t.HardwareID)
	case m.ProviderID != "" && m.ProviderID != t.ProviderID:
		return fmt.Sprintf("the Machine's provider id is %q now, recorded was %q", m.ProviderID, t.ProviderID)
	case n != nil && n.ProviderID != "" && n.ProviderID != t.ProviderID:
		return fmt.Sprintf("the Node's provider id is %q now, recorded was %q", n.ProviderID, t.ProviderID)
	}
	return ""
}

// rebooted says whether the node has another boot id than the record names.
func rebooted(t api.RemediationTarget, n *LiveNode) bool {
	return n != nil && n.BootID != "" && n.BootID != t.BootID
}
