package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const (
	inIncident = "a repair in what has an incident"
	twice      = "two incidents of one suspect"
)

// stormCooldown is how long an incident must have recovered, as the API documents it.
const stormCooldown = 5 * time.Minute

// writeIncidents does what a plan says of incidents; one that begins is of two writes.
func (f *fleet) writeIncidents(plan policy.Plan) {
	for _, r := range plan.Incidents {
		i := slices.IndexFunc(f.incidents, func(in api.Incident) bool { return in.Name == r.Name })
		if i < 0 && r.New && f.write(func() {
			f.incidents = append(f.incidents, api.Incident{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec})
		}) {
			i = len(f.incidents) - 1
		} else if i < 0 || r.New {
			continue
		}
		before := f.incidents[i].Status.Phase
		if f.write(func() { f.incidents[i].Status = r.Status }) && before != r.Status.Phase {
			f.say("incident of %s %s: %s, %d of %d", r.Spec.Kind, r.Spec.Value, r.Status.Phase, r.Status.Affected, r.Status.Domain)
		}
	}
}

// judgeIncidents is asked just before a request is written.
func (f *fleet) judgeIncidents(m *machine) {
	for _, in := range f.incidents {
		if in.Status.Phase != api.IncidentClosed && covers(in.Spec, m) {
			f.violate(inIncident, "%s is in %s %s, which is %s", m.Name, in.Spec.Kind, in.Spec.Value, in.Status.Phase)
		}
	}
}

// judgeOneOfEach is asked in each round.
func (f *fleet) judgeOneOfEach() {
	for i, in := range f.incidents {
		for _, other := range f.incidents[:i] {
			if in.Status.Phase != api.IncidentClosed && other.Status.Phase != api.IncidentClosed &&
				in.Spec.Kind == other.Spec.Kind && in.Spec.Value == other.Spec.Value && slices.Equal(in.Spec.Cells, other.Spec.Cells) && in.Spec.Cluster == other.Spec.Cluster {
				f.violate(twice, "%s and %s are of %s %s", other.Name, in.Name, in.Spec.Kind, in.Spec.Value)
			}
		}
	}
}

func covers(s api.IncidentSpec, m *machine) bool {
	if !slices.Contains(s.Cells, m.cell) {
		return false
	}
	switch s.Kind {
	case api.IncidentRack:
		return s.Value == m.Rack
	case api.IncidentPool:
		return s.Value == m.Pool && s.Cluster == m.Cluster
	case api.IncidentClusterControlPath:
		return s.Value == m.Cluster
	default: // no scenario has switches or power feeds, and there is one zone in each cell
		return true
	}
}

// heedless reads no incidents.
func heedless(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	s.Incidents = nil
	return policy.Decide(policies, s, now)
}

// Case C16: the days of a storm.
// TestC16_AStormThatEndsShootsNobody lets a rack recover one by one. The last of its
// machines stays down, and is repaired when the storm has been over for long enough.
func TestC16_AStormThatEndsShootsNobody(t *testing.T) {
	f := newFleet()
	f.addCluster("asia", "shop", 6, 5)
	f.must("rack asia/rack-2 down")
	f.must("run 15m")
	for _, name := range []string{"shop-05", "shop-06", "shop-07", "shop-08"} {
		f.must("node " + name + " up")
		f.must("run 1m")
	}
	recovered := f.now.Add(-time.Minute)
	require.Empty(t, f.asked)
	for len(f.asked) == 0 && f.now.Before(recovered.Add(time.Hour)) {
		f.must("run 10s")
	}
	require.Empty(t, f.violations)
	require.NotEmpty(t, f.asked, "what stays down is repaired in the end")
	require.GreaterOrEqual(t, f.asked[0].Sub(recovered), stormCooldown)
	require.NoError(t, f.settle())
	require.Len(t, f.asked, 1)
}
