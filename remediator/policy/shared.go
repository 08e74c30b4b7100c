package policy

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// shared is something that machines share and may fail with. What its kind does not
// need is empty. Of two that have the same machines the earlier kind is the suspect.
type shared struct {
	kind               api.IncidentKind
	cell, region, zone string
	cluster, name      string
}

// fleetKind is what zones and cells are compared with. It is no suspect.
const fleetKind api.IncidentKind = ""

const (
	// suspectable is how many kinds of suspects there are.
	suspectable = 7
	// pathShare is where the cluster is among shares.
	pathShare = 4
)

// IncidentKinds are those of suspects, the narrowest first.
func IncidentKinds() []api.IncidentKind {
	return []api.IncidentKind{
		api.IncidentRack, api.IncidentSwitch, api.IncidentPower, api.IncidentPool, api.IncidentClusterControlPath, api.IncidentZone, api.IncidentCell,
	}
}

// shares are by kind, and the fleet at last.
type shares [suspectable + 1]shared

// shares are all that a machine shares with others; what is not known of it has no name. Racks, switches and power feeds are told
// apart by zone and cell, zones by region: two cells may stand in one.
func (p place) shares() shares {
	cell, m := p.cell.Name, p.machine
	zone := shared{kind: api.IncidentZone, region: p.cell.Region, name: m.Zone}
	if zone.region == "" {
		zone.cell = cell
	}
	return shares{
		{kind: api.IncidentRack, cell: cell, zone: m.Zone, name: m.Rack},
		{kind: api.IncidentSwitch, cell: cell, zone: m.Zone, name: m.Switch},
		{kind: api.IncidentPower, cell: cell, zone: m.Zone, name: m.Power},
		{kind: api.IncidentPool, cell: cell, cluster: m.Cluster, name: m.Pool},
		{kind: api.IncidentClusterControlPath, cell: cell, name: m.Cluster},
		zone,
		{kind: api.IncidentCell, cell: cell, name: cell},
		{kind: fleetKind, name: "the fleet"},
	}
}

// parent is what one of the shares is compared with.
func (all shares) parent(i int) shared {
	const pool, zone, cell, fleet = 3, 5, 6, 7
	switch {
	case i < pool && all[zone].name != "":
		return all[zone]
	case i == pool:
		return all[pathShare]
	case i < zone:
		return all[cell]
	}
	return all[fleet]
}

// wide says whether it may be in several cells, or is compared with others.
func (s shared) wide() bool { return s.kind == api.IncidentZone || s.kind == api.IncidentCell }

// sharedOf is what an incident is of.
func sharedOf(s *api.IncidentSpec) shared {
	of := shared{kind: s.Kind, region: s.Region, zone: s.Zone, cluster: s.Cluster, name: s.Value}
	if s.Region == "" {
		of.cell = s.Cells[0]
	}
	return of
}

// parentOf is what an incident is compared with.
func (r *run) parentOf(s *api.IncidentSpec) shared {
	m := Machine{Zone: s.Zone, Cluster: s.Cluster, Rack: s.Value, Switch: s.Value, Power: s.Value, Pool: s.Value}
	p := place{&Cell{Name: s.Cells[0]}, &m}
	if known := r.ix.cells[s.Cells[0]]; known != nil {
		p.cell = known
	}
	return p.shares().parent(slices.Index(IncidentKinds(), s.Kind))
}

func (s shared) spec(cells []string, percent int) api.IncidentSpec {
	p := int32(percent)
	return api.IncidentSpec{Kind: s.kind, Value: s.name, Cells: cells, Zone: s.zone, Cluster: s.cluster, Region: s.region, MaxUnhealthyPercent: &p}
}

func (s shared) String() string {
	in := "cell " + s.cell
	if s.region != "" {
		in = "region " + s.region
	}
	if s.zone != "" {
		in = fmt.Sprintf("zone %s in %s", s.zone, in)
	}
	switch s.kind {
	case fleetKind:
		return s.name
	case api.IncidentCell:
		return in
	case api.IncidentPool:
		return fmt.Sprintf("pool %q of cluster %s in %s", s.name, s.cluster, in)
	case api.IncidentClusterControlPath:
		return fmt.Sprintf("cluster %s in %s", s.name, in)
	case api.IncidentPower:
		return fmt.Sprintf("power feed %s of %s", s.name, in)
	}
	return fmt.Sprintf("%s %s of %s", strings.ToLower(string(s.kind)), s.name, in)
}
