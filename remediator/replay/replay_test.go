package replay_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/replay"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

// byHand is the snapshot that the reference shows, of one dead node, some time later:
// everything was observed anew.
func byHand(t *testing.T, later time.Duration) snapshot.Snapshot {
	t.Helper()
	f, err := os.Open("../snapshot/testdata/by-hand.yaml")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	s, err := snapshot.Read(f)
	require.NoError(t, err)
	s.Now = s.Now.Add(later)
	for i := range s.Centrals {
		c := &s.Centrals[i]
		c.Heartbeats[0].At, c.ClustersUp[0].At, c.Unhealthy[0].At = s.Now, s.Now, s.Now
	}
	c := &s.Clusters[0]
	c.ReadAt = s.Now
	for i := range c.Leases {
		if c.Leases[i].Node != "shop-03" {
			c.Leases[i].Renewed = s.Now
		}
	}
	return s
}

// recorded has the repair that was begun in a look before.
func recorded(s, before snapshot.Snapshot) snapshot.Snapshot {
	d := before.Decide().Decisions[0]
	s.Remediations = []api.Remediation{{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: d.Spec,
		Status: api.RemediationStatus{Phase: api.RemediationActing, Reason: string(policy.ReasonRequested), Message: "the node operator has not answered yet",
			ActedAt: &metav1.Time{Time: before.Now}},
	}}
	s.Cells[0].Machines[2].Request = &api.RemediationRequest{ID: d.Name, Action: api.ActionReboot, StartBefore: metav1.NewTime(before.Now.Add(time.Minute)),
		Deadline: d.Spec.Deadline, HardwareID: "hw-03"}
	return s
}

func policyOf(name string, change func(*api.RemediationPolicySpec)) snapshot.Terms {
	p := api.RemediationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.RemediationPolicySpec{Mode: api.ModeAct, MatchAll: api.MatchAllMachines}}
	change(&p.Spec)
	return snapshot.Terms{Policies: []api.RemediationPolicy{p}}
}

func timid() snapshot.Terms {
	return policyOf("timid", func(s *api.RemediationPolicySpec) { s.Mode = api.ModeObserve })
}

func replayed(terms snapshot.Terms, looks ...snapshot.Snapshot) replay.Result {
	r := replay.New(terms)
	for _, s := range looks {
		r.Look(s)
	}
	return r.Result()
}

func text(t *testing.T, r replay.Result) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.Text(&b))
	return b.String()
}

// Case C43: other policies are told by what differs.
// A repair that was done and would not have been stands in all snapshots that follow:
// of these nothing is certain.
func TestWhatFollowsARepairThatWouldNotHaveBeen(t *testing.T) {
	first := byHand(t, 0)
	second := recorded(byHand(t, 10*time.Second), first)
	third := recorded(byHand(t, 20*time.Second), first)
	r := replayed(timid(), first, second, third)
	require.Len(t, r.Differences, 2)
	begins, runs := r.Differences[0], r.Differences[1]
	require.Equal(t, "Act Reboot", begins.Before.String())
	require.Equal(t, "Observe ObserveOnly", begins.After.String())
	require.Equal(t, []any{1, 1, replay.Certain}, []any{begins.Looks, begins.Certain, begins.Doubt})
	require.Equal(t, []time.Time{first.Now, first.Now}, []time.Time{begins.First, begins.Last})

	require.Equal(t, "Acting Requested", runs.Before.String())
	require.Equal(t, "Cancelled ObserveOnly", runs.After.String())
	require.Equal(t, []any{2, 0, replay.OfMachine}, []any{runs.Looks, runs.Certain, runs.Doubt})
	require.Equal(t, []time.Time{second.Now, third.Now}, []time.Time{runs.First, runs.Last})

	require.Equal(t, replay.Repairs{Then: 1, Now: 0, Both: 0}, r.Repairs)
	require.Equal(t, 1, r.Machines)
	require.Equal(t, first.Now, *r.DoubtfulAfter)
	require.Contains(t, text(t, r), "what is not CERTAIN is only as good as that")
}

// Why a record ends is told rather than why its machine waits for the next one.
func TestARecordThatWouldHaveBeenCancelled(t *testing.T) {
	first := byHand(t, 0)
	second := recorded(byHand(t, 10*time.Second), first)
	second.Cells[0].Machines[2].Request = nil
	second.Remediations[0].Status = api.RemediationStatus{}
	slow := policyOf("slow", func(s *api.RemediationPolicySpec) { s.TimeoutSeconds = ptr.To(int32(14400)) })
	r := replayed(slow, second)
	require.Len(t, r.Differences, 1)
	require.Equal(t, "Act Reboot Pending", r.Differences[0].Before.String())
	require.Equal(t, "Defer Cancelled TooLittleTime", r.Differences[0].After.String())
	require.Contains(t, r.Differences[0].After.Message, "it is evaluated anew")
	require.NotNil(t, r.DoubtfulAfter)
}

// That a machine is handed to people is written down, and holds it from then on.
func TestAMachineThatWouldNotHaveBeenHandedToPeople(t *testing.T) {
	first := byHand(t, 0)
	second := recorded(byHand(t, time.Minute), first)
	second.Cells[0].Machines[2].Request = nil
	at := metav1.NewTime(first.Now)
	second.Remediations[0].Status = api.RemediationStatus{Phase: api.RemediationFailed, Reason: string(policy.ReasonRepairFailed), ActedAt: &at, EndedAt: &at}
	r := replayed(timid(), second)
	require.Len(t, r.Differences, 1)
	require.Equal(t, "Escalate Escalated", r.Differences[0].Before.String())
	require.Equal(t, "Observe ObserveOnly", r.Differences[0].After.String())
	require.NotNil(t, r.DoubtfulAfter)
}

// Case C43: the same policies decide the same.
// The policies of then decide what was decided then, and other words or names for them
// are no difference.
func TestNothingDiffers(t *testing.T) {
	first := byHand(t, 0)
	r := replayed(policyOf("renamed", func(*api.RemediationPolicySpec) {}), first, recorded(byHand(t, 10*time.Second), first))
	require.Empty(t, r.Differences)
	require.Nil(t, r.DoubtfulAfter)
	require.Equal(t, replay.Repairs{Then: 1, Now: 1, Both: 1}, r.Repairs)
	require.NotContains(t, text(t, r), "only as good")
}

// Another reason is no other verdict, and is counted.
func TestAnotherReason(t *testing.T) {
	s := byHand(t, 0)
	stop := api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "stop"}, Spec: api.FleetDisruptionBudgetSpec{Level: api.BudgetFleet, Freeze: api.Now, Reason: "sale"}}
	s.Budgets = []api.FleetDisruptionBudget{stop}
	patient := policyOf("patient", func(p *api.RemediationPolicySpec) { p.UnhealthySeconds = ptr.To(int32(3600)) })
	r := replayed(patient, s)
	require.Len(t, r.Differences, 1, "it waits rather than being held")
	require.Nil(t, r.DoubtfulAfter, "neither writes anything down")
	stop.Name = "other"
	stop.Spec.Reason = "a sale of another kind"
	r = replayed(snapshot.Terms{Budgets: []api.FleetDisruptionBudget{stop}}, s)
	require.Empty(t, r.Differences)
	require.Zero(t, r.ReasonsOnly, "other words are not even another reason")
	wide := stop
	wide.Spec = api.FleetDisruptionBudgetSpec{Level: api.BudgetCell, MinAvailable: ptr.To(int32(5))}
	r = replayed(snapshot.Terms{Budgets: []api.FleetDisruptionBudget{wide}}, s)
	require.Empty(t, r.Differences)
	require.Equal(t, 1, r.ReasonsOnly)
	require.Contains(t, text(t, r), "Machines with another verdict: 0; with the same for another reason: 1.")
}

// A repair that differs casts a doubt on its machine, and a lesser one on what shares
// less with it.
func TestTheNearerTheGraver(t *testing.T) {
	first := byHand(t, 0)
	for want, c := range map[replay.Doubt]struct{ cell, geography, cluster, pool string }{
		replay.OfPool:      {"asia-1", "asia", "shop", "workers"},
		replay.OfCluster:   {"asia-1", "asia", "shop", "gpu"},
		replay.OfCell:      {"asia-1", "asia", "bank", "workers"},
		replay.OfGeography: {"asia-2", "asia", "bank", "workers"},
		replay.OfFleet:     {"europe-1", "europe", "bank", "workers"},
	} {
		first.Cells[0].Geography = "asia"
		for i := range first.Cells[0].Machines {
			first.Cells[0].Machines[i].Pool = "workers"
		}
		second := elsewhere(byHand(t, 10*time.Second), c.cell, c.geography, c.cluster, c.pool)
		r := replayed(timid(), first, second)
		require.Len(t, r.Differences, 2, want)
		other := r.Differences[1]
		require.Equal(t, "other-03", other.Machine)
		require.Equal(t, []any{want, 0}, []any{other.Doubt, other.Certain})
	}
}

// elsewhere has the dead node in another part of the fleet, under another name.
func elsewhere(s snapshot.Snapshot, cell, geography, cluster, pool string) snapshot.Snapshot {
	s.Cells[0].Name, s.Cells[0].Geography = cell, geography
	for i := range s.Cells[0].Machines {
		m := &s.Cells[0].Machines[i]
		m.Cluster, m.Pool, m.Name, m.UID, m.HardwareID = cluster, pool, strings.Replace(m.Name, "shop", "other", 1), "other-"+m.UID, "other-"+m.HardwareID
	}
	for i := range s.Centrals {
		c := &s.Centrals[i]
		c.Heartbeats[0].Cell, c.ClustersUp[0].Cell, c.Unhealthy[0].Cell = cell, cell, cell
		c.ClustersUp[0].Cluster, c.Unhealthy[0].Cluster = cluster, cluster
	}
	s.Clusters[0].Cell, s.Clusters[0].Cluster = cell, cluster
	return s
}

// Policies that select more than those of then find nodes, and checks, that nobody read.
func TestWhatNobodyRead(t *testing.T) {
	unselected := byHand(t, 0)
	unselected.Policies[0].Spec.MatchAll, unselected.Policies[0].Spec.Cells = "", []string{"europe-1"}
	read := unselected.Clusters
	unselected.Clusters = nil
	r := replayed(policyOf("wide", func(*api.RemediationPolicySpec) {}), unselected)
	require.Len(t, r.Differences, 1)
	require.Equal(t, "-", r.Differences[0].Before.String())
	require.Equal(t, policy.ReasonLiveUnknown, r.Differences[0].After.Reason)
	require.Equal(t, replay.NotRead, r.Differences[0].Doubt)
	require.Zero(t, r.Differences[0].Certain)
	require.Contains(t, text(t, r), "NotRead: these policies would have had something read that nobody asked for then.")

	unselected.Clusters = read
	unselected.Clusters[0].Err, unselected.Clusters[0].Nodes = "connection refused", nil
	r = replayed(policyOf("wide", func(*api.RemediationPolicySpec) {}), unselected)
	require.Equal(t, policy.ReasonLiveUnknown, r.Differences[0].After.Reason)
	require.Equal(t, replay.Certain, r.Differences[0].Doubt, "it was tried to be read")

	s := byHand(t, 0)
	s.Cells[0].CheckedClusters = []string{"shop"}
	checked := policyOf("checked", func(p *api.RemediationPolicySpec) {
		p.Verification.NodeCheck = &api.NodeCheckPod{Image: "registry.example/check:1"}
	})
	r = replayed(checked, s)
	require.Equal(t, policy.ReasonNodeCheckUnavailable, r.Differences[0].After.Reason)
	require.Equal(t, replay.NotRead, r.Differences[0].Doubt)
	s.CheckAccess = []policy.CheckAccess{{Cell: "asia-1", Cluster: "shop", Check: *checked.Policies[0].Spec.Verification.NodeCheck, Err: "forbidden", SeenAt: s.Now}}
	r = replayed(checked, s)
	require.Equal(t, policy.ReasonNodeCheckUnavailable, r.Differences[0].After.Reason)
	require.Equal(t, replay.Certain, r.Differences[0].Doubt, "it was tried")
}

// What was in a decision then and is in none now is told with the words of then.
func TestSelectedNoMore(t *testing.T) {
	r := replayed(policyOf("elsewhere", func(p *api.RemediationPolicySpec) { p.MatchAll, p.Cells = "", []string{"europe-1"} }), byHand(t, 0))
	require.Len(t, r.Differences, 1)
	require.Equal(t, "-", r.Differences[0].After.String())
	require.Regexp(t, `Act Reboot +- +- +before: node shop-03 is Ready=Unknown`, text(t, r))
}
