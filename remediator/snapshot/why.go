package snapshot

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Why writes in plain words what is decided of something in the snapshot, and what was
// known of it. It fails if there is no such thing, or more than one.
func (s Snapshot) Why(to io.Writer, of Subject) error {
	found, err := s.find(of)
	if err != nil {
		return err
	}
	w := &words{}
	switch {
	case len(found) == 0 && (of.kind != kindNode || !s.unborne(w, of)):
		return fmt.Errorf("there is no %s in the snapshot of %s%s", of, s.at(), s.unreadable())
	case len(found) == 0:
	case of.kind == kindCluster:
		s.whyCluster(w, VerdictOf(s.Decide(), s.Now), found)
	default:
		s.whyMachines(w, VerdictOf(s.Decide(), s.Now), found)
	}
	_, err = io.WriteString(to, w.text.String())
	return err
}

// whyMachines tells of the machines that are meant, of all of them where several claim
// to be it.
func (s Snapshot) whyMachines(w *words, v Verdict, found []place) {
	for i, p := range found {
		if i > 0 {
			w.say("")
		}
		s.tell(w, v, p)
	}
}

// tell says all of one machine.
func (s Snapshot) tell(w *words, v Verdict, p place) {
	w.say("%s: as at %s, machine %s of cell %s.", p.Name, s.at(), p.Name, p.cell.Name)
	w.say("It bears node %s of cluster %s; pool %s, rack %s, zone %s, hardware %s.",
		known(p.Node), known(p.Cluster), known(p.Pool), known(p.Rack), known(p.Zone), known(p.HardwareID))
	w.say("")
	v.decided(w, p.cell.Name, p.Name)
	w.say("")
	s.evidence(w, p.cell, p.Machine)
	s.past(w, p.cell.Name, p.Machine)
}

func (s Snapshot) at() string { return s.Now.UTC().Format(time.RFC3339) }

// words are the sentences of an answer.
type words struct{ text strings.Builder }

func (w *words) say(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

func known(name string) string { return cmp.Or(name, "unknown") }

// decided says the verdict, or that there is none.
func (v Verdict) decided(w *words, cell, machine string) {
	found := false
	for _, d := range v.Decisions {
		if d.Cell != cell || d.Machine != machine {
			continue
		}
		found = true
		w.say("%s, because of %s, by policy %s: %s", d.Verdict, d.Reason, d.Policy, d.Message)
		switch {
		case d.Verdict == policy.Propose:
			w.say("What is proposed to people is %s, as Remediation %s.", d.Action, d.Remediation)
		case d.Remediation != "":
			w.say("What is done is %s, recorded as Remediation %s.", d.Action, d.Remediation)
		}
	}
	for _, r := range v.Repairs {
		if r.Machine == cell+"/"+machine {
			found = true
			w.say("Its Remediation %s is %s, because of %s: %s", r.Name, r.Phase, r.Reason, r.Message)
		}
	}
	if !found {
		w.say("Nothing is decided of it: no source calls it unhealthy, or no policy selects it.")
		v.policies(w)
	}
}

// policies says which there are, and whether they may act.
func (v Verdict) policies(w *words) {
	w.say("Policies:")
	for _, p := range v.Policies {
		w.say("- %s: remediation allowed %s, %s", p.Name, p.Allowed, p.Reason)
	}
}

// evidence says what each witness knew.
func (s Snapshot) evidence(w *words, cell policy.Cell, m policy.Machine) {
	s.inventoryAndCentrals(w, cell, func(c policy.Central) string { return s.central(c, cell.Name, m) })
	live := false
	for _, c := range s.Clusters {
		if c.Cell == cell.Name && c.Cluster == m.Cluster {
			live = true
			s.live(w, c, m.Node)
		}
	}
	if !live {
		w.say("- The API server of cluster %s was not asked: none of its nodes was suspected.", m.Cluster)
	}
	s.budgetsRead(w)
}

// inventoryAndCentrals says whether the cell was read, and what each central that answered
// said.
func (s Snapshot) inventoryAndCentrals(w *words, cell policy.Cell, said func(policy.Central) string) {
	w.say("What was known:")
	if cell.Err != "" {
		w.say("- The inventory of cell %s could not be read: %s", cell.Name, cell.Err)
	}
	for _, c := range s.Centrals {
		if c.Err != "" {
			w.say("- Central %s did not answer: %s", c.Name, c.Err)
		} else {
			w.say("- %s", said(c))
		}
	}
}

func (s Snapshot) budgetsRead(w *words) {
	if s.BudgetsErr != "" {
		w.say("- Budgets could not be read: %s", s.BudgetsErr)
	}
}

func (s Snapshot) central(c policy.Central, cell string, m policy.Machine) string {
	for _, n := range c.Unhealthy {
		if n.Cell == cell && n.Cluster == m.Cluster && n.Node == m.Node {
			return fmt.Sprintf("Central %s %s, and lists the node as unhealthy (%s), %s.", c.Name, s.heard(c, cell), known(n.Reason), s.ago(n.At))
		}
	}
	return fmt.Sprintf("Central %s %s, and does not list the node as unhealthy.", c.Name, s.heard(c, cell))
}

// heard says when a central last heard of a cell.
func (s Snapshot) heard(c policy.Central, cell string) string {
	for _, h := range c.Heartbeats {
		if h.Cell == cell {
			return "heard of the cell " + s.ago(h.At)
		}
	}
	return "has not heard of the cell"
}

// live says what the cluster's own API server said of the node.
func (s Snapshot) live(w *words, c policy.LiveCluster, node string) {
	if c.Err != "" {
		w.say("- The API server of cluster %s could not be read: %s", c.Cluster, c.Err)
		return
	}
	for _, n := range c.Nodes {
		switch {
		case n.Name != node:
		case n.Err != "":
			w.say("- Its Node could not be read: %s", n.Err)
		case n.Absent:
			w.say("- Its API server has no such Node.")
		default:
			w.say("- Its API server says that it is Ready %s, since %s; boot id %s, cordoned %t.", known(n.Ready), s.ago(n.Since), known(n.BootID), n.Unschedulable)
		}
	}
	for _, l := range c.Leases {
		if l.Node == node {
			w.say("- Its kubelet renewed its Lease %s.", s.ago(l.Renewed))
		}
	}
}

// past says what was done of late to the machine, or to its hardware under another name.
func (s Snapshot) past(w *words, cell string, m policy.Machine) {
	first := true
	for _, r := range s.Remediations {
		t := r.Spec.Target
		same := t.Cell == cell && t.Machine == m.Name || m.HardwareID != "" && t.HardwareID == m.HardwareID
		if !same {
			continue
		}
		if first {
			first = false
			w.say("")
			w.say("What was done before:")
		}
		w.say("- %s: %s, %s, recorded %s: %s", r.Name, r.CurrentPhase(), known(r.Status.Reason), s.ago(r.CreationTimestamp.Time), known(r.Status.Message))
		s.answers(w, r.Status)
		if r.Spec.Snapshot != "" {
			w.say("  It was decided on %s in the folder of --record.", r.Spec.Snapshot)
		}
	}
}

// answers says what people said of a repair.
func (s Snapshot) answers(w *words, status api.RemediationStatus) {
	for _, one := range []struct {
		said string
		by   *api.PersonRecord
	}{{"approved", status.Approval}, {"denied", status.Denial}} {
		if by := one.by; by != nil {
			w.say("  It was %s by %s, %s; %s.", one.said, by.By, s.ago(by.At.Time), cmp.Or(by.Reason, "no reason is given"))
		}
	}
}

// ago is how long before the decision an instant was.
func (s Snapshot) ago(at time.Time) string {
	if at.IsZero() {
		return "at a time that is not known"
	}
	age := s.Now.Sub(at).Round(time.Second)
	if age < 0 {
		return fmt.Sprintf("%s after the decision, by its own clock", -age)
	}
	return fmt.Sprintf("%s before", age)
}
