package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const sick = "shop-0-03"

func TestActsWhenAllEvidenceAgrees(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.fail(sick)
	plan := w.decide()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(plan))
	d := plan.Decisions[0]
	require.Empty(t, cmp.Diff(api.RemediationSpec{
		PolicyName: "nodes", Mode: api.ModeAct,
		Target: api.RemediationTarget{Cell: "cell-0", Namespace: "fleet", Cluster: "shop-0", Machine: sick,
			MachineUID: "uid-" + sick, Node: sick, HardwareID: "hw-" + sick, ProviderID: "kwok://" + sick, BootID: "boot-1"},
		Action:   api.ActionReboot,
		Reason:   d.Message,
		Deadline: metav1.NewTime(now.Add(30 * time.Minute)),
		Evidence: api.Evidence{AgreedAt: metav1.NewTime(now), Signals: []api.SignalRecord{
			{Source: "central-a", ObservedAt: metav1.NewTime(now.Add(-4 * time.Second)), Says: "lists node shop-0-03 as unhealthy: Unknown"},
			{Source: "central-b", ObservedAt: metav1.NewTime(now.Add(-4 * time.Second)), Says: "lists node shop-0-03 as unhealthy: Unknown"},
			{Source: "lease", ObservedAt: metav1.NewTime(now.Add(-11 * time.Minute)), Says: "last renewed"},
			{Source: "node", ObservedAt: metav1.NewTime(now.Add(-11 * time.Minute)), Says: "Ready=Unknown since 2026-03-01T11:50:00Z, boot id boot-1"},
		}},
		Gate:  api.GateRecord{ClusterMachines: 20, ClusterUnhealthy: 1, RackMachines: 5, RackUnhealthy: 1},
		Place: api.RemediationPlace{Pool: "workers"},
	}, d.Spec, cmpopts.IgnoreFields(api.RemediationSpec{}, "Budgets")))
	require.Equal(t, []policy.Report{{Name: "nodes", Unhealthy: 1, Allowed: metav1.ConditionTrue, Reason: policy.ReasonAllowed, Message: "every central answers and sees every cell"}}, plan.Policies)
}

func TestAllWellMeansNothingToDo(t *testing.T) {
	plan := newWorld(2, 4, 5).decide()
	require.Empty(t, plan.Decisions)
	require.Empty(t, plan.Updates)
	require.True(t, plan.NextCheck.IsZero())
}

// Case C01: what is old, or from the future, is no evidence.
// Case C02: what is absent is neither well nor ill.
// Case C03: one central alone is not believed.
// Case C04: the live node is asked before anything is done.
// Case C17: of a cluster that cannot be read nothing is known.
// Case C27: what is paused is left alone.
// Each case takes a world in which one machine would be repaired, spoils one
// thing, and names the verdict that must come of it.
func TestHolds(t *testing.T) {
	type spoil func(w *world)
	central := func(change func(c *policy.Central)) spoil { return func(w *world) { change(&w.Centrals[1]) } }
	machine := func(change func(m *policy.Machine)) spoil { return func(w *world) { change(w.machine(sick)) } }
	node := func(change func(n *policy.LiveNode)) spoil { return func(w *world) { change(w.node(sick)) } }
	for name, tc := range map[string]struct {
		spoil   spoil
		verdict policy.Verdict
		reason  policy.Reason
		message string
	}{
		"central silent":          {central(func(c *policy.Central) { *c = policy.Central{Name: c.Name, Err: "connection refused"} }), policy.Hold, policy.ReasonEvidenceMissing, "central-b did not answer: connection refused"},
		"one central only":        {func(w *world) { w.Centrals = w.Centrals[:1] }, policy.Hold, policy.ReasonEvidenceMissing, "1 centrals are configured, 2 must agree"},
		"central warns":           {central(func(c *policy.Central) { c.Warnings = []string{"shard 2 timed out"} }), policy.Hold, policy.ReasonEvidencePartial, "shard 2 timed out"},
		"no heartbeat":            {central(func(c *policy.Central) { c.Heartbeats = nil }), policy.Hold, policy.ReasonEvidenceMissing, "no heartbeat of cell cell-0"},
		"heartbeat stale":         {central(func(c *policy.Central) { c.Heartbeats[0].At = now.Add(-61 * time.Second) }), policy.Hold, policy.ReasonEvidenceStale, "heartbeat of the cell is 1m1s old, allowed are 1m0s"},
		"heartbeat in the future": {central(func(c *policy.Central) { c.Heartbeats[0].At = now.Add(6 * time.Second) }), policy.Hold, policy.ReasonEvidenceStale, "6s in the future; clocks disagree"},
		"cluster state unknown":   {central(func(c *policy.Central) { c.ClustersUp = nil }), policy.Hold, policy.ReasonEvidenceMissing, "does not know whether cluster cell-0/shop-0 is up"},
		"cluster state stale":     {central(func(c *policy.Central) { c.ClustersUp[0].At = now.Add(-2 * time.Minute) }), policy.Hold, policy.ReasonEvidenceStale, "state of the cluster is 2m0s old"},
		"cluster not seen":        {central(func(c *policy.Central) { c.ClustersUp[0].Up = false }), policy.Hold, policy.ReasonClusterUnreachable, "cell cell-0 does not see cluster shop-0"},
		"one edge replica sees no cluster": {central(func(c *policy.Central) {
			c.ClustersUp = append(c.ClustersUp, policy.ClusterSample{Cell: "cell-0", Cluster: "shop-0", At: now})
		}), policy.Hold, policy.ReasonClusterUnreachable, ""},
		"centrals disagree":   {central(func(c *policy.Central) { c.Unhealthy = nil }), policy.Hold, policy.ReasonEvidenceConflict, "central-a lists the node as unhealthy, central-b does not list it"},
		"sample stale at one": {central(func(c *policy.Central) { c.Unhealthy[0].At = now.Add(-290 * time.Second) }), policy.Hold, policy.ReasonEvidenceConflict, "central-b no longer lists it"},
		"sample stale at both": {func(w *world) {
			w.Centrals[0].Unhealthy[0].At = now.Add(-290 * time.Second)
			w.Centrals[1].Unhealthy[0].At = now.Add(-290 * time.Second)
		}, policy.Hold, policy.ReasonEvidenceStale, "listed by old samples only"},
		"sample in the future":                 {central(func(c *policy.Central) { c.Unhealthy[0].At = now.Add(time.Hour) }), policy.Hold, policy.ReasonEvidenceStale, "in the future"},
		"cell unreachable":                     {func(w *world) { w.Cells[0].Err = "timeout" }, policy.Hold, policy.ReasonInventoryUnknown, "listing the cell's machines: timeout"},
		"policy paused":                        {func(w *world) { w.policies[0].Annotations = map[string]string{api.AnnotationPaused: ""} }, policy.Hold, policy.ReasonPaused, "policy nodes is paused"},
		"policy being deleted":                 {func(w *world) { w.policies[0].DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, policy.Hold, policy.ReasonPaused, ""},
		"cell paused":                          {func(w *world) { w.Cells[0].Paused = true }, policy.Hold, policy.ReasonPaused, "cell cell-0 is paused"},
		"cluster paused":                       {func(w *world) { w.Cells[0].PausedClusters = []string{"shop-0"} }, policy.Hold, policy.ReasonPaused, "cluster shop-0 is paused"},
		"machine paused":                       {machine(func(m *policy.Machine) { m.Paused = true }), policy.Hold, policy.ReasonPaused, "machine shop-0-03 is paused"},
		"machine being deleted":                {machine(func(m *policy.Machine) { m.Deleting = true }), policy.Hold, policy.ReasonDeleting, ""},
		"spare":                                {machine(func(m *policy.Machine) { m.InUse = false }), policy.Hold, policy.ReasonNotInUse, ""},
		"no hardware id":                       {machine(func(m *policy.Machine) { m.HardwareID = "" }), policy.Hold, policy.ReasonIdentityUnknown, "no hardware id"},
		"no rack":                              {machine(func(m *policy.Machine) { m.Rack = "" }), policy.Hold, policy.ReasonFailureDomainUnknown, ""},
		"hardware id twice":                    {func(w *world) { w.machine("shop-0-19").HardwareID = "hw-" + sick }, policy.Hold, policy.ReasonDuplicateMachine, "2 machines claim hardware hw-shop-0-03"},
		"another provider id":                  {node(func(n *policy.LiveNode) { n.ProviderID = "kwok://other" }), policy.Hold, policy.ReasonIdentityUnknown, "the Machine has provider id kwok://shop-0-03, the Node has kwok://other"},
		"node without provider id":             {node(func(n *policy.LiveNode) { n.ProviderID = "" }), policy.Hold, policy.ReasonIdentityUnknown, "the Node has none"},
		"one server under two names":           {central(func(c *policy.Central) { c.Replica = "a" }), policy.Hold, policy.ReasonEvidenceMissing, "central-b is the same server as central-a: both say that they are replica a"},
		"server without a name":                {central(func(c *policy.Central) { c.Replica = "" }), policy.Hold, policy.ReasonEvidenceMissing, "central-b does not say which server it is"},
		"central warns of this cell":           {central(func(c *policy.Central) { c.Partial = []policy.CellWarning{{Cell: "cell-0", Message: "NaN"}} }), policy.Hold, policy.ReasonEvidencePartial, "central-b answered with a warning: NaN"},
		"central's clock is ahead":             {central(func(c *policy.Central) { c.ClockSkew.Duration = 6 * time.Second }), policy.Hold, policy.ReasonEvidenceStale, "central-b: its clock is 6s ahead of the remediator's"},
		"central's clock is behind":            {central(func(c *policy.Central) { c.ClockSkew.Duration = -6 * time.Second }), policy.Hold, policy.ReasonEvidenceStale, "6s behind the remediator's"},
		"cluster's clock is ahead":             {func(w *world) { w.Clusters[0].ClockSkew.Duration = time.Minute }, policy.Hold, policy.ReasonEvidenceStale, "the clock of cluster shop-0's API server is 1m0s ahead of"},
		"Job of an ended repair runs on it":    {machine(running("old")), policy.Defer, policy.ReasonInFlight, "old is open in cluster shop-0"},
		"Job of an ended repair runs beside":   {func(w *world) { running("old")(w.machine("shop-0-11")) }, policy.Defer, policy.ReasonInFlight, "old is open in cluster shop-0"},
		"an earlier repair failed":             {func(w *world) { w.open(sick, api.RemediationFailed) }, policy.Escalate, policy.ReasonEscalated, "nothing may follow it"},
		"foreign request":                      {machine(func(m *policy.Machine) { m.Request = &api.RemediationRequest{ID: "by-hand"} }), policy.Hold, policy.ReasonForeignRemediation, "request by-hand stands"},
		"cluster not read":                     {func(w *world) { w.Clusters = nil }, policy.Hold, policy.ReasonLiveUnknown, "the cluster was not read"},
		"cluster unreadable":                   {func(w *world) { w.Clusters[0].Err = "forbidden" }, policy.Hold, policy.ReasonLiveUnknown, "forbidden"},
		"live read is old":                     {func(w *world) { w.Clusters[0].ReadAt = now.Add(-5 * time.Minute) }, policy.Hold, policy.ReasonLiveUnknown, "last read 5m0s ago"},
		"node not read":                        {node(func(n *policy.LiveNode) { n.Name = "other" }), policy.Hold, policy.ReasonLiveUnknown, "the Node was not read"},
		"node unreadable":                      {node(func(n *policy.LiveNode) { n.Err = "timeout" }), policy.Hold, policy.ReasonLiveUnknown, "reading the Node: timeout"},
		"node absent":                          {node(func(n *policy.LiveNode) { n.Absent = true }), policy.Hold, policy.ReasonLiveStateContradicts, "no such Node"},
		"node ready":                           {node(func(n *policy.LiveNode) { n.Ready = "True" }), policy.Hold, policy.ReasonLiveStateContradicts, "the live Node is Ready"},
		"node without condition":               {node(func(n *policy.LiveNode) { n.Ready = "" }), policy.Hold, policy.ReasonLiveUnknown, "no Ready condition"},
		"node cordoned":                        {node(func(n *policy.LiveNode) { n.Unschedulable = true }), policy.Hold, policy.ReasonCordoned, ""},
		"node being deleted":                   {node(func(n *policy.LiveNode) { n.Deleting = true }), policy.Hold, policy.ReasonDeleting, ""},
		"node without boot id":                 {node(func(n *policy.LiveNode) { n.BootID = "" }), policy.Hold, policy.ReasonIdentityUnknown, "boot id"},
		"not for long enough":                  {node(func(n *policy.LiveNode) { n.Since = now.Add(-299 * time.Second) }), policy.Defer, policy.ReasonNotLongEnough, "not ready for 4m59s, required are 5m0s"},
		"lease in time":                        {func(w *world) { w.lease(sick).Renewed = now.Add(-39 * time.Second) }, policy.Hold, policy.ReasonLiveStateContradicts, "Lease was renewed 39s ago"},
		"lease in the future":                  {func(w *world) { w.lease(sick).Renewed = now.Add(time.Hour) }, policy.Hold, policy.ReasonLiveStateContradicts, ""},
		"no lease":                             {func(w *world) { w.lease(sick).Node = "other" }, policy.Hold, policy.ReasonLiveUnknown, "the Node has no Lease"},
		"repair open elsewhere in the cluster": {func(w *world) { w.open("shop-0-11", api.RemediationVerifying) }, policy.Defer, policy.ReasonInFlight, "rem-shop-0-11 is open in cluster shop-0"},
		"request elsewhere in the cluster":     {func(w *world) { w.machine("shop-0-11").Request = &api.RemediationRequest{ID: "by-hand"} }, policy.Defer, policy.ReasonInFlight, "by-hand is open"},
		"observing":                            {func(w *world) { w.policies[0].Spec.Mode = api.ModeObserve }, policy.Observe, policy.ReasonObserveOnly, "it would Reboot"},
		"mode unset":                           {func(w *world) { w.policies[0].Spec.Mode = "" }, policy.Observe, policy.ReasonObserveOnly, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 4, 5)
			w.fail(sick)
			require.Len(t, acts(w.decide()), 1, "without the spoiling the machine is repaired")
			tc.spoil(w)
			plan := w.decide()
			require.Equal(t, []string{sick + " " + string(tc.verdict) + " " + string(tc.reason)}, verdicts(plan))
			require.Contains(t, plan.Decisions[0].Message, tc.message)
			require.Contains(t, policy.HoldReasons(), tc.reason, "metrics start with every reason")
			require.Len(t, plan.Policies[0].Holds, 1)
		})
	}
}

// running lets the node operator work for a request that is gone already.
func running(id string) func(m *policy.Machine) {
	return func(m *policy.Machine) { m.Response = &api.RemediationResponse{ID: id, Phase: api.RepairRunning} }
}

func TestDuplicateMachinesForOneNodeAreBothHeld(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	twin := *w.machine(sick)
	twin.Name, twin.UID, twin.HardwareID = "twin", "uid-twin", "hw-twin"
	w.Cells[0].Machines = append(w.Cells[0].Machines, twin)
	require.Equal(t, []string{sick + " Hold DuplicateMachine", "twin Hold DuplicateMachine"}, verdicts(w.decide()))
}

// A kubelet that says of itself that it is not ready renews its Lease all the while.
func TestReadyFalseIsBelievedWithALeaseInTime(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	w.node(sick).Ready = "False"
	w.lease(sick).Renewed = now.Add(-time.Second)
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(w.decide()))
}

func TestLeaseWithoutDurationIsTakenForFortySeconds(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	w.lease(sick).Duration.Duration = 0
	require.Len(t, acts(w.decide()), 1)
	w.lease(sick).Renewed = now.Add(-39 * time.Second)
	require.Empty(t, acts(w.decide()))
}

// Case C06: an empty selection is nothing.
func TestSelection(t *testing.T) {
	for name, tc := range map[string]struct {
		spec api.RemediationPolicySpec
		acts int
	}{
		"empty selects nothing":      {api.RemediationPolicySpec{}, 0},
		"its cell":                   {api.RemediationPolicySpec{Cells: []string{"cell-0"}}, 1},
		"another cell":               {api.RemediationPolicySpec{Cells: []string{"cell-1"}}, 0},
		"its pool":                   {api.RemediationPolicySpec{Pools: []string{"workers"}}, 1},
		"another pool":               {api.RemediationPolicySpec{Pools: []string{"gpu"}}, 0},
		"its cell, but another pool": {api.RemediationPolicySpec{Cells: []string{"cell-0"}, Pools: []string{"gpu"}}, 0},
		"cell and pool":              {api.RemediationPolicySpec{Cells: []string{"cell-0"}, Pools: []string{"workers"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 4, 5)
			w.fail(sick)
			tc.spec.Mode = api.ModeAct
			w.policies[0].Spec = tc.spec
			require.Len(t, acts(w.decide()), tc.acts)
			require.Len(t, policy.Suspects(w.policies, w.Snapshot), tc.acts)
		})
	}
}

func TestFirstPolicyByNameSpeaksForAMachine(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	observer := acting("a-observer")
	observer.Spec.Mode = api.ModeObserve
	w.policies = append(w.policies, observer)
	plan := w.decide()
	require.Equal(t, []string{sick + " Observe ObserveOnly"}, verdicts(plan))
	require.Equal(t, "a-observer", plan.Decisions[0].Policy)
}

// Case C12: within the gate all the same one goes after the other.
func TestOneRepairAtATimeInEachCluster(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.eager()
	for _, name := range []string{"shop-0-03", "shop-0-12", "shop-1-07"} {
		w.fail(name)
	}
	require.Equal(t, []string{
		"shop-0-03 Act Unhealthy", "shop-0-12 Defer InFlight", "shop-1-07 Act Unhealthy",
	}, verdicts(w.decide()))
}

func TestNodesWithoutMachineCountAgainstTheGate(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	for i := range w.Centrals {
		w.Centrals[i].Unhealthy = append(w.Centrals[i].Unhealthy, policy.NodeSample{
			Cell: "cell-0", Cluster: "shop-0", Node: "stranger", Zone: "zone-a", Rack: "rack-0", At: now})
	}
	plan := w.decide()
	require.Equal(t, 1, plan.Unmatched)
	require.Equal(t, []string{sick + " Hold CorrelatedFailure"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "2 of 5 machines of rack rack-0")
}

func TestEveryTextFitsTheAPI(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	w.Clusters[0].Err = strings.Repeat("é", 4000)
	plan := w.decide()
	require.LessOrEqual(t, len(plan.Decisions[0].Message), 512)
	require.True(t, strings.HasSuffix(plan.Decisions[0].Message, "é..."))
}

// A node that has just recovered is still listed by old samples for as long as
// the centrals look back. It is no hold, and counts against no gate.
func TestOldSamplesOfARecoveredNodeAreNoHold(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	for i := range w.Centrals {
		w.Centrals[i].Unhealthy[0].At = now.Add(-35 * time.Second)
	}
	n := w.node(sick)
	n.Ready = "True"
	w.lease(sick).Renewed = now
	w.fail("shop-0-04")
	require.Equal(t, []string{"shop-0-04 Act Unhealthy"}, verdicts(w.decide()))
}

func TestNextCheckIsWhenWaitingAloneChangesADecision(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	w.node(sick).Since = now.Add(-290 * time.Second)
	require.Equal(t, now.Add(10*time.Second), w.decide().NextCheck)
}

// Case C08: a node that falls ill again is not repaired again at once.
func TestCooldownFollowsTheHardware(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	rem := w.open(sick, api.RemediationSucceeded)
	rem.Spec.Target.MachineUID = "uid-of-an-earlier-object"
	rem.Status.ActedAt = ptr.To(metav1.NewTime(now.Add(-50 * time.Minute)))
	rem.Status.VerifiedAt = ptr.To(metav1.NewTime(now.Add(-45 * time.Minute)))
	plan := w.decide()
	require.Equal(t, []string{sick + " Hold Cooldown"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "repaired by rem-shop-0-03, left alone for another 15m0s")
	require.Equal(t, now.Add(15*time.Minute), plan.NextCheck)

	rem.Status.VerifiedAt = ptr.To(metav1.NewTime(now.Add(-60 * time.Minute)))
	rem.Status.ActedAt = ptr.To(metav1.NewTime(now.Add(-60 * time.Minute)))
	require.Len(t, acts(w.decide()), 1, "the cooldown is over")

	rem.Status.Phase, rem.Status.VerifiedAt = api.RemediationFailed, nil
	rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Minute))
	rem.Annotations = map[string]string{policy.AnnotationAcknowledged: "true"}
	require.Equal(t, []string{sick + " Hold Cooldown"}, verdicts(w.decide()), "a failed repair counts until its deadline")

	rem.Spec.Deadline = metav1.NewTime(now.Add(-70 * time.Minute))
	rem.Spec.Target.MachineUID = w.machine(sick).UID
	require.Len(t, acts(w.decide()), 1, "the deadline was long ago")
	w.machine(sick).Response = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairFailed, FinishedAt: ptr.To(metav1.NewTime(now.Add(-10 * time.Minute)))}
	require.Equal(t, []string{sick + " Hold Cooldown"}, verdicts(w.decide()), "its Job ended late")
	w.machine(sick).Response = nil

	rem.Status.Phase, rem.Status.ActedAt = api.RemediationCancelled, ptr.To(metav1.NewTime(now.Add(-time.Minute)))
	plan = w.decide()
	require.Equal(t, []string{sick + " Hold Cooldown"}, verdicts(plan), "so does a request that was withdrawn")
	require.Contains(t, plan.Decisions[0].Message, "asked for by rem-shop-0-03, which was withdrawn")

	rem.Status.ActedAt = nil
	require.Len(t, acts(w.decide()), 1, "a repair that touched nothing leaves no cooldown")
}

// Case C22: attempts are counted by hardware, and outlive the Machine.
// What one reboot did not mend, another will not: the hardware waits for a person,
// however long ago it was and under whatever Machine it comes back.
func TestFailedRepairIsNotTriedAgainUntilAPersonHasLooked(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	rem := w.open(sick, api.RemediationFailed)
	rem.Spec.Target.MachineUID = "uid-of-an-earlier-object"
	rem.Status.ActedAt = ptr.To(metav1.NewTime(now.Add(-1000 * time.Hour)))
	rem.Spec.Deadline = metav1.NewTime(now.Add(-999 * time.Hour))
	rem.Status.Reason, rem.Status.RepairedAt = string(policy.ReasonDeadlinePassed), rem.Status.ActedAt
	require.Equal(t, []string{sick + " Escalate Escalated"}, verdicts(w.decide()))

	rem.Annotations = map[string]string{policy.AnnotationAcknowledged: "no"}
	require.Equal(t, []string{sick + " Escalate Escalated"}, verdicts(w.decide()))
	rem.Annotations[policy.AnnotationAcknowledged] = "true"
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(w.decide()))

	delete(rem.Annotations, policy.AnnotationAcknowledged)
	w.machine(sick).HardwareID = "hw-new"
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(w.decide()), "new hardware has no past")
}

// Case C41: whoever only observes takes no place.
// A policy that only observes simulates its own place in the cluster.
func TestObservingTakesNoPlaceFromActing(t *testing.T) {
	w := newWorld(1, 8, 5)
	observer := acting("a-observer")
	observer.Spec.Mode, observer.Spec.MatchAll, observer.Spec.Pools = api.ModeObserve, "", []string{"watched"}
	w.policies = append(w.policies, observer)
	for i := range 10 {
		w.machine(fmt.Sprintf("shop-0-%02d", i)).Pool = "watched"
	}
	w.fail("shop-0-02")
	w.fail("shop-0-07")
	w.fail("shop-0-12")
	require.Equal(t, []string{
		"shop-0-02 Observe ObserveOnly", "shop-0-07 Defer InFlight", "shop-0-12 Act Unhealthy",
	}, verdicts(w.decide()))
}

// Two that begin in one round are each measured without the other.
func TestOneRepairIsBegunInACellAtATime(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.eager()
	w.addCluster(0, "mall-0", 4, 5)
	for _, name := range []string{"mall-0-08", "shop-0-03", "shop-1-03"} {
		w.fail(name)
	}
	plan := w.decide()
	require.Equal(t, []string{"mall-0-08 Act Unhealthy", "shop-0-03 Defer InFlight", "shop-1-03 Act Unhealthy"}, verdicts(plan))
	require.Contains(t, plan.Decisions[1].Message, "one at a time in cell cell-0")
}

// One bad series of a cell says nothing about another cell.
func TestWarningAboutOneCellLeavesOthers(t *testing.T) {
	w := newWorld(2, 4, 5)
	w.fail("shop-0-03")
	w.fail("shop-1-03")
	w.Centrals[1].Partial = []policy.CellWarning{{Cell: "cell-0", Message: "NaN"}}
	plan := w.decide()
	require.Equal(t, []string{"shop-0-03 Hold EvidencePartial", "shop-1-03 Act Unhealthy"}, verdicts(plan))
	require.Equal(t, metav1.ConditionUnknown, plan.Policies[0].Allowed)
	require.Contains(t, plan.Policies[0].Message, "cell cell-0: central-b answered with a warning: NaN; the other cells go on")
}
