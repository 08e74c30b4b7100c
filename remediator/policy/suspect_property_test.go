package policy_test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// anyStorm is a fleet in which anything that machines share may fail, with some more.
func anyStorm(t *rapid.T) (w *world, sick map[string]bool) {
	w, sick = newWorld(0, 0, 0), map[string]bool{}
	for c := range rapid.IntRange(1, 3).Draw(t, "cells") {
		w.addCell(c, rapid.IntRange(1, 6).Draw(t, "racks"), rapid.IntRange(1, 6).Draw(t, "perRack"))
		w.Cells[c].Region = rapid.SampledFrom([]string{"", "east", "west"}).Draw(t, "region")
		for n := range rapid.IntRange(0, 2).Draw(t, "more") {
			w.addCluster(c, fmt.Sprintf("mall-%d-%d", c, n), rapid.IntRange(1, 6).Draw(t, "racks"), rapid.IntRange(1, 4).Draw(t, "perRack"))
		}
		zones := rapid.IntRange(0, 3).Draw(t, "zones")
		for i := range w.Cells[c].Machines {
			m := &w.Cells[c].Machines[i]
			m.Pool, m.Zone = fmt.Sprintf("pool-%d", i%2), ""
			if zones > 0 {
				m.Zone = fmt.Sprintf("zone-%d", len(m.Rack)+int(m.Rack[len(m.Rack)-1])%zones)
			}
			m.Switch, m.Power = fmt.Sprintf("switch-%d", i%5), rapid.SampledFrom([]string{"", "feed-1", "feed-2"}).Draw(t, "power")
			m.InUse = rapid.IntRange(0, 9).Draw(t, "spare") > 0
		}
	}
	w.policies[0].Spec.MaxUnhealthyPercent = ptr.To(int32(rapid.IntRange(1, 50).Draw(t, "percent")))
	for range rapid.IntRange(0, 3).Draw(t, "strikes") {
		cell := w.Cells[rapid.IntRange(0, len(w.Cells)-1).Draw(t, "cell")]
		groups := sharedBy(cell, rapid.SampledFrom(cell.Machines).Draw(t, "of"))
		struck := rapid.SampledFrom(groups).Draw(t, "struck").id
		spared := rapid.IntRange(0, 4).Draw(t, "spared")
		for _, c := range w.Cells {
			for _, m := range c.Machines {
				hit := slices.ContainsFunc(sharedBy(c, m), func(g group) bool { return g.id == struck })
				if hit && !sick[m.Name] && rapid.IntRange(0, 9).Draw(t, "luck") >= spared {
					w.fail(m.Name)
					sick[m.Name] = m.InUse
				}
			}
		}
	}
	return w, sick
}

// group is something shared, of the second, plain implementation.
type group struct {
	id, parent string
	rank       int
}

func sharedBy(c policy.Cell, m policy.Machine) []group {
	cluster, cell := c.Name+"|"+m.Cluster, "cell|"+c.Name
	zone, around := "", cell
	if m.Zone != "" {
		zone = "zone|" + c.Region + "|" + m.Zone
		if c.Region == "" {
			zone = "zone|" + c.Name + "||" + m.Zone
		}
		around = zone
	}
	named := func(kind, name string) string {
		if name == "" {
			return ""
		}
		return fmt.Sprintf("%s|%s|%s|%s", kind, c.Name, m.Zone, name)
	}
	all := []group{
		{named("rack", m.Rack), around, 0}, {named("switch", m.Switch), around, 1}, {named("power", m.Power), around, 2},
		{"pool|" + cluster + "|" + m.Pool, "cluster|" + cluster, 3}, {"cluster|" + cluster, cell, 4}, {zone, "fleet", 5}, {cell, "fleet", 6},
	}
	return slices.DeleteFunc(all, func(g group) bool { return g.id == "" })
}

// counted is the second implementation's count of what is shared, by name.
type counted struct {
	all, bad map[string][]string
	known    map[string]group
}

func countShared(w *world, sick map[string]bool) counted {
	c := counted{map[string][]string{}, map[string][]string{}, map[string]group{}}
	for _, cell := range w.Cells {
		for _, m := range cell.Machines {
			if !m.InUse {
				continue
			}
			for _, g := range append(sharedBy(cell, m), group{id: "fleet"}) {
				c.known[g.id] = g
				c.all[g.id] = append(c.all[g.id], m.Name)
				if sick[m.Name] {
					c.bad[g.id] = append(c.bad[g.id], m.Name)
				}
			}
		}
	}
	return c
}

// suspicious asks in fractions.
func (c counted) suspicious(id string, percent int64) bool {
	share := func(bad, all int) *big.Rat {
		if all == 0 {
			return new(big.Rat)
		}
		return big.NewRat(int64(bad), int64(all))
	}
	n, of, parent := len(c.bad[id]), len(c.all[id]), c.known[id].parent
	least := 3
	if of <= 5 {
		least = 2
	}
	here, rest := share(n, of), share(len(c.bad[parent])-n, len(c.all[parent])-of)
	return id != "fleet" && n >= least && here.Cmp(big.NewRat(percent, 100)) > 0 && here.Cmp(rest.Mul(rest, big.NewRat(5, 1))) >= 0
}

func (c counted) before(a, b string) bool {
	return cmp.Or(len(c.all[a])-len(c.all[b]), c.known[a].rank-c.known[b].rank, strings.Compare(a, b)) < 0
}

// mostly says whether nearly all of a is in b.
func (c counted) mostly(a, b string) bool {
	in := 0
	for _, m := range c.bad[a] {
		if slices.Contains(c.bad[b], m) {
			in++
		}
	}
	return in*10 >= 9*len(c.bad[a])
}

func suspectsOf(w *world, sick map[string]bool) []string {
	c := countShared(w, sick)
	var found []string
	for id := range c.known {
		if c.suspicious(id, int64(*w.policies[0].Spec.MaxUnhealthyPercent)) {
			found = append(found, id)
		}
	}
	left := slices.DeleteFunc(slices.Clone(found), func(b string) bool {
		return slices.ContainsFunc(found, func(a string) bool { return c.before(a, b) && c.mostly(b, a) })
	})
	last := slices.DeleteFunc(slices.Clone(left), func(a string) bool {
		return slices.ContainsFunc(left, func(b string) bool { return c.before(a, b) && c.mostly(a, b) })
	})
	out := []string{}
	for _, id := range last {
		kind, _, _ := strings.Cut(id, "|")
		parent := c.known[id].parent
		out = append(out, fmt.Sprintf("%s: %d of %d, %d of %d elsewhere", map[string]string{
			"rack": "Rack", "switch": "Switch", "power": "Power", "pool": "Pool", "cluster": "ClusterControlPath", "zone": "Zone", "cell": "Cell"}[kind],
			len(c.bad[id]), len(c.all[id]), len(c.bad[parent])-len(c.bad[id]), len(c.all[parent])-len(c.all[id])))
	}
	slices.Sort(out)
	return out
}

func TestSuspectsAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, sick := anyStorm(t)
		got := []string{}
		for _, s := range w.decide().Suspects {
			got = append(got, fmt.Sprintf("%s: %d of %d, %d of %d elsewhere", s.Spec.Kind, s.Affected, s.Machines, s.ElsewhereAffected, s.Elsewhere))
		}
		slices.Sort(got)
		require.Equal(t, suspectsOf(w, sick), got)
	})
}

// What a suspect has is held, all of it, and nothing is held for a suspect elsewhere.
func TestSuspectsHoldAllThatTheyHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, _ := anyStorm(t)
		plan := w.decide()
		for _, d := range plan.Decisions {
			in := slices.ContainsFunc(plan.Suspects, func(s policy.Suspect) bool { return shares(s.Spec, d) })
			if in && d.Verdict == policy.Act {
				t.Fatalf("%s is repaired though it is in a suspect", d.Machine.Name)
			}
			if !in && strings.Contains(d.Message, "suspect ") && d.Reason == policy.ReasonCorrelatedFailure {
				t.Fatalf("%s is in no suspect: %s", d.Machine.Name, d.Message)
			}
		}
	})
}

func shares(s api.IncidentSpec, d policy.Decision) bool {
	m := d.Machine
	is := map[api.IncidentKind]bool{
		api.IncidentRack:               s.Zone == m.Zone && s.Value == m.Rack,
		api.IncidentSwitch:             s.Zone == m.Zone && s.Value == m.Switch,
		api.IncidentPower:              s.Zone == m.Zone && s.Value == m.Power,
		api.IncidentPool:               s.Cluster == m.Cluster && s.Value == m.Pool,
		api.IncidentClusterControlPath: s.Value == m.Cluster,
		api.IncidentZone:               s.Value == m.Zone,
		api.IncidentCell:               s.Value == d.Cell,
	}
	return slices.Contains(s.Cells, d.Cell) && is[s.Kind]
}
