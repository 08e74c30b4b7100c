package policy

import (
	"fmt"
	"slices"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// domain is what a budget is of. What its level does not need is empty.
type domain struct {
	level         api.BudgetLevel
	cell, cluster string
	// name is that of a pool or a geography.
	name string
}

func (d domain) String() string {
	switch d.level {
	case api.BudgetPool:
		return fmt.Sprintf("pool %q of cluster %s in cell %s", d.name, d.cluster, d.cell)
	case api.BudgetCluster:
		return fmt.Sprintf("cluster %s in cell %s", d.cluster, d.cell)
	case api.BudgetCell:
		return "cell " + d.cell
	case api.BudgetGeography:
		return "geography " + d.name
	default:
		return "the fleet"
	}
}

// domains are those of a machine, the narrowest first.
func (p place) domains() [5]domain { return domains(p.cell, p.machine.Cluster, p.machine.Pool) }

func domains(cell *Cell, cluster, pool string) [5]domain {
	return [5]domain{
		{level: api.BudgetPool, cell: cell.Name, cluster: cluster, name: pool},
		{level: api.BudgetCluster, cell: cell.Name, cluster: cluster},
		{level: api.BudgetCell, cell: cell.Name},
		{level: api.BudgetGeography, name: cell.Geography},
		{level: api.BudgetFleet},
	}
}

// domains are those of the target of a record. A machine that is gone was in no
// pool that anybody knows, and a cell that is gone in no geography.
func (ix *index) domains(t api.RemediationTarget) [5]domain {
	cell := ix.cells[t.Cell]
	if cell == nil {
		cell = &Cell{Name: t.Cell}
	}
	pool := ""
	if p, ok := ix.byUID[t.MachineUID]; ok {
		pool = p.machine.Pool
	}
	return domains(cell, t.Cluster, pool)
}

// inside says whether the target of a record is in a domain.
func (ix *index) inside(t api.RemediationTarget, d domain) bool {
	if d.cell != "" && t.Cell != d.cell {
		return false
	}
	all := ix.domains(t)
	return slices.Contains(all[:], d)
}

// coveredBy says whether a budget is one of the domain.
func (d domain) coveredBy(b *api.FleetDisruptionBudget) bool {
	if d.level != b.Spec.Level {
		return false
	}
	name := d.name
	switch d.level {
	case api.BudgetFleet:
		return true
	case api.BudgetCell:
		name = d.cell
	case api.BudgetCluster:
		name = d.cluster
	}
	return (len(b.Spec.Names) == 0 || slices.Contains(b.Spec.Names, name)) &&
		(len(b.Spec.Cells) == 0 || slices.Contains(b.Spec.Cells, d.cell))
}
