package policy

import (
	"slices"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// occupants are the repairs that want the one place of a cluster.
type occupants struct {
	// begun are those asked for, running or verifying, whoever asked.
	begun []string
	// pending are those written down and not asked for. The first of them has
	// the place before anything new, and the others wait for it.
	pending []string
}

// other names the repair that has the place before the given one; empty means none.
func (o occupants) other(own string) string {
	first := ""
	for _, name := range o.begun {
		if name != own && (first == "" || name < first) {
			first = name
		}
	}
	if first != "" || len(o.pending) == 0 {
		return first
	}
	if next := slices.Min(o.pending); next != own {
		return next
	}
	return ""
}

// busy finds, for each cluster, what is open, asked for or running in it. A Job
// that outlives its record counts for as long as it runs.
func (ix *index) busy() map[clusterRef]occupants {
	busy := map[clusterRef]occupants{}
	begun := func(ref clusterRef, name string) {
		o := busy[ref]
		o.begun = append(o.begun, name)
		busy[ref] = o
	}
	for i := range ix.snapshot.Remediations {
		rem := &ix.snapshot.Remediations[i]
		ref := clusterRef{rem.Spec.Target.Cell, rem.Spec.Target.Cluster}
		switch {
		case phase(rem).Final():
		case phase(rem) == api.RemediationPending:
			o := busy[ref]
			o.pending = append(o.pending, rem.Name)
			busy[ref] = o
		default:
			begun(ref, rem.Name)
		}
	}
	for _, p := range ix.machines {
		ref := clusterRef{p.cell.Name, p.machine.Cluster}
		if p.machine.Request != nil {
			begun(ref, p.machine.Request.ID)
		}
		if p.machine.running() {
			begun(ref, p.machine.Response.ID)
		}
	}
	return busy
}
