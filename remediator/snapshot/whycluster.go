package snapshot

import (
	"fmt"
	"maps"
	"slices"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// whyCluster tells of a business cluster, and what is decided of its machines.
func (s Snapshot) whyCluster(w *words, v Verdict, machines []place) {
	cell, cluster, inUse := machines[0].cell, machines[0].Cluster, 0
	for _, p := range machines {
		if p.InUse {
			inUse++
		}
	}
	w.say("%s: as at %s, cluster %s of cell %s. It has %d machines, %d of them in use.", cluster, s.at(), cluster, cell.Name, len(machines), inUse)
	if cell.Paused || slices.Contains(cell.PausedClusters, cluster) {
		w.say("The cell or the cluster is paused, or being deleted: nothing is repaired.")
	}
	w.say("")
	v.decidedIn(w, cell.Name, cluster)
	w.say("")
	s.clusterEvidence(w, cell, cluster)
	s.clusterPast(w, cell.Name, cluster)
}

// decidedIn says the verdicts on the machines of a cluster.
func (v Verdict) decidedIn(w *words, cell, cluster string) {
	found := false
	for _, d := range v.Decisions {
		if d.Cell == cell && d.Cluster == cluster {
			found = true
			w.say("- %s: %s, because of %s, by policy %s: %s", d.Machine, d.Verdict, d.Reason, d.Policy, d.Message)
		}
	}
	if !found {
		w.say("Nothing is decided of its machines: no source calls one unhealthy, or no policy selects it, or its repair runs.")
		v.policies(w)
	}
}

func (s Snapshot) clusterEvidence(w *words, cell policy.Cell, cluster string) {
	s.inventoryAndCentrals(w, cell, func(c policy.Central) string { return s.centralOn(c, cell.Name, cluster) })
	w.say("- %s", s.readOf(cell.Name, cluster))
	s.budgetsRead(w)
}

func (s Snapshot) centralOn(c policy.Central, cell, cluster string) string {
	up := "does not know the cluster"
	for _, u := range c.ClustersUp {
		if u.Cell == cell && u.Cluster == cluster {
			up = fmt.Sprintf("has up=%t of the cluster, of %s", u.Up, s.ago(u.At))
		}
	}
	unhealthy := 0
	for _, n := range c.Unhealthy {
		if n.Cell == cell && n.Cluster == cluster {
			unhealthy++
		}
	}
	return fmt.Sprintf("Central %s %s, %s, and lists %d of its nodes as unhealthy.", c.Name, s.heard(c, cell), up, unhealthy)
}

// readOf says what came of asking the cluster's own API server.
func (s Snapshot) readOf(cell, cluster string) string {
	for _, c := range s.Clusters {
		switch {
		case c.Cell != cell || c.Cluster != cluster:
		case c.Err != "":
			return "Its API server could not be read: " + c.Err
		default:
			old := 0
			for _, l := range c.Leases {
				if !l.Beats(c.ReadAt) {
					old++
				}
			}
			return fmt.Sprintf("Its API server was read %s: %d of %d Leases of its nodes were old, and %d nodes were suspected.", s.ago(c.ReadAt), old, len(c.Leases), len(c.Nodes))
		}
	}
	return "Its API server was not asked: none of its nodes was suspected."
}

// clusterPast says which repairs of its machines are open, and how the others ended.
func (s Snapshot) clusterPast(w *words, cell, cluster string) {
	var open []api.Remediation
	ended := map[api.RemediationPhase]int{}
	for _, r := range s.Remediations {
		switch t, phase := r.Spec.Target, r.CurrentPhase(); {
		case t.Cell != cell || t.Cluster != cluster:
		case phase.Final():
			ended[phase]++
		default:
			open = append(open, r)
		}
	}
	if len(open)+len(ended) > 0 {
		w.say("")
		w.say("Repairs of its machines:")
	}
	for _, r := range open {
		w.say("- %s of machine %s: %s, %s, recorded %s: %s", r.Name, r.Spec.Target.Machine, r.CurrentPhase(), known(r.Status.Reason),
			s.ago(r.CreationTimestamp.Time), known(r.Status.Message))
	}
	for _, as := range slices.Sorted(maps.Keys(ended)) {
		w.say("- %d ended as %s.", ended[as], as)
	}
}
