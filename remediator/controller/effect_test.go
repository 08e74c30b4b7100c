package controller

import (
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// figure is a line of one, with or without what became of what is counted.
var figure = regexp.MustCompile(`(?m)^pharos_remediator_(repairs|findings|time_to_repair|time_to_detect)(?:_total|_seconds_count)(?:\{(?:became="(\w+)")?,?(?:since="\d+")?\})? (\d+)$`)

// effects are the figures of effectiveness as they are scraped, those that are not
// nought. Sums of histograms, and so their buckets, are left out.
func effects(t *testing.T, c *Controller) map[string]string {
	t.Helper()
	_, page := get(t, "http://"+c.Addr().String()+"/metrics")
	out := map[string]string{}
	for _, m := range figure.FindAllStringSubmatch(page, -1) {
		if m[3] != "0" {
			out[strings.TrimSpace(m[1]+" "+m[2])] = m[3]
		}
	}
	return out
}

// testEffect follows what three remediators, one after the other, say of two findings.
func testEffect(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	first := f.start()
	require.Empty(t, effects(t, first), "nothing that would look like a counter that began anew")
	f.fail(sick)
	f.round(first)
	require.Equal(t, map[string]string{"findings detected": "1", "time_to_detect": "1"}, effects(t, first))
	f.round(first)
	asked := map[string]string{"repairs recorded": "1", "repairs acted": "1"}
	require.Equal(t, with(asked, "findings detected", "1", "time_to_detect", "1"), effects(t, first))

	// The next one knows from the record that it was detected, and asked for.
	second := f.start()
	require.Empty(t, effects(t, second))
	f.round(second)
	f.round(second)
	require.Equal(t, asked, effects(t, second))
	f.answer(sick, api.RepairSucceeded)
	f.renewed(sick)
	f.round(second)
	require.Equal(t, api.RemediationSucceeded, f.one().Status.Phase)
	f.round(second)
	done := with(asked, "repairs verified", "1", "time_to_repair", "1")
	require.Equal(t, done, effects(t, second))

	// What is in the records is neither lost with the process nor counted again, and
	// what is only in the status of the policy is not either.
	f.fail("shop-node-12")
	f.annotate(f.policy(), api.AnnotationPaused, "")
	f.round(second)
	require.Equal(t, with(done, "findings detected", "1", "time_to_detect", "1"), effects(t, second))
	third := f.start()
	f.round(third)
	f.round(third)
	require.Equal(t, done, effects(t, third))

	// What cannot be seen has not ended; what is seen to be well has healed by itself.
	f.renewed("shop-node-12")
	f.centrals["central-a"].set(func(c *central) { c.beat = 2 * time.Minute })
	f.round(third)
	require.Equal(t, done, effects(t, third))
	f.centrals["central-a"].set(func(c *central) { c.beat = 2 * time.Second })
	f.round(third)
	require.Equal(t, with(done, "findings self_healed", "1"), effects(t, third))

	// A record that is deleted has been.
	require.NoError(t, f.client.Delete(t.Context(), ptr.To(f.one())))
	f.round(third)
	require.Equal(t, with(done, "findings self_healed", "1"), effects(t, third))
	_, page := get(t, "http://"+third.Addr().String()+"/metrics")
	require.NotContains(t, page, "shop-node", "no figure bears the name of a node")
	require.Regexp(t, `repairs_total\{became="verified",since="\d+"\} 1`, page, "a remediator that begins with fewer records has series of its own")
}

func with(figures map[string]string, more ...string) map[string]string {
	out := maps.Clone(figures)
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// renewed plays a node that comes back, and that the centrals see.
func (f *fleet) renewed(name string) {
	f.reboot(name)
	f.unlist()
}

// testFalse has a request be withdrawn because the node came back before anybody began.
func testFalse(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	c := f.start()
	f.fail(sick)
	f.round(c)
	f.renewed(sick)
	f.round(c)
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	f.round(c)
	require.Equal(t, map[string]string{
		"findings detected": "1", "time_to_detect": "1", "repairs recorded": "1", "repairs acted": "1", "repairs false": "1",
	}, effects(t, c))
}

func TestWhatBecameOfARecord(t *testing.T) {
	at := ptr.To(metav1.Now())
	for name, tc := range map[string]struct {
		status api.RemediationStatus
		want   string
	}{
		"verified":                      {api.RemediationStatus{Phase: api.RemediationSucceeded, Reason: "Verified", ActedAt: at}, "verified"},
		"failed":                        {api.RemediationStatus{Phase: api.RemediationFailed, Reason: "DeadlinePassed", ActedAt: at}, "failed"},
		"handed to people":              {api.RemediationStatus{Phase: api.RemediationEscalated, Reason: "Escalated"}, "escalated"},
		"well before it was touched":    {api.RemediationStatus{Phase: api.RemediationCancelled, Reason: "Recovered"}, "recovered"},
		"well before it was begun":      {api.RemediationStatus{Phase: api.RemediationCancelled, Reason: "Recovered", ActedAt: at}, "false"},
		"contradicted":                  {api.RemediationStatus{Phase: api.RemediationCancelled, Reason: "LiveStateContradicts", ActedAt: at}, "false"},
		"centrals no longer agree":      {api.RemediationStatus{Phase: api.RemediationCancelled, Reason: "EvidenceConflict", ActedAt: at}, "false"},
		"contradicted, never asked for": {api.RemediationStatus{Phase: api.RemediationCancelled, Reason: "LiveStateContradicts"}, "cancelled"},
		"paused":                        {api.RemediationStatus{Phase: api.RemediationCancelled, Reason: "Paused", ActedAt: at}, "cancelled"},
		"unknown":                       {api.RemediationStatus{Phase: api.RemediationCancelled, Reason: "EvidenceStale", ActedAt: at}, "cancelled"},
		"refused":                       {api.RemediationStatus{Phase: api.RemediationCancelled, Reason: "RepairRefused", ActedAt: at}, "cancelled"},
	} {
		require.Equal(t, tc.want, became(&api.Remediation{Status: tc.status}), name)
	}
}

// heldRound is a round of a fleet in which one machine is held.
type heldRound struct {
	snapshot policy.Snapshot
	plan     policy.Plan
}

func held() heldRound {
	m := policy.Machine{Namespace: "fleet", Name: "m", UID: "u", Cluster: "shop", Node: "n"}
	return heldRound{
		policy.Snapshot{
			Cells:    []policy.Cell{{Name: "asia-1", Machines: []policy.Machine{m}}},
			Centrals: []policy.Central{{Name: "central-a", Unhealthy: []policy.NodeSample{{Cell: "asia-1", Cluster: "shop", Node: "n"}}}},
		},
		policy.Plan{Decisions: []policy.Decision{{Policy: "nodes", Cell: "asia-1", Machine: m, Verdict: policy.Hold}}},
	}
}

func TestAFindingEndsOnlyWhereItIsSeenToBeWell(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *heldRound)
		healed float64
		open   int
	}{
		"it is well":                {func(r *heldRound) { r.snapshot.Centrals[0].Unhealthy = nil }, 1, 0},
		"no policy selects it":      {func(*heldRound) {}, 0, 0},
		"it was taken away":         {func(r *heldRound) { r.snapshot.Centrals[0].Unhealthy, r.snapshot.Cells[0].Machines = nil, nil }, 0, 0},
		"its cell is not seen":      {func(r *heldRound) { r.snapshot.Centrals[0].Unhealthy, r.plan.Unseen = nil, []string{"asia-1"} }, 0, 1},
		"a repair was written down": {func(r *heldRound) { r.snapshot.Remediations = []api.Remediation{recordOf("1", false)} }, 0, 1},
		"a repair was asked for": {func(r *heldRound) {
			r.snapshot.Remediations = []api.Remediation{recordOf("1", true)}
			r.snapshot.Centrals[0].Unhealthy = nil
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e, now := newEffect(prometheus.NewRegistry(), time.Unix(1700000000, 0)), time.Now()
			r := held()
			e.round(nil, r.snapshot, r.plan, now)
			require.EqualValues(t, 1, testutil.ToFloat64(e.findings.WithLabelValues(becameDetected)))
			r = held()
			r.plan.Decisions = nil
			tc.change(&r)
			e.round(nil, r.snapshot, r.plan, now)
			require.Equal(t, tc.healed, testutil.ToFloat64(e.findings.WithLabelValues(becameSelfHealed)))
			require.Len(t, e.open, tc.open)
			require.EqualValues(t, 1, testutil.ToFloat64(e.findings.WithLabelValues(becameDetected)))
		})
	}
}

// recordOf is a record of the machine, open unless it was acted on.
func recordOf(uid string, acted bool) api.Remediation {
	rem := api.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)},
		Spec:       api.RemediationSpec{Target: api.RemediationTarget{Cell: "asia-1", Cluster: "shop", Node: "n", MachineUID: "u"}},
	}
	if acted {
		rem.Status = api.RemediationStatus{Phase: api.RemediationSucceeded, ActedAt: ptr.To(metav1.Now())}
	}
	return rem
}

// A policy tells of fifty holds. Of the others nobody knows whether they were counted.
func TestFindingsThatNobodyCouldRememberAreNotCountedAgain(t *testing.T) {
	e, r := newEffect(prometheus.NewRegistry(), time.Unix(1700000000, 0)), held()
	p := api.RemediationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Status: api.RemediationPolicyStatus{Held: 51, Holds: make([]api.HoldRecord, 50)}}
	e.round([]api.RemediationPolicy{p}, r.snapshot, r.plan, time.Now())
	require.Zero(t, testutil.ToFloat64(e.findings.WithLabelValues(becameDetected)))
	require.Len(t, e.open, 1)
}

// The time to repair is from the last that was heard of the node.
func TestTimeToRepair(t *testing.T) {
	e, heard := newEffect(prometheus.NewRegistry(), time.Unix(1700000000, 0)), time.Now().Add(-time.Hour).Truncate(time.Second)
	rem := recordOf("1", true)
	rem.Spec.Evidence.Signals = []api.SignalRecord{{Source: "node", ObservedAt: metav1.NewTime(heard.Add(time.Minute))}, {Source: "lease", ObservedAt: metav1.NewTime(heard)}}
	rem.Status.VerifiedAt = ptr.To(metav1.NewTime(heard.Add(10 * time.Minute)))
	for range 3 {
		e.round(nil, policy.Snapshot{Remediations: []api.Remediation{rem}}, policy.Plan{}, time.Now())
	}
	require.NoError(t, testutil.CollectAndCompare(e.repaired, strings.NewReader(`
# HELP pharos_remediator_time_to_repair_seconds From the last that was heard of a node until its repair was verified, of the repairs that the records tell of.
# TYPE pharos_remediator_time_to_repair_seconds histogram
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="60"} 0
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="120"} 0
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="300"} 0
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="600"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="900"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="1200"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="1800"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="2700"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="3600"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="7200"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="14400"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="43200"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="86400"} 1
pharos_remediator_time_to_repair_seconds_bucket{since="1700000000",le="+Inf"} 1
pharos_remediator_time_to_repair_seconds_sum{since="1700000000"} 600
pharos_remediator_time_to_repair_seconds_count{since="1700000000"} 1
`)))
}
