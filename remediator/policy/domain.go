package policy

import (
	"cmp"
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

// compare orders domains of one level.
func (d domain) compare(other domain) int {
	return cmp.Or(cmp.Compare(d.cell, other.cell), cmp.Compare(d.cluster, other.cluster), cmp.Compare(d.name, other.name))
}

// narrow says whether the domain is within one cluster.
func (d domain) narrow() bool { return d.level == api.BudgetPool || d.level == api.BudgetCluster }

// wide says whether it may hold several cells.
func (d domain) wide() bool { return d.level == api.BudgetGeography || d.level == api.BudgetFleet }

// within are those of some domains that are within one cluster.
func within(all [5]domain) []domain {
	return slices.DeleteFunc(all[:], func(d domain) bool { return !d.narrow() })
}

// scope are the domains of a machine by which a repair is measured. A last look sees
// one cell, and leaves what is wider to the decision.
func (r *run) scope(p place) []domain {
	all := p.domains()
	if !r.oneCell {
		return all[:]
	}
	return slices.DeleteFunc(all[:], domain.wide)
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

// domains are those of a repair, where its target was when it was decided.
func (ix *index) domains(rem *api.Remediation) [5]domain {
	return ix.domainsOf(rem.Spec.Target, rem.Spec.Place)
}

func (ix *index) domainsOf(t api.RemediationTarget, place api.RemediationPlace) [5]domain {
	cell := &Cell{Name: t.Cell, Geography: place.Geography}
	if known := ix.cells[t.Cell]; known != nil && place.Geography == "" {
		cell = known
	}
	if p, ok := ix.byUID[t.MachineUID]; ok && place.Pool == "" {
		place.Pool = p.machine.Pool
	}
	return domains(cell, t.Cluster, place.Pool)
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
