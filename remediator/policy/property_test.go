package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// anyWorld fails some nodes of a fleet and then spoils some of what is known.
func anyWorld(t *rapid.T) *world {
	w := newWorld(rapid.IntRange(1, 3).Draw(t, "cells"), rapid.IntRange(1, 6).Draw(t, "racks"), rapid.IntRange(1, 8).Draw(t, "perRack"))
	for c := range w.Cells {
		// Some racks are shared with another cluster.
		if shared := rapid.IntRange(0, 3).Draw(t, "shared"); shared > 0 {
			w.addCluster(c, fmt.Sprintf("mall-%d", c), shared, rapid.IntRange(1, 8).Draw(t, "perSharedRack"))
		}
		for _, m := range w.Cells[c].Machines {
			switch rapid.IntRange(0, 32).Draw(t, m.Name) {
			case 0:
				w.fail(m.Name)
			case 1:
				w.fail(m.Name)
				w.open(m.Name, rapid.SampledFrom([]api.RemediationPhase{"", api.RemediationActing, api.RemediationVerifying}).Draw(t, "phase"))
			case 2:
				w.fail(m.Name)
				w.machine(m.Name).Request = &api.RemediationRequest{ID: "by-hand"}
			case 3:
				running("old")(w.machine(m.Name))
			case 4:
				anyCheck(t, w, m.Name)
			}
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "spoils") {
		spoilAny(t, w)
	}
	return w
}

// anyCheck repairs a machine with a node check that is somewhere on its way.
func anyCheck(t *rapid.T, w *world, name string) {
	w.fail(name)
	w.heal(name, true)
	rem := w.open(name, api.RemediationVerifying)
	rem.Spec.Verification.NodeCheck = &api.NodeCheckPod{Image: "check:1"}
	w.asked(rem, api.RepairSucceeded)
	if rapid.Bool().Draw(t, "checkable") {
		i := slices.IndexFunc(w.Cells, func(c policy.Cell) bool { return c.Name == rem.Spec.Target.Cell })
		w.Cells[i].CheckedClusters = append(w.Cells[i].CheckedClusters, rem.Spec.Target.Cluster)
	}
	if rapid.Bool().Draw(t, "asked for") {
		rem.Status.NodeCheck = checkRecord(api.NodeCheckPending, time.Minute)
		rem.Status.NodeCheck.NodeUID = "node-uid-" + name
	}
	read := policy.NodeChecks{Remediation: rem.Name}
	if rapid.Bool().Draw(t, "left over") {
		read.Pods = []policy.CheckPod{checkPod(api.NodeCheckPass, time.Minute)}
	}
	w.NodeChecks = append(w.NodeChecks, read)
}

func spoilAny(t *rapid.T, w *world) {
	if rapid.Bool().Draw(t, "spoil a central") {
		spoilCentral(t, &w.Centrals[rapid.IntRange(0, 1).Draw(t, "central")])
		return
	}
	cluster := &w.Clusters[rapid.IntRange(0, len(w.Clusters)-1).Draw(t, "cluster")]
	switch rapid.IntRange(0, 2).Draw(t, "spoil") {
	case 0:
		w.Cells[rapid.IntRange(0, len(w.Cells)-1).Draw(t, "cell")].Err = "away"
	case 1:
		cluster.Err = "away"
	case 2:
		for i := range cluster.Leases {
			cluster.Leases[i].Renewed = now.Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "lease")) * time.Second)
		}
	}
}

func spoilCentral(t *rapid.T, c *policy.Central) {
	switch rapid.IntRange(0, 7).Draw(t, "spoil") {
	case 0:
		*c = policy.Central{Name: c.Name, Err: "away"}
	case 1:
		c.Warnings = append(c.Warnings, "partial")
	case 2:
		c.Unhealthy = nil
	case 3:
		c.Heartbeats = nil
	case 4:
		for i := range c.Unhealthy {
			c.Unhealthy[i].At = c.Unhealthy[i].At.Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "age")) * time.Second)
		}
	case 5:
		if len(c.ClustersUp) > 0 {
			c.ClustersUp[rapid.IntRange(0, len(c.ClustersUp)-1).Draw(t, "up")].Up = false
		}
	case 6:
		c.ClustersUp = dropOne(t, c.ClustersUp)
	case 7:
		c.ClockSkew.Duration = time.Duration(rapid.IntRange(-20, 20).Draw(t, "skew")) * time.Second
	}
}

// acted lists what is asked for in a plan, by machine.
func acted(p policy.Plan) map[string]bool {
	out := map[string]bool{}
	for _, d := range acts(p) {
		out[d.Machine.Name] = true
	}
	return out
}

func TestNeverTwoInACluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		busy := map[string]string{}
		for _, r := range w.Remediations {
			busy[r.Spec.Target.Cluster] = r.Spec.Target.Machine
		}
		plan := w.decide()
		count := map[string]int{}
		for _, d := range acts(plan) {
			count[d.Machine.Cluster]++
			if count[d.Machine.Cluster] > 1 {
				t.Fatalf("two repairs at once in %s", d.Machine.Cluster)
			}
			if by := busy[d.Machine.Cluster]; by != "" && !d.Recorded {
				t.Fatalf("repair of %s beside %s", d.Machine.Name, by)
			}
		}
	})
}

// Case C03: both centrals, freshly, or nothing.
// Whoever acts has every piece of evidence: the conditions are written out here
// a second time, as plainly as can be.
func TestNeverWithoutFreshAgreeingEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		for _, d := range acts(w.decide()) {
			for _, c := range w.Centrals {
				listed := slices.ContainsFunc(c.Unhealthy, func(s policy.NodeSample) bool {
					return s.Node == d.Machine.Node && now.Sub(s.At) <= time.Minute
				})
				beating := slices.ContainsFunc(c.Heartbeats, func(h policy.CellSample) bool {
					return h.Cell == d.Cell && now.Sub(h.At) <= time.Minute
				})
				if c.Err != "" || len(c.Warnings) > 0 || !listed || !beating {
					t.Fatalf("acted on %s against %s: %+v", d.Machine.Name, c.Name, c)
				}
			}
			if n := w.node(d.Machine.Node); n.Ready == "True" || now.Sub(w.lease(d.Machine.Node).Renewed) < 40*time.Second {
				t.Fatalf("acted on a live node %+v", n)
			}
		}
	})
}

// A machine of which nobody knows that it is well, counts as one that is not. The
// oracle goes through the rack of every act, machine by machine.
func TestNeverInARackOfUnknowns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		for _, d := range acts(w.decide()) {
			total, bad := 0, 0
			for _, m := range w.machines(d.Cell) {
				if m.Rack == d.Machine.Rack && m.Zone == d.Machine.Zone {
					total++
					if !w.knownWell(d.Cell, m) {
						bad++
					}
				}
			}
			if bad > 1 && bad*5 > total {
				t.Fatalf("acted on %s in a rack of which %d of %d are not known to be well", d.Machine.Name, bad, total)
			}
		}
	})
}

func (w *world) machines(cell string) []policy.Machine {
	for _, c := range w.Cells {
		if c.Name == cell {
			return c.Machines
		}
	}
	return nil
}

// knownWell asks every source about the machine's cluster, and then for any sign
// against the machine.
func (w *world) knownWell(cell string, m policy.Machine) bool {
	unreadable := func(c policy.LiveCluster) bool { return c.Cell == cell && c.Cluster == m.Cluster && c.Err != "" }
	blind := func(c policy.Central) bool { return !sees(c, cell, m.Cluster) }
	return !slices.ContainsFunc(w.Clusters, unreadable) && !slices.ContainsFunc(w.Centrals, blind) &&
		m.Request == nil && m.Response == nil &&
		now.Sub(w.lease(m.Node).Renewed) < 40*time.Second && w.node(m.Node).Ready == "True"
}

func sees(c policy.Central, cell, cluster string) bool {
	return c.Err == "" && len(c.Warnings) == 0 && c.ClockSkew.Abs() <= 5*time.Second &&
		slices.ContainsFunc(c.ClustersUp, func(s policy.ClusterSample) bool {
			return s.Cell == cell && s.Cluster == cluster && s.Up && now.Sub(s.At) <= time.Minute
		})
}

// Case C02: less knowledge never means more repairs.
// Evidence taken away never makes a machine be acted on that was not before,
// save one that comes up to the place of another.
func TestLessEvidenceNeverMeansMoreActs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(2, 5, 5)
		w.eager()
		w.fail("shop-0-03")
		w.fail("shop-1-11")
		full := acted(w.decide())
		for range rapid.IntRange(1, 4).Draw(t, "removals") {
			removeAny(t, w)
		}
		for name := range acted(w.decide()) {
			if !full[name] {
				t.Fatalf("acted on %s for want of evidence", name)
			}
		}
	})
}

func removeAny(t *rapid.T, w *world) {
	c := &w.Centrals[rapid.IntRange(0, 1).Draw(t, "central")]
	switch rapid.IntRange(0, 6).Draw(t, "removal") {
	case 0:
		c.Unhealthy = dropOne(t, c.Unhealthy)
	case 1:
		c.Heartbeats = dropOne(t, c.Heartbeats)
	case 2:
		c.ClustersUp = dropOne(t, c.ClustersUp)
	case 3:
		w.Clusters = dropOne(t, w.Clusters)
	case 4:
		i := rapid.IntRange(0, 1).Draw(t, "cell")
		w.Cells[i].Machines = dropOne(t, w.Cells[i].Machines)
	case 5:
		w.Centrals = dropOne(t, append(w.Centrals, policy.Central{Name: "central-c", Err: "away"}))
	case 6:
		w.policies = nil
	}
}

func dropOne[T any](t *rapid.T, s []T) []T {
	if len(s) == 0 {
		return s
	}
	i := rapid.IntRange(0, len(s)-1).Draw(t, "drop")
	return append(append([]T{}, s[:i]...), s[i+1:]...)
}

// Case C06: of nothing nothing is repaired.
func TestNothingActsOnNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		switch rapid.IntRange(0, 3).Draw(t, "empty") {
		case 0:
			w.Cells = nil
		case 1:
			w.Centrals = nil
		case 2:
			w.Clusters = nil
		case 3:
			w.policies = nil
		}
		if plan := w.decide(); len(acts(plan)) > 0 {
			t.Fatalf("acted on %v", acted(plan))
		}
	})
}

// Case C43: the same inputs, in whatever order, are decided alike.
func TestSameInputsInAnyOrderSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		anyBudgets(t, w)
		before := w.decide()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		shuffle(r, w.Cells)
		shuffle(r, w.Centrals)
		shuffle(r, w.Clusters)
		shuffle(r, w.Remediations)
		shuffle(r, w.NodeChecks)
		shuffle(r, w.Budgets)
		for i := range w.Cells {
			shuffle(r, w.Cells[i].Machines)
		}
		for i := range w.Clusters {
			shuffle(r, w.Clusters[i].Leases)
			shuffle(r, w.Clusters[i].Nodes)
		}
		for i := range w.Centrals {
			shuffle(r, w.Centrals[i].Unhealthy)
		}
		if diff := cmp.Diff(before, w.decide(), cmpopts.IgnoreUnexported(policy.Decision{}, policy.CheckStart{})); diff != "" {
			t.Fatalf("the plan depends on order: %s", diff)
		}
	})
}

// Case C41: what acting holds is held in observing, for the same reason, and what acting
// would do is what observing says.
func TestObservingDecidesAsActingDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		w.Remediations = nil
		does := w.decide().Decisions
		w.policies[0].Spec.Mode = api.ModeObserve
		says := w.decide().Decisions
		if len(does) != len(says) {
			t.Fatalf("%d decisions in acting, %d in observing", len(does), len(says))
		}
		for i, d := range does {
			would := says[i].Verdict == policy.Observe
			alike := says[i].Verdict == d.Verdict && says[i].Reason == d.Reason
			// A pace that is slow at first is for those that act: more would be done.
			if d.Verdict == policy.Act && !would || d.Verdict != policy.Act && !alike && (d.Reason != policy.ReasonInFlight || !would) {
				t.Fatalf("%s: %s %s in acting, %s %s in observing", d.Machine.Name, d.Verdict, d.Reason, says[i].Verdict, says[i].Reason)
			}
		}
	})
}

func shuffle[T any](r *rand.Rand, s []T) {
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
