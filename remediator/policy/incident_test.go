package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// storm is a world in which time passes, everything is seen anew in each round, and
// incidents are written down.
type storm struct {
	*world
	t  *testing.T
	at time.Time
}

func newStorm(t *testing.T, racks, perRack int) *storm {
	s := &storm{newWorld(1, racks, perRack), t, now}
	s.bound("lavish", api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, MaxUnavailable: ptr.To(int32(1000))})
	s.bound("too", api.FleetDisruptionBudgetSpec{Level: api.BudgetGeography, MaxUnavailable: ptr.To(int32(1000))})
	s.bound("all", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxUnavailable: ptr.To(int32(1000))})
	return s
}

func (s *storm) down(names ...string) {
	for _, name := range names {
		s.fail(name)
		s.node(name).Ready = "False"
	}
}

func (s *storm) up(names ...string) {
	for _, name := range names {
		s.heal(name, false)
		s.node(name).Since = s.at
	}
}

// pass decides a while later, on evidence that is four seconds old.
func (s *storm) pass(d time.Duration) policy.Plan {
	s.at = s.at.Add(d)
	for i := range s.Centrals {
		c := &s.Centrals[i]
		for j := range c.Heartbeats {
			c.Heartbeats[j].At = s.at.Add(-4 * time.Second)
		}
		for j := range c.ClustersUp {
			c.ClustersUp[j].At = s.at.Add(-4 * time.Second)
		}
		for j := range c.Unhealthy {
			c.Unhealthy[j].At = s.at.Add(-4 * time.Second)
		}
	}
	for i := range s.Clusters {
		s.Clusters[i].ReadAt = s.at
		for j := range s.Clusters[i].Leases {
			s.Clusters[i].Leases[j].Renewed = s.at.Add(-time.Second)
		}
	}
	plan := policy.Decide(s.policies, s.Snapshot, s.at)
	s.write(plan)
	return plan
}

func (s *storm) write(plan policy.Plan) {
	for _, r := range plan.Incidents {
		if r.New {
			s.Incidents = append(s.Incidents, api.Incident{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec})
		}
		i := slices.IndexFunc(s.Incidents, func(in api.Incident) bool { return in.Name == r.Name })
		require.Equal(s.t, r.Spec, s.Incidents[i].Spec, "a record is not changed")
		s.Incidents[i].Status = r.Status
	}
	s.Incidents = slices.DeleteFunc(s.Incidents, func(in api.Incident) bool { return slices.Contains(plan.Forgotten, in.Name) })
}

// one is the only incident.
func (s *storm) one() *api.Incident {
	require.Len(s.t, s.Incidents, 1)
	return &s.Incidents[0]
}

// node lists machines of the cluster by their numbers.
func nodes(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("shop-0-%02d", i))
	}
	return out
}

// Case C10: a rack is one incident.
func TestC10_OneIncidentForARack(t *testing.T) {
	s := newStorm(t, 10, 5)
	s.down(nodes(0, 5)...)
	require.Empty(t, acts(s.pass(0)))
	in := s.one()
	require.Equal(t, api.IncidentSpec{Kind: api.IncidentRack, Value: "rack-0", Zone: "zone-a", Cells: []string{"cell-0"}, MaxUnhealthyPercent: ptr.To(int32(20))}, in.Spec)
	status := in.Status
	require.Equal(t, api.IncidentOpen, status.Phase)
	require.Equal(t, []int32{5, 0, 5, 0, 45, 5}, []int32{status.Affected, status.Unseen, status.Domain, status.ElsewhereAffected, status.Elsewhere, status.Peak})
	require.Equal(t, []string{"cell-0/shop-0"}, status.Clusters)
	require.Equal(t, now, status.Since.Time)
	require.True(t, meta.IsStatusConditionTrue(status.Conditions, api.ConditionEvidenceAvailable))
	for range 5 {
		plan := s.pass(5 * time.Second)
		require.False(t, plan.Incidents[0].New)
		require.Equal(t, status, s.one().Status, "nothing is written while nothing changes")
	}
	s.down("shop-0-20")
	require.Equal(t, "shop-0-20", acts(s.pass(0))[0].Machine.Name, "a single failure elsewhere goes on")
}

// Case C10: so is a zone in the end.
// Racks of a zone die one after another: it ends as one incident, of the zone.
func TestC10_RacksThatDieOneByOneAreOneIncidentInTheEnd(t *testing.T) {
	s := newStorm(t, 20, 5)
	for i := range s.Cells[0].Machines {
		if i >= 20 {
			s.Cells[0].Machines[i].Zone = "zone-b"
		}
	}
	s.down(nodes(0, 5)...)
	s.pass(0)
	first := s.one().Name
	s.down(nodes(5, 20)...)
	require.Empty(t, acts(s.pass(5*time.Second)))
	require.Empty(t, acts(s.pass(5*time.Second)))
	require.Len(t, s.Incidents, 2)
	for _, in := range s.Incidents {
		if in.Name == first {
			require.Equal(t, api.IncidentClosed, in.Status.Phase)
			continue
		}
		require.Equal(t, api.IncidentZone, in.Spec.Kind)
		require.Equal(t, int32(20), in.Status.Peak)
	}
	// The last rack to recover is still part of it.
	s.up(nodes(0, 15)...)
	s.pass(5 * time.Second)
	require.Len(t, s.Incidents, 2)
	s.up(nodes(15, 17)...)
	plan := s.pass(5 * time.Second)
	require.Len(t, s.Incidents, 2, "a rack with many sick machines has no incident beside its zone's")
	require.Equal(t, policy.ReasonCorrelatedFailure, plan.Decisions[0].Reason)
}

// Case C16: who recovers late is not shot.
// The network is restored and nodes recover over some minutes. Who is late is not shot.
func TestC16_RecoveringNodesAreNotRepaired(t *testing.T) {
	s := newStorm(t, 10, 5)
	s.policies[0].Spec.UnhealthySeconds = ptr.To(int32(60))
	s.down(nodes(0, 5)...)
	s.pass(0)
	s.up(nodes(0, 3)...)
	s.pass(30 * time.Second)
	require.Equal(t, api.IncidentOpen, s.one().Status.Phase, "two of five are more than may be")
	s.up("shop-0-03")
	require.Empty(t, acts(s.pass(30*time.Second)))
	recovered := s.at
	in := s.one()
	require.Equal(t, api.IncidentRecovering, in.Status.Phase)
	require.Equal(t, recovered, in.Status.RecoveredAt.Time)
	require.Equal(t, []int32{1, 5}, []int32{in.Status.Affected, in.Status.Peak})
	require.Equal(t, recovered.Add(300*time.Second), in.Status.CooldownUntil.Time)
	for s.at.Before(recovered.Add(295 * time.Second)) {
		plan := s.pass(5 * time.Second)
		require.Equal(t, []string{"shop-0-04 Hold IncidentOpen"}, verdicts(plan))
		require.Contains(t, plan.Decisions[0].Message, "it recovers, and is over at 2026-03-01T12:06:00Z unless the number rises")
		require.Equal(t, in.Status.CooldownUntil.Time, plan.NextCheck)
	}
	require.Empty(t, acts(s.pass(5*time.Second)), "what is not written down as closed is not")
	require.Equal(t, api.IncidentClosed, s.one().Status.Phase)
	require.Len(t, acts(s.pass(5*time.Second)), 1, "what has not recovered is a single failure now")
}

// Case C16: all begins anew at the recovery.
// The time that a node must have been unhealthy begins anew when the storm ends.
func TestC16_DwellRestartsAtRecovery(t *testing.T) {
	s := newStorm(t, 10, 5)
	s.policies[0].Spec.UnhealthySeconds = ptr.To(int32(600))
	s.down(nodes(0, 5)...)
	s.pass(0)
	s.up(nodes(0, 4)...)
	s.pass(5 * time.Second)
	recovered := s.at
	s.pass(300 * time.Second)
	plan := s.pass(5 * time.Second)
	require.Equal(t, []string{"shop-0-04 Defer NotLongEnough"}, verdicts(plan))
	require.Equal(t, recovered.Add(600*time.Second), plan.NextCheck)
	s.pass(290 * time.Second)
	require.Len(t, acts(s.pass(5*time.Second)), 1)
}

// Case C16: what was seen before is old.
// A policy may allow evidence that is older than the cooldown.
func TestC16_EvidenceIsFromAfterTheRecovery(t *testing.T) {
	for name, age := range map[string]func(s *storm){
		"a central's": func(s *storm) { s.Centrals[1].Unhealthy[0].At = s.at.Add(-400 * time.Second) },
		"the Node's":  func(s *storm) { s.Clusters[0].ReadAt = s.at.Add(-400 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorm(t, 10, 5)
			s.policies[0].Spec.MaxEvidenceAgeSeconds = ptr.To(int32(3600))
			s.down(nodes(0, 5)...)
			s.pass(0)
			s.up(nodes(0, 4)...)
			s.pass(5 * time.Second)
			s.pass(300 * time.Second)
			require.Len(t, acts(s.pass(5*time.Second)), 1)
			age(s)
			require.Equal(t, []string{"shop-0-04 Hold IncidentOpen"}, verdicts(policy.Decide(s.policies, s.Snapshot, s.at)))
		})
	}
}

// Case C16: it must go on getting better.
func TestC16_TheCooldownRestartsWhenTheNumberRises(t *testing.T) {
	s := newStorm(t, 10, 20)
	s.down(nodes(0, 8)...)
	s.pass(0)
	s.up(nodes(0, 6)...)
	s.pass(5 * time.Second)
	name, until := s.one().Name, s.one().Status.CooldownUntil.Time
	s.down("shop-0-10")
	s.pass(200 * time.Second)
	require.Equal(t, until.Add(200*time.Second), s.one().Status.CooldownUntil.Time, "three of twenty are allowed, but more than before")
	s.up("shop-0-10", "shop-0-06")
	s.pass(100 * time.Second)
	require.Equal(t, until.Add(200*time.Second), s.one().Status.CooldownUntil.Time, "a fall restarts nothing")
	s.down(nodes(0, 8)...)
	s.pass(100 * time.Second)
	require.Equal(t, api.IncidentOpen, s.one().Status.Phase)
	require.Nil(t, s.one().Status.CooldownUntil)
	require.Equal(t, name, s.one().Name, "it is the same incident")
	s.up(nodes(0, 8)...)
	s.pass(5 * time.Second)
	require.Equal(t, []int32{0, 20, 0, 180}, []int32{s.one().Status.Affected, s.one().Status.Domain, s.one().Status.ElsewhereAffected, s.one().Status.Elsewhere})
	s.pass(300 * time.Second)
	require.Equal(t, api.IncidentClosed, s.one().Status.Phase)
	s.down(nodes(0, 8)...)
	s.pass(5 * time.Second)
	require.Len(t, s.Incidents, 2, "another time, another incident")
}

func TestStormCooldownOfABudget(t *testing.T) {
	s := newStorm(t, 10, 5)
	s.bound("slow", api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, Names: []string{"cell-0"}, StormCooldownSeconds: ptr.To(int32(900))})
	s.bound("slower", api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, Names: []string{"cell-9"}, StormCooldownSeconds: ptr.To(int32(9000))})
	s.down(nodes(0, 5)...)
	s.pass(0)
	s.up(nodes(0, 5)...)
	s.pass(time.Second)
	require.Equal(t, s.at.Add(900*time.Second), s.one().Status.CooldownUntil.Time)
}

// Case C02: what is not known ends no incident.
// What is not known neither ends an incident nor lets one begin.
func TestC02_UnknownEndsNoIncident(t *testing.T) {
	for name, spoil := range map[string]func(s *storm){
		"a central is away":       func(s *storm) { s.Centrals[1].Err = "connection refused" },
		"the centrals disagree":   func(s *storm) { s.Centrals[0].Unhealthy = s.Centrals[0].Unhealthy[:1] },
		"the cell is not listed":  func(s *storm) { s.Cells[0] = policy.Cell{Name: "cell-0", Err: "connection refused"} },
		"the cluster is not seen": func(s *storm) { s.Centrals[0].ClustersUp = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorm(t, 10, 5)
			s.down(nodes(0, 5)...)
			s.pass(0)
			central0, central1, cell := s.Centrals[0], s.Centrals[1], s.Cells[0]
			central0.Unhealthy = slices.Clone(central0.Unhealthy)
			spoil(s)
			for range 200 {
				require.Empty(t, acts(s.pass(5*time.Second)))
			}
			require.Equal(t, api.IncidentOpen, s.one().Status.Phase)
			require.True(t, meta.IsStatusConditionFalse(s.one().Status.Conditions, api.ConditionEvidenceAvailable))
			s.Centrals[0], s.Centrals[1], s.Cells[0] = central0, central1, cell
			s.up(nodes(0, 5)...)
			s.pass(5 * time.Second)
			require.Equal(t, api.IncidentRecovering, s.one().Status.Phase)
			spoil(s)
			s.pass(290 * time.Second)
			if name != "the centrals disagree" {
				require.Nil(t, s.one().Status.CooldownUntil, "the time stops while nobody sees what recovers")
				s.pass(300 * time.Second)
				require.Equal(t, api.IncidentRecovering, s.one().Status.Phase)
				s.Centrals[0], s.Centrals[1], s.Cells[0] = central0, central1, cell
				s.up(nodes(0, 5)...)
				s.pass(5 * time.Second)
				require.Equal(t, s.at.Add(300*time.Second), s.one().Status.CooldownUntil.Time)
			}
		})
	}
}

// A cell that is no part of the fleet any more leaves no incident behind.
func TestIncidentOfNothingCloses(t *testing.T) {
	s := newStorm(t, 10, 5)
	s.down(nodes(0, 5)...)
	s.pass(0)
	s.Cells[0].Machines = slices.DeleteFunc(s.Cells[0].Machines, func(m policy.Machine) bool { return m.Rack == "rack-0" })
	s.pass(5 * time.Second)
	require.Equal(t, api.IncidentRecovering, s.one().Status.Phase)
	s.pass(300 * time.Second)
	require.Equal(t, api.IncidentClosed, s.one().Status.Phase)
}

func TestIncidentsThatCannotBeReadHoldEverything(t *testing.T) {
	s := newStorm(t, 10, 5)
	s.down("shop-0-00")
	require.Len(t, acts(s.pass(0)), 1)
	s.IncidentsErr = "connection refused"
	plan := s.pass(0)
	require.Equal(t, []string{"shop-0-00 Hold EvidenceMissing"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "connection refused")
	s.down(nodes(1, 5)...)
	require.Empty(t, s.pass(0).Incidents, "nobody knows whether there is one already")
}

// Incidents are bounded in number: the largest are written down, and of those that are
// closed the newest are kept. What is a suspect is held all the same.
func TestIncidentsAreBounded(t *testing.T) {
	s := newStorm(t, 600, 3)
	s.failAll(func(m policy.Machine) bool {
		return len(m.Rack) == len("rack-100") && (m.Rack < "rack-200" || m.Rack >= "rack-500" && m.Rack < "rack-510")
	})
	for i := range 240 {
		ended := metav1.NewTime(now.Add(-time.Duration(i) * time.Hour))
		s.Incidents = append(s.Incidents, api.Incident{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("incident-rack-%03d", i)},
			Spec:   api.IncidentSpec{Kind: api.IncidentRack, Value: fmt.Sprintf("old-%d", i), Cells: []string{"cell-0"}, MaxUnhealthyPercent: ptr.To(int32(20))},
			Status: api.IncidentStatus{Phase: api.IncidentClosed, Since: &ended}})
	}
	plan := s.pass(0)
	require.Len(t, plan.Suspects, 110)
	require.Len(t, plan.Incidents, 100)
	require.Len(t, plan.Forgotten, 40)
	require.Equal(t, "incident-rack-200", plan.Forgotten[0])
	require.Empty(t, acts(plan))
}

// Whatever is known, nothing begins in what has an incident that is not closed.
func TestNothingBeginsInAnIncident(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, _ := anyStorm(t)
		for i := range rapid.IntRange(1, 4).Draw(t, "incidents") {
			c := w.Cells[rapid.IntRange(0, len(w.Cells)-1).Draw(t, "cell")]
			m := rapid.SampledFrom(c.Machines).Draw(t, "of")
			spec := api.IncidentSpec{Kind: api.IncidentRack, Value: m.Rack, Zone: m.Zone, Cells: []string{c.Name}, MaxUnhealthyPercent: ptr.To(int32(20))}
			if rapid.Bool().Draw(t, "cluster") {
				spec.Kind, spec.Value, spec.Zone = api.IncidentClusterControlPath, m.Cluster, ""
			}
			in := api.Incident{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("incident-%d", i)}, Spec: spec}
			in.Status.Phase = rapid.SampledFrom([]api.IncidentPhase{"", api.IncidentOpen, api.IncidentRecovering}).Draw(t, "phase")
			w.Incidents = append(w.Incidents, in)
		}
		for _, d := range acts(w.decide()) {
			for _, in := range w.Incidents {
				if shares(in.Spec, d) {
					t.Fatalf("%s is repaired though %s is %s", d.Machine.Name, in.Name, in.Status.Phase)
				}
			}
		}
	})
}
