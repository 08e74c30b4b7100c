package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Case C12: the pace is one, then two, then four, up to what may be in flight.
func TestSlowStart(t *testing.T) {
	for verified, want := range map[int]int{0: 1, 1: 2, 2: 2, 3: 4, 6: 4, 7: 8, 15: 9, 40: 9} {
		w := newWorld(12, 20, 5)
		for c := range 12 {
			w.fail(fmt.Sprintf("shop-%d-00", c))
		}
		for i := range verified {
			w.ended("shop-11-30", api.RemediationSucceeded, time.Duration(i+1)*time.Minute)
		}
		w.bound("nine", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxInFlight: ptr.To(int32(9))})
		w.bound("wide", api.FleetDisruptionBudgetSpec{Level: api.BudgetGeography, MaxInFlight: ptr.To(int32(100))})
		require.Len(t, acts(w.decide()), want, "%d verified", verified)
	}
}

func TestSlowStartBeginsAnew(t *testing.T) {
	for name, c := range map[string]struct {
		more func(w *world)
		want int
	}{
		"after a failure":      {func(w *world) { w.ended("shop-3-40", api.RemediationFailed, time.Minute) }, 1},
		"not after an old one": {func(w *world) { w.ended("shop-3-40", api.RemediationFailed, time.Hour) }, 4},
		"after one that this round finds": {func(w *world) {
			rem := w.open("shop-3-40", api.RemediationActing)
			w.asked(rem, api.RepairRunning)
			w.machine("shop-3-40").Response.FinishedAt = nil
			rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second))
		}, 0},
		"not after one between": {func(w *world) { w.ended("shop-3-40", api.RemediationFailed, 150*time.Second) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(6, 20, 5)
			for c := range 6 {
				w.fail(fmt.Sprintf("shop-%d-00", c))
			}
			for i := range 3 {
				w.ended("shop-5-30", api.RemediationSucceeded, time.Duration(i+1)*time.Minute)
			}
			c.more(w)
			require.Len(t, acts(w.decide()), c.want)
		})
	}
	w := newWorld(3, 20, 5)
	w.fail("shop-0-00")
	w.fail("shop-1-00")
	w.ended("shop-2-30", api.RemediationSucceeded, 2*time.Hour)
	plan := w.decide()
	require.Equal(t, []string{"shop-0-00 Act Unhealthy", "shop-1-00 Defer InFlight"}, verdicts(plan))
	require.Contains(t, plan.Decisions[1].Message, "is open in the fleet, where one goes first and more when it is verified")
}

func TestTheIntervalBetweenTwo(t *testing.T) {
	w := newWorld(3, 20, 5)
	w.fail("shop-0-00")
	w.fail("shop-1-00")
	w.bound("slow", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MinIntervalSeconds: ptr.To(int32(300)), SlowStart: api.SlowStartNone})
	require.Equal(t, []string{"shop-0-00 Act Unhealthy", "shop-1-00 Defer InFlight"}, verdicts(w.decide()), "two at once are less than an interval apart")
	w.ended("shop-2-30", api.RemediationSucceeded, 3*time.Minute)
	plan := w.decide()
	require.Empty(t, acts(plan))
	require.Equal(t, "the last repair in the fleet began less than 300 s ago; the next may in 1m0s (budget slow)", plan.Decisions[0].Message)
	w.Remediations[0].Status.ActedAt = &metav1.Time{Time: now.Add(-5 * time.Minute)}
	require.Len(t, acts(w.decide()), 1)
}

// What waits for a cell that cannot be reached has no place in the fleet's.
func TestARecordThatWaitsStopsNobodyElse(t *testing.T) {
	w := newWorld(2, 20, 5)
	w.fail("shop-0-00")
	w.open("shop-0-00", api.RemediationPending)
	w.Clusters[0].Err = "away"
	w.fail("shop-1-00")
	require.Equal(t, []string{"shop-0-00 Hold LiveUnknown", "shop-1-00 Act Unhealthy"}, verdicts(w.decide()))
}

// Case C41: observing keeps the pace of acting.
// A policy that only observes says what it would do at the pace of one that acts,
// and leaves that one its places.
func TestObservingTakesNoPlace(t *testing.T) {
	w := newWorld(4, 20, 5)
	for c := range 4 {
		w.fail(fmt.Sprintf("shop-%d-00", c))
	}
	watching := acting("a-watching")
	watching.Spec.Mode, watching.Spec.MatchAll, watching.Spec.Cells = api.ModeObserve, "", []string{"cell-0", "cell-1", "cell-2"}
	w.policies = append(w.policies, watching)
	w.bound("two", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxInFlight: ptr.To(int32(2))})
	require.Equal(t, []string{
		"shop-0-00 Observe ObserveOnly", "shop-1-00 Observe ObserveOnly", "shop-2-00 Defer InFlight", "shop-3-00 Act Unhealthy",
	}, verdicts(w.decide()))
}

func TestTheRecordSaysHowMuchWasUsed(t *testing.T) {
	w := newWorld(2, 20, 5)
	w.Cells[0].Geography, w.Cells[1].Geography = "asia", "europe"
	w.fail("shop-0-00")
	w.open("shop-1-10", api.RemediationVerifying)
	w.eager()
	plan := w.decide()
	require.Len(t, acts(plan), 1)
	require.Equal(t, api.BudgetRecord{
		Level: api.BudgetFleet, Domain: "the fleet", Machines: 200, Unavailable: 2, MaxUnavailable: ptr.To(int32(40)), InFlight: 1, MaxInFlight: ptr.To(int32(10)),
	}, acts(plan)[0].Spec.Budgets[2])
	require.Len(t, acts(plan)[0].Spec.Budgets, 5)
}

// A place that somebody took counts until it is known what became of it.
func TestReservations(t *testing.T) {
	theirs := func(name, machine string, ago time.Duration) policy.Reservation {
		return policy.Reservation{Name: name, Target: api.RemediationTarget{Cell: "cell-1", Cluster: "shop-1", MachineUID: "uid-" + machine}, At: now.Add(-ago)}
	}
	for name, c := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"taken": {func(w *world) { w.Reservations = append(w.Reservations, theirs("x", "shop-1-07", time.Minute)) }, "Defer InFlight"},
		"over": {func(w *world) {
			w.Reservations = append(w.Reservations, theirs("x", "shop-1-07", policy.ReservationLasts))
		}, "Act Unhealthy"},
		"its own": {func(w *world) {
			w.Reservations = append(w.Reservations, theirs(acts(w.decide())[0].Name, "shop-0-00", 0))
		}, "Act Unhealthy"},
		"written down, not asked for": {func(w *world) {
			w.fail("shop-1-07")
			w.open("shop-1-07", api.RemediationPending)
			w.Clusters[1].Err = "away"
			w.Reservations = append(w.Reservations, theirs("rem-shop-1-07", "shop-1-07", time.Minute))
		}, "Defer InFlight"},
		"ended": {func(w *world) {
			w.ended("shop-1-07", api.RemediationCancelled, 0)
			w.Reservations = append(w.Reservations, theirs("old-shop-1-07-0s", "shop-1-07", time.Minute))
		}, "Act Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2, 20, 5)
			w.fail("shop-0-00")
			c.change(w)
			require.Equal(t, "shop-0-00 "+c.want, verdicts(w.decide())[0])
		})
	}
}

// Of what is new the cell comes first in which nothing was begun for the longest: one
// whose node operator is dead would otherwise be tried for ever, before all others.
func TestCellsTakeTurns(t *testing.T) {
	w := newWorld(3, 20, 5)
	for c := range 3 {
		w.fail(fmt.Sprintf("shop-%d-00", c))
	}
	w.ended("shop-0-50", api.RemediationCancelled, 10*time.Minute)
	w.ended("shop-1-50", api.RemediationCancelled, 20*time.Minute)
	require.Equal(t, "shop-2-00", acts(w.decide())[0].Machine.Name)
	w.ended("shop-2-50", api.RemediationCancelled, 5*time.Minute)
	require.Equal(t, "shop-1-00", acts(w.decide())[0].Machine.Name)
}

// What stands on a machine and can have no effect any more, or was left there by
// hand, keeps its cluster, and does not stop the fleet.
func TestWhatLapsedHasNoPlaceInTheFleet(t *testing.T) {
	request := func(startBefore time.Duration) *api.RemediationRequest {
		return &api.RemediationRequest{ID: "by-hand", StartBefore: metav1.NewTime(now.Add(startBefore)), Deadline: metav1.NewTime(now.Add(-2 * time.Hour))}
	}
	for name, c := range map[string]struct {
		request *api.RemediationRequest
		answer  api.RepairPhase
		want    string
	}{
		"may start":       {request(time.Second), "", "Defer InFlight"},
		"lapsed":          {request(-time.Minute), "", "Act Unhealthy"},
		"answered":        {request(time.Second), api.RepairRefused, "Act Unhealthy"},
		"runs for ever":   {request(-3 * time.Hour), api.RepairRunning, "Act Unhealthy"},
		"runs, forgotten": {nil, api.RepairRunning, "Defer InFlight"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2, 20, 5)
			w.fail("shop-0-00")
			m := w.machine("shop-1-00")
			m.Request = c.request
			if c.answer != "" {
				m.Response = &api.RemediationResponse{ID: "by-hand", Phase: c.answer}
			}
			require.Equal(t, []string{"shop-0-00 " + c.want}, verdicts(w.decide()))
			w.fail("shop-1-50")
			require.NotEqual(t, policy.Act, decisionOn(w.decide(), "shop-1-50").Verdict, "its own cluster waits")
		})
	}
}

// A repair that may have been asked for before its cell went dark has its place.
func TestWhatMayHaveBeenAskedFor(t *testing.T) {
	w := newWorld(2, 20, 5)
	w.fail("shop-0-00")
	w.fail("shop-1-00")
	rem := w.open("shop-1-00", api.RemediationPending)
	w.Cells[1].Err, w.Cells[1].Machines = "away", nil
	require.Equal(t, []string{"shop-0-00 Defer InFlight"}, verdicts(w.decide()), "nobody could write down that it was")
	rem.Status.TriedAt = &metav1.Time{Time: now.Add(-10 * time.Minute)}
	require.Equal(t, []string{"shop-0-00 Defer InFlight"}, verdicts(w.decide()))
}

// When the bound becomes less, what stands first stays.
func TestALowerBoundWithdrawsTheExcess(t *testing.T) {
	w := newWorld(3, 20, 5)
	for c := range 3 {
		w.fail(fmt.Sprintf("shop-%d-00", c))
	}
	w.eager()
	names := []string{}
	for _, d := range acts(w.decide()) {
		names = append(names, d.Name)
	}
	for _, d := range acts(w.decide()) {
		rem := w.open(d.Machine.Name, api.RemediationActing)
		rem.Name = d.Name
		w.asked(rem, "")
	}
	require.Len(t, names, 3)
	require.Empty(t, withdrawals(w.decide()))
	slices.Sort(names)
	w.bound("two", api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, MaxInFlight: ptr.To(int32(2))})
	require.Equal(t, []string{names[2] + " Cancelled InFlight"}, withdrawals(w.decide()))
}

// A place is where the machine was, whatever its labels became.
func TestAPlaceStaysWhereItWasTaken(t *testing.T) {
	w := newWorld(2, 20, 5)
	w.Cells[0].Geography, w.Cells[1].Geography = "asia", "europe"
	w.fail("shop-0-00")
	rem := w.open("shop-1-00", api.RemediationVerifying)
	rem.Spec.Place = api.RemediationPlace{Geography: "asia", Pool: "workers"}
	w.eager()
	w.bound("one", api.FleetDisruptionBudgetSpec{Level: api.BudgetGeography, Names: []string{"asia"}, MaxInFlight: ptr.To(int32(1))})
	require.Equal(t, []string{"shop-0-00 Defer InFlight"}, verdicts(w.decide()))
}
