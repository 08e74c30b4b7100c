package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pharos-fleet/pharos/internal/crd"
)

// problems are what is wrong with a snapshot, each with its place.
type problems []error

func (p *problems) add(at, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

// named says what of a thing must be told and is not.
func (p *problems) named(at string, fields ...string) {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == "" {
			p.add(at+"."+fields[i], "is missing")
		}
	}
}

// once remembers keys that no two things may share.
type once map[string]string

func (o once) add(p *problems, at, key string) {
	if first, known := o[key]; known {
		p.add(at, "is the same as %s", first)
		return
	}
	o[key] = at
}

// validate refuses what could only be a slip of whoever wrote the snapshot: a
// thing without a name, or one that is there twice. What may be in a real fleet,
// such as two machines that claim one node, is for the decision to hold.
func (s Snapshot) validate() error {
	var p problems
	if s.Now.IsZero() {
		p.add("now", "is missing: the instant at which is decided, such as 2026-01-31T12:00:00Z")
	}
	policies := once{}
	for i := range s.Policies {
		at := fmt.Sprintf("policies[%d]", i)
		p.named(at, "metadata.name", s.Policies[i].Name)
		policies.add(&p, at, s.Policies[i].Name)
	}
	budgets := once{}
	for i := range s.Budgets {
		at := fmt.Sprintf("budgets[%d]", i)
		p.named(at, "metadata.name", s.Budgets[i].Name)
		budgets.add(&p, at, s.Budgets[i].Name)
		p.refused(at, "FleetDisruptionBudget", s.Budgets[i])
	}
	incidents := once{}
	for i := range s.Incidents {
		at := fmt.Sprintf("incidents[%d]", i)
		p.named(at, "metadata.name", s.Incidents[i].Name)
		incidents.add(&p, at, s.Incidents[i].Name)
		p.refused(at, "Incident", s.Incidents[i])
	}
	s.validateCells(&p)
	s.validateCentrals(&p)
	s.validateClusters(&p)
	records := once{}
	for i := range s.Remediations {
		at := fmt.Sprintf("remediations[%d]", i)
		p.named(at, "metadata.name", s.Remediations[i].Name, "spec.target.machineUID", s.Remediations[i].Spec.Target.MachineUID)
		records.add(&p, at, s.Remediations[i].Name)
	}
	return errors.Join(p...)
}

// refused adds what an API server would not take. No remediator ever reads such an
// object, so that a decision about one would tell nothing.
func (p *problems) refused(at, kind string, object any) {
	raw, err := json.Marshal(object)
	if err != nil {
		p.add(at, "writing it as JSON: %s", err)
		return
	}
	found, err := crd.Check(kind, raw)
	if err != nil {
		p.add(at, "%s", err)
	}
	for _, problem := range found {
		p.add(at, "%s", problem.Err)
	}
}

func (s Snapshot) validateCells(p *problems) {
	cells, machines := once{}, once{}
	for i, c := range s.Cells {
		at := fmt.Sprintf("cells[%d]", i)
		p.named(at, "name", c.Name)
		cells.add(p, at, c.Name)
		for j, m := range c.Machines {
			at := fmt.Sprintf("%s.machines[%d]", at, j)
			p.named(at, "name", m.Name, "uid", m.UID, "cluster", m.Cluster)
			machines.add(p, at+".uid", m.UID)
		}
	}
}

func (s Snapshot) validateCentrals(p *problems) {
	centrals := once{}
	for i, c := range s.Centrals {
		at := fmt.Sprintf("centrals[%d]", i)
		p.named(at, "name", c.Name)
		centrals.add(p, at, c.Name)
		for j, h := range c.Heartbeats {
			at := fmt.Sprintf("%s.heartbeats[%d]", at, j)
			p.named(at, "cell", h.Cell)
			p.dated(at+".at", h.At.IsZero())
		}
		for j, u := range c.ClustersUp {
			at := fmt.Sprintf("%s.clustersUp[%d]", at, j)
			p.named(at, "cell", u.Cell, "cluster", u.Cluster)
			p.dated(at+".at", u.At.IsZero())
		}
		for j, u := range c.Unhealthy {
			at := fmt.Sprintf("%s.unhealthy[%d]", at, j)
			p.named(at, "cell", u.Cell, "cluster", u.Cluster, "node", u.Node)
			p.dated(at+".at", u.At.IsZero())
		}
	}
}

func (p *problems) dated(at string, missing bool) {
	if missing {
		p.add(at, "is missing: when that was so")
	}
}

func (s Snapshot) validateClusters(p *problems) {
	clusters := once{}
	for i, c := range s.Clusters {
		at := fmt.Sprintf("clusters[%d]", i)
		p.named(at, "cell", c.Cell, "cluster", c.Cluster)
		clusters.add(p, at, c.Cell+"/"+c.Cluster)
		if c.Err == "" {
			p.dated(at+".readAt", c.ReadAt.IsZero())
		}
		nodes, leases := once{}, once{}
		for j, n := range c.Nodes {
			at := fmt.Sprintf("%s.nodes[%d]", at, j)
			p.named(at, "name", n.Name)
			nodes.add(p, at, n.Name)
		}
		for j, l := range c.Leases {
			at := fmt.Sprintf("%s.leases[%d]", at, j)
			p.named(at, "node", l.Node)
			leases.add(p, at, l.Node)
		}
	}
}
