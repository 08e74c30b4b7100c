package scenario_test

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// What no budget lets happen.
const (
	overBudget   = "a repair where more is unavailable than a budget allows"
	overInFlight = "more repairs in flight than a budget allows"
	overWave     = "more repairs in flight than were verified one wave before"
	wasFrozen    = "a repair in a freeze"
)

// setBudget writes a budget, or what is new of it, as in
// "budget calm {level: Fleet, freeze: Now, reason: drill}".
func (f *fleet) setBudget(name, spec string) error {
	b := api.FleetDisruptionBudget{}
	b.Name = name
	if err := yaml.UnmarshalStrict([]byte(spec), &b.Spec); err != nil {
		return fmt.Errorf("reading budget %s: %w", name, err)
	}
	f.budgets = append(slices.DeleteFunc(f.budgets, func(o api.FleetDisruptionBudget) bool { return o.Name == name }), b)
	return nil
}

// geography is what a cell's name says before its dash.
func geography(cell string) string {
	before, _, _ := strings.Cut(cell, "-")
	return before
}

// judgeBudgets is asked just before a request is written. It counts again, by what is
// true and by what docs/reference/budgets.md says, in every level.
func (f *fleet) judgeBudgets(m *machine) {
	for _, level := range []api.BudgetLevel{api.BudgetPool, api.BudgetCluster, api.BudgetCell, api.BudgetGeography, api.BudgetFleet} {
		covering := f.covering(level, m)
		f.judgeFreeze(m, covering)
		f.judgeUnavailable(level, m, covering)
		f.judgeInFlight(level, m, covering)
	}
}

// covering are the budgets of a level of which a machine is part.
func (f *fleet) covering(level api.BudgetLevel, m *machine) []api.FleetDisruptionBudgetSpec {
	var all []api.FleetDisruptionBudgetSpec
	for _, b := range f.budgets {
		name := map[api.BudgetLevel]string{
			api.BudgetPool: m.Pool, api.BudgetCluster: m.Cluster, api.BudgetCell: m.cell, api.BudgetGeography: geography(m.cell),
		}[level]
		if b.Spec.Level == level && (level == api.BudgetFleet || len(b.Spec.Names) == 0 || slices.Contains(b.Spec.Names, name)) {
			all = append(all, b.Spec)
		}
	}
	return all
}

// together says whether two machines are in one domain of a level.
func together(level api.BudgetLevel, a, b *machine) bool {
	switch level {
	case api.BudgetPool:
		return a.cell == b.cell && a.Cluster == b.Cluster && a.Pool == b.Pool
	case api.BudgetCluster:
		return a.cell == b.cell && a.Cluster == b.Cluster
	case api.BudgetCell:
		return a.cell == b.cell
	case api.BudgetGeography:
		return geography(a.cell) == geography(b.cell)
	default:
		return true
	}
}

func (f *fleet) judgeFreeze(m *machine, covering []api.FleetDisruptionBudgetSpec) {
	now := f.clock()
	for _, b := range covering {
		if b.Freeze == api.Now {
			f.violate(wasFrozen, "%s, after a stop of its %s (%s)", m.Name, b.Level, b.Reason)
		}
		for _, w := range b.Freezes {
			if !now.Before(w.From.Time) && now.Before(w.Until.Time) {
				f.violate(wasFrozen, "%s, its %s is frozen (%s)", m.Name, b.Level, w.Reason)
			}
		}
	}
}

// judgeUnavailable leaves out what nobody sees, and those that died too lately for
// anybody to know.
func (f *fleet) judgeUnavailable(level api.BudgetLevel, m *machine, covering []api.FleetDisruptionBudgetSpec) {
	all, bad := 0, 0
	for _, o := range f.machines {
		if !together(level, m, o) || slices.Contains([]string{"dark", "unlisted"}, f.state["cell "+o.cell]) || f.state["cluster "+o.Cluster] == "unseen" {
			continue
		}
		all++
		if f.holdsPlace(o) || !o.alive && f.now.Sub(o.changed) >= time.Minute {
			bad++
		}
	}
	if most := mostUnavailable(level, all, covering); bad > most {
		f.violate(overBudget, "%s: %d of %d are unavailable in its %s, %d may be", m.Name, bad, all, level, most)
	}
}

// mostUnavailable is the bound of n machines.
func mostUnavailable(level api.BudgetLevel, n int, covering []api.FleetDisruptionBudgetSpec) int {
	half := max(1, n/2)
	most, replaced := half, false
	for _, b := range covering {
		if b.MaxUnavailable != nil {
			most, replaced = min(most, int(*b.MaxUnavailable)), true
		}
		if b.MaxUnavailablePercent != nil {
			most, replaced = min(most, max(1, n*int(*b.MaxUnavailablePercent)/100)), true
		}
		if b.MinAvailable != nil {
			most = min(most, n-int(*b.MinAvailable))
		}
	}
	builtIn, known := map[api.BudgetLevel]int{
		api.BudgetCell: max(n/20, min(10, n/5)), api.BudgetGeography: max(n/100, min(20, n/5)), api.BudgetFleet: max(n/200, min(40, n/5)),
	}[level]
	if known && !replaced {
		most = min(most, max(1, builtIn))
	}
	return most
}

// holdsPlace leaves out a request that was answered or has lapsed, and whose repair is
// over: nothing comes of it any more but that it is taken away.
func (f *fleet) holdsPlace(m *machine) bool {
	if m.Request != nil && m.job == nil {
		rem := f.record(m.Request.ID)
		answered := m.Response != nil && m.Response.ID == m.Request.ID || !f.now.Before(m.Request.StartBefore.Add(maxSkew))
		if answered && rem != nil && phase(rem).Final() {
			return false
		}
	}
	return f.repairing(m)
}

// judgeInFlight counts the repair that is about to begin with those that have.
func (f *fleet) judgeInFlight(level api.BudgetLevel, m *machine, covering []api.FleetDisruptionBudgetSpec) {
	n := 1
	for _, o := range f.machines {
		if o != m && together(level, m, o) && f.holdsPlace(o) {
			n++
		}
	}
	if most := mostInFlight(level, covering); n > most {
		f.violate(overInFlight, "%s is one of %d in its %s, %d may be", m.Name, n, level, most)
	}
	starts := func(how api.SlowStart) bool {
		return slices.ContainsFunc(covering, func(b api.FleetDisruptionBudgetSpec) bool { return b.SlowStart == how })
	}
	slow := starts(api.SlowStartDoubling) || level == api.BudgetFleet && !starts(api.SlowStartNone)
	if verified := f.verified(level, m); slow && n > 1<<(bits.Len(uint(verified+1))-1) {
		f.violate(overWave, "%s is one of %d in its %s, where %d were verified", m.Name, n, level, verified)
	}
}

// mostInFlight is the smallest of what budgets say, else what is built in.
func mostInFlight(level api.BudgetLevel, covering []api.FleetDisruptionBudgetSpec) int {
	var said []int
	for _, b := range covering {
		if b.MaxInFlight != nil {
			said = append(said, int(*b.MaxInFlight))
		}
	}
	if len(said) > 0 {
		return slices.Min(said)
	}
	builtIn := map[api.BudgetLevel]int{api.BudgetCluster: 1, api.BudgetCell: 4, api.BudgetGeography: 8, api.BudgetFleet: 10}
	return cmp.Or(builtIn[level], math.MaxInt)
}

// verified counts the repairs around a machine that were verified within the last
// hour, and after all that failed in it.
func (f *fleet) verified(level api.BudgetLevel, m *machine) int {
	var ended []*api.Remediation
	for _, rem := range f.records {
		lately := rem.Status.EndedAt != nil && f.clock().Sub(rem.Status.EndedAt.Time) < time.Hour
		if lately && together(level, m, f.machine(rem.Spec.Target.Machine)) {
			ended = append(ended, rem)
		}
	}
	slices.SortStableFunc(ended, func(a, b *api.Remediation) int { return a.Status.EndedAt.Compare(b.Status.EndedAt.Time) })
	n := 0
	for _, rem := range ended {
		switch phase(rem) {
		case api.RemediationSucceeded:
			n++
		case api.RemediationFailed:
			n = 0
		}
	}
	return n
}
