package policy

import (
	"fmt"
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
	machine       Machine
	// twins says which other machine claims the same node or hardware.
	twins string
	// pending is the name of the repair that is written down and not begun.
	pending string
	facts   []fact
	live    liveFact
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
			return ReasonPaused, mark.what + " is paused"
		}
	}
	return s.identity()
}

func (s subject) identity() (Reason, string) {
	m := s.machine
	switch {
	case m.Deleting:
		return ReasonDeleting, "the Machine is being deleted"
	case !m.InUse:
		return ReasonNotInUse, "the machine is a spare"
	case m.HardwareID == "":
		return ReasonIdentityUnknown, "the Machine has no hardware id, so attempts cannot be counted"
	case s.twins != "":
		return ReasonDuplicateMachine, s.twins
	case m.Rack == "":
		return ReasonFailureDomainUnknown, "the Machine names no rack, so the gate cannot be measured"
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
	return s.live.confirms(s.settings, now)
}

// Fresh is what was read again, uncached, between recording a repair and asking for it.
type Fresh struct {
	Policy        *api.RemediationPolicy
	CellPaused    bool
	ClusterPaused bool
	Machine       Machine
	// Live holds the one Node and its Lease.
	Live LiveCluster
}

// Confirm repeats the decision's own test on what was just read. An empty
// reason means that the repair may be asked for now.
func Confirm(d Decision, f Fresh, now time.Time) (Reason, string) {
	s := d.subject
	s.settings = resolve(f.Policy)
	s.cellPaused, s.clusterPaused = f.CellPaused, f.ClusterPaused
	s.machine, s.pending = f.Machine, d.Name
	s.live = liveFact{cluster: &f.Live}
	if len(f.Live.Nodes) == 1 && f.Live.Nodes[0].Name == s.ref.Node {
		s.live.node = &f.Live.Nodes[0]
	}
	if len(f.Live.Leases) == 1 && f.Live.Leases[0].Node == s.ref.Node {
		s.live.lease = &f.Live.Leases[0]
	}
	switch {
	case f.Machine.UID != d.Machine.UID:
		return ReasonTargetGone, "another Machine bears the name now"
	case f.Machine.Node != s.ref.Node || f.Machine.Cluster != s.ref.Cluster:
		return ReasonTargetGone, "the Machine belongs to another node now"
	case !selects(f.Policy, d.Cell, f.Machine.Pool):
		return ReasonNoPolicy, "the policy does not select the machine any more"
	case s.settings.observe:
		return ReasonObserveOnly, "the policy only observes now"
	case s.live.node != nil && s.live.node.BootID != "" && s.live.node.BootID != d.Spec.Target.BootID:
		return ReasonRecovered, "the node has rebooted since the repair was recorded"
	}
	if now.After(d.Spec.Deadline.Time) {
		return ReasonDeadlinePassed, "the deadline passed before the repair was asked for"
	}
	reason, message := s.own(now)
	if reason == ReasonLiveStateContradicts && s.live.node.Ready == "True" {
		reason = ReasonRecovered
	}
	return reason, message
}

// Settled says whether the reason of a failed confirmation ends the repair,
// rather than leaving it written down until more is known.
func Settled(r Reason) bool { return !r.unknown() }
