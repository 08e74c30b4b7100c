package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

type clusterRef struct{ cell, cluster string }

type rackRef struct{ cell, zone, rack string }

// place is a machine with the cell it is in.
type place struct {
	cell    *Cell
	machine *Machine
}

// index is a snapshot made quick to ask. It is built once for each decision.
type index struct {
	snapshot *Snapshot
	now      time.Time
	cells    map[string]*Cell
	// machines are all that there are, those of a cluster side by side.
	machines []place
	clusters map[clusterRef]*cluster
	byUID    map[string]place
	// sameUID are identities that several machines claim to have.
	sameUID  map[string]bool
	hardware map[string]int
	centrals []centralIndex
	open     map[string]*api.Remediation   // by machine UID
	closed   map[string]*api.Remediation   // by name
	lastEnd  map[string]ending             // by hardware id, else machine UID
	past     map[string][]*api.Remediation // by the same: what ended and was not cancelled
	people   map[string]*api.Remediation   // by the same: by what it was handed to people, if nobody acknowledged that
	withheld map[string]ending             // by the same: what the last look spoke against last
	checks   map[string]*NodeChecks        // by the repair's name
	refused  map[string]*Refusal           // by machine UID
	// proposals are the open ones, by name; they are not in snapshot.
	proposals  []*api.Remediation
	proposedOn map[string][]*api.Remediation // by machine UID
	denied     map[string]*api.Remediation   // by hardware id, else machine UID: what a person denied last
	unanswered map[string][]*api.Remediation // by the same: proposals that expired of late
}

// ending is when a machine was last left by a repair, or by the request for one.
type ending struct {
	name      string
	at        time.Time
	cancelled bool
}

type centralIndex struct {
	*Central
	heartbeats map[string]time.Time
	up         map[clusterRef]*ClusterSample
	unhealthy  map[NodeRef]*NodeSample
	partial    map[string]string // by cell
	// doubt says why the server cannot count as one of its own.
	doubt string
}

func newIndex(s *Snapshot, now time.Time) *index {
	ix := &index{snapshot: s, now: now}
	ix.setApart()
	ix.addInventory()
	ix.addCentrals()
	ix.addLive()
	ix.addRemediations()
	ix.addRefusals()
	ix.checks = make(map[string]*NodeChecks, len(s.NodeChecks))
	for i := range s.NodeChecks {
		ix.checks[s.NodeChecks[i].Remediation] = &s.NodeChecks[i]
	}
	return ix
}

// addCentrals keeps of several samples (an edge may have replicas) the freshest,
// and of a cluster's state the worse one.
func (ix *index) addCentrals() {
	for i := range ix.snapshot.Centrals {
		c := centralIndex{
			Central:    &ix.snapshot.Centrals[i],
			heartbeats: make(map[string]time.Time, len(ix.snapshot.Centrals[i].Heartbeats)),
			up:         make(map[clusterRef]*ClusterSample, len(ix.snapshot.Centrals[i].ClustersUp)),
			unhealthy:  make(map[NodeRef]*NodeSample, len(ix.snapshot.Centrals[i].Unhealthy)),
			partial:    map[string]string{},
		}
		for _, w := range c.Partial {
			if first := c.partial[w.Cell]; first == "" || w.Message < first {
				c.partial[w.Cell] = w.Message
			}
		}
		for _, h := range c.Heartbeats {
			if h.At.After(c.heartbeats[h.Cell]) {
				c.heartbeats[h.Cell] = h.At
			}
		}
		for j := range c.ClustersUp {
			u := &c.ClustersUp[j]
			ref := clusterRef{u.Cell, u.Cluster}
			c.up[ref] = worse(c.up[ref], u)
		}
		for j := range c.Unhealthy {
			u := &c.Unhealthy[j]
			ref := NodeRef{u.Cell, u.Cluster, u.Node}
			if old := c.unhealthy[ref]; old == nil || u.At.After(old.At) {
				c.unhealthy[ref] = u
			}
		}
		ix.centrals = append(ix.centrals, c)
	}
	slices.SortFunc(ix.centrals, func(a, b centralIndex) int { return cmp.Compare(a.Name, b.Name) })
	ix.tellApart()
}

// tellApart doubts a central that is not known to be another server than those
// before it: a server that agrees with itself proves nothing.
func (ix *index) tellApart() {
	names := map[string]string{}
	for i := range ix.centrals {
		c := &ix.centrals[i]
		if c.Err != "" {
			continue
		}
		first, known := names[c.Replica]
		switch {
		case c.Replica == "":
			c.doubt = "does not say which server it is"
		case known:
			c.doubt = fmt.Sprintf("is the same server as %s: both say that they are replica %s", first, c.Replica)
		default:
			names[c.Replica] = c.Name
		}
	}
}

// worse merges the samples of several replicas: down if one says so. A replica
// that died saying "down" keeps a cluster held until its last sample leaves the
// look-back, which errs on the side of not acting.
func worse(old, u *ClusterSample) *ClusterSample {
	if old == nil {
		return u
	}
	both := *u
	if old.At.After(u.At) {
		both.At = old.At
	}
	both.Up = u.Up && old.Up
	return &both
}

func (ix *index) addRemediations() {
	ix.open = map[string]*api.Remediation{}
	ix.closed = map[string]*api.Remediation{}
	ix.lastEnd = map[string]ending{}
	ix.past = map[string][]*api.Remediation{}
	ix.withheld = map[string]ending{}
	for i := range ix.snapshot.Remediations {
		r := &ix.snapshot.Remediations[i]
		if !phase(r).Final() {
			if first := ix.open[r.Spec.Target.MachineUID]; first == nil || r.Name < first.Name {
				ix.open[r.Spec.Target.MachineUID] = r
			}
			continue
		}
		ix.closed[r.Name] = r
		key := identity(r.Spec.Target.HardwareID, r.Spec.Target.MachineUID)
		if at := ix.leftAt(r); at.After(ix.lastEnd[key].at) {
			ix.lastEnd[key] = ending{r.Name, at, r.Status.Phase == api.RemediationCancelled}
		}
		ix.addWithheld(key, r)
		if answers(r) {
			ix.past[key] = append(ix.past[key], r)
		}
	}
	ix.people = map[string]*api.Remediation{}
	for key := range ix.past {
		if rem := ix.triesOf(key, 0).escalated; rem != nil {
			ix.people[key] = rem
		}
	}
}

func (ix *index) addWithheld(key string, r *api.Remediation) {
	s := &r.Status
	if s.Phase == api.RemediationCancelled && s.TriedAt != nil && s.ActedAt == nil && s.TriedAt.After(ix.withheld[key].at) {
		ix.withheld[key] = ending{r.Name, s.TriedAt.Time, true}
	}
}

// leftAt is endOf by what the node operator has answered since the record was closed, as
// well: a Job may run for longer than its repair may take.
func (ix *index) leftAt(rem *api.Remediation) time.Time {
	end := endOf(rem, ix.now)
	p, seen := ix.byUID[rem.Spec.Target.MachineUID]
	if !seen || p.machine.Response == nil || p.machine.Response.ID != rem.Name || p.machine.Response.Phase == api.RepairRefused {
		return end
	}
	if t := p.machine.Response.FinishedAt; t != nil && t.After(end) {
		return t.Time
	}
	return end
}

// identity is what attempts are counted by: the hardware, which outlives the object.
func identity(hardwareID, uid string) string {
	if hardwareID != "" {
		return "hardware/" + hardwareID
	}
	return "uid/" + uid
}

// endOf is the latest time at which a repair may still have touched its
// target, and zero for one that never can have. A request that was withdrawn
// counts: that it was not answered does not quite prove that it was not begun.
func endOf(r *api.Remediation, now time.Time) time.Time {
	if r.Status.ActedAt == nil {
		return time.Time{}
	}
	end := r.Status.ActedAt.Time
	if t := r.Status.RepairedAt; t != nil && t.After(end) {
		end = t.Time
	}
	if t := r.Status.VerifiedAt; t != nil && t.After(end) {
		end = t.Time
	}
	deadline := r.Spec.Deadline.Time
	if r.Status.Phase == api.RemediationFailed && deadline.After(end) && !deadline.After(now) {
		end = deadline
	}
	return end
}
