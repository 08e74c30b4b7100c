package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// Case C06: an empty selection is refused.
// What cannot be meant is refused by the API server itself, with the reason.
func TestAPIServerRefuses(t *testing.T) {
	c, err := client.New(testkit.APIServer(t), client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		object client.Object
		want   string // empty: accepted
	}{
		"a budget":             {budget(func(*v1alpha1.FleetDisruptionBudgetSpec) {}), ""},
		"a budget of nothing":  {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) { s.MaxInFlight = nil }), "a budget without any figure would allow everything"},
		"a budget of no level": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) { s.Level = "" }), "spec.level"},
		"a budget that lets everything be down": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) {
			s.MaxUnavailablePercent = ptr.To(int32(100))
		}), "maxUnavailablePercent"},
		"a budget of any pace":       {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) { s.MaxInFlight = ptr.To(int32(100000)) }), "maxInFlight"},
		"a budget of some fleets":    {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) { s.Level, s.Names = v1alpha1.BudgetFleet, []string{"a"} }), "there is one fleet"},
		"a budget of cells in cells": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) { s.Cells = []string{"a"} }), "names its cells in names"},
		"a budget of pools in cells": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) { s.Level, s.Cells = v1alpha1.BudgetPool, []string{"a"} }), ""},
		"a pool that begins slowly": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) {
			s.Level, s.SlowStart, s.MaxInFlight = v1alpha1.BudgetPool, v1alpha1.SlowStartDoubling, nil
		}), "a pool begins slowly only where maxInFlight says up to what"},
		"a freeze without a reason": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) { s.Freeze = v1alpha1.Now }), "whoever freezes repairs says why"},
		"a freeze with a reason":    {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) { s.Freeze, s.Reason = v1alpha1.Now, "storm" }), ""},
		"a freeze that ends before it begins": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) {
			s.Freezes = []v1alpha1.FreezeWindow{{From: metav1.Unix(2000, 0), Until: metav1.Unix(2000, 0), Reason: "sale"}}
		}), "a freeze ends after it has begun"},
		"a freeze of a while": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) {
			s.Freezes = []v1alpha1.FreezeWindow{{From: metav1.Unix(2000, 0), Until: metav1.Unix(2001, 0), Reason: "sale"}}
		}), ""},
		"a budget of storms": {budget(func(s *v1alpha1.FleetDisruptionBudgetSpec) {
			s.MaxInFlight, s.StormCooldownSeconds = nil, ptr.To(int32(600))
		}), ""},
		"an incident":                        {incident(func(*v1alpha1.IncidentSpec) {}), ""},
		"an incident of no kind":             {incident(func(s *v1alpha1.IncidentSpec) { s.Kind = "" }), "spec.kind"},
		"an incident nowhere":                {incident(func(s *v1alpha1.IncidentSpec) { s.Cells = nil }), "spec.cells"},
		"an incident of a rack in a zone":    {incident(func(s *v1alpha1.IncidentSpec) { s.Zone = "zone-a" }), ""},
		"an incident of a cell in a zone":    {incident(func(s *v1alpha1.IncidentSpec) { s.Kind, s.Zone = v1alpha1.IncidentCell, "zone-a" }), "zone stands with the kinds Rack, Switch and Power"},
		"an incident of a pool of nothing":   {incident(func(s *v1alpha1.IncidentSpec) { s.Kind = v1alpha1.IncidentPool }), "cluster stands with the kind Pool"},
		"an incident of a rack in two cells": {incident(func(s *v1alpha1.IncidentSpec) { s.Cells = []string{"a", "b"} }), "only a zone with a region may be in several cells"},
		"an incident of a zone in two cells": {incident(func(s *v1alpha1.IncidentSpec) {
			s.Kind, s.Region, s.Cells = v1alpha1.IncidentZone, "east", []string{"a", "b"}
		}), ""},
		"a policy that selects nothing": {policy(func(s *v1alpha1.RemediationPolicySpec) { s.Pools = nil }), "an empty selection is not everything"},
		"a policy with empty lists": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Pools, s.Cells = []string{}, []string{}
		}), "an empty selection is not everything"},
		"a policy of everything and something": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.MatchAll = v1alpha1.MatchAllMachines
		}), "matchAll stands alone"},
		"a policy of everything": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Pools, s.MatchAll = nil, v1alpha1.MatchAllMachines
		}), ""},
		"an escalation": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionRestartComponent, v1alpha1.ActionReboot, v1alpha1.ActionReinstall)
		}), ""},
		"an escalation to a spare": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionRestartComponent, v1alpha1.ActionReboot, v1alpha1.ActionReinstall, v1alpha1.ActionReplace)
			s.Escalation[3].SparePool = "reserve"
		}), ""},
		"a spare of what is not replaced": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionReboot)
			s.Escalation[0].SparePool = "reserve"
		}), "sparePool belongs to Replace"},
		"a replacement and something after it": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionReplace, v1alpha1.ActionReinstall)
		}), "from the mildest to the most destructive"},
		"an escalation that says its end": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionReboot, v1alpha1.ActionEscalate)
		}), "it is what always comes after the last step"},
		"an escalation that becomes milder": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionReinstall, v1alpha1.ActionReboot)
		}), "from the mildest to the most destructive"},
		"an escalation that repeats itself": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionReboot, v1alpha1.ActionReboot)
		}), "Duplicate value"},
		"an escalation without end": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionReboot)
			s.Escalation[0].Attempts = ptr.To(int32(1000))
		}), "spec.escalation[0].attempts"},
		"an escalation that forgets at once": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.EscalationWindowSeconds = ptr.To(int32(60))
		}), "spec.escalationWindowSeconds"},
		"a step that leaves its check no time": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Escalation = steps(v1alpha1.ActionReboot)
			s.Escalation[0].TimeoutSeconds = ptr.To(int32(150))
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{Image: "check:1"}
		}), "a node check must end before the deadline of each step"},
		"a gate that lets everything through": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.MaxUnhealthyPercent = ptr.To(int32(100))
		}), "maxUnhealthyPercent"},
		"a limit of nothing": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Limit.PerDay = ptr.To(int32(3))
		}), "limit belongs to mode ActLimited"},
		"a mode without its limit": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode = v1alpha1.ModeActLimited
		}), "limit belongs to mode ActLimited"},
		"a limit that limits to nothing": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Limit.PerDay = v1alpha1.ModeActLimited, ptr.To(int32(0))
		}), "spec.limit.perDay"},
		"a mode with its limit": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Limit.PerDay = v1alpha1.ModeActLimited, ptr.To(int32(3))
		}), ""},
		"a limit up to what nobody does": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Limit = v1alpha1.ModeActLimited, v1alpha1.PolicyLimit{PerDay: ptr.To(int32(3)), Action: v1alpha1.ActionEscalate}
		}), "handing a machine to people is never limited"},
		"a limit up to a reboot": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Limit = v1alpha1.ModeActLimited, v1alpha1.PolicyLimit{PerDay: ptr.To(int32(3)), Action: v1alpha1.ActionReboot}
		}), ""},
		"an approval that nobody asks for": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Approval.ExpiresSeconds = ptr.To(int32(600))
		}), "approval belongs to mode Approve"},
		"an approval of what is only recommended": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Approval.ExpiresSeconds = v1alpha1.ModeRecommend, ptr.To(int32(600))
		}), "approval belongs to mode Approve"},
		"an approval in no time": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Approval.ExpiresSeconds = v1alpha1.ModeApprove, ptr.To(int32(59))
		}), "spec.approval.expiresSeconds"},
		"an approval at any time": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Approval.ExpiresSeconds = v1alpha1.ModeApprove, ptr.To(int32(86401))
		}), "spec.approval.expiresSeconds"},
		"an approval with a limit": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Limit.PerDay = v1alpha1.ModeApprove, ptr.To(int32(3))
		}), "limit belongs to mode ActLimited"},
		"an approval": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Mode, s.Approval.ExpiresSeconds = v1alpha1.ModeApprove, ptr.To(int32(600))
		}), ""},
		"an approval in the usual time": {policy(func(s *v1alpha1.RemediationPolicySpec) { s.Mode = v1alpha1.ModeApprove }), ""},
		"a recommendation":              {policy(func(s *v1alpha1.RemediationPolicySpec) { s.Mode = v1alpha1.ModeRecommend }), ""},
		"a record of what was observed": {recordOf(func(s *v1alpha1.RemediationSpec) { s.Mode = v1alpha1.ModeObserve }), "mode Observe has nothing to record"},
		"an act that expires":           {recordOf(func(s *v1alpha1.RemediationSpec) { s.ExpiresAt = ptr.To(metav1.Now()) }), "expiresAt belongs to a proposal of mode Approve"},
		"a proposal that never expires": {recordOf(func(s *v1alpha1.RemediationSpec) { s.Mode = v1alpha1.ModeApprove }), "expiresAt belongs to a proposal of mode Approve"},
		"a proposal": {recordOf(func(s *v1alpha1.RemediationSpec) {
			s.Mode, s.ExpiresAt = v1alpha1.ModeApprove, ptr.To(metav1.Now())
		}), ""},
		"a mode that does not exist": {policy(func(s *v1alpha1.RemediationPolicySpec) { s.Mode = "Yes" }), "spec.mode"},
		"a node check": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{Image: "check:1", Command: []string{"/check"}, Args: []string{"--all"}}
		}), ""},
		"a node check of nothing": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{}
		}), "spec.verification.nodeCheck.image"},
		"a node check whose image is no image": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{Image: "check 1"}
		}), "spec.verification.nodeCheck.image"},
		"a node check that takes as long as the repair may": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.TimeoutSeconds = ptr.To(int32(120))
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{Image: "check:1", TimeoutSeconds: ptr.To(int32(120))}
		}), "a node check must end before the repair's deadline"},
		"a node check that leaves the repair no time": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.TimeoutSeconds = ptr.To(int32(179))
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{Image: "check:1", TimeoutSeconds: ptr.To(int32(120))}
		}), "at least 60 less than timeoutSeconds"},
		"a node check that may take longer than the repair, unsaid": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.TimeoutSeconds = ptr.To(int32(120))
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{Image: "check:1"}
		}), "a node check must end before the repair's deadline"},
		"a node check that takes a day": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.TimeoutSeconds = ptr.To(int32(86400))
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{Image: "check:1", TimeoutSeconds: ptr.To(int32(3601))}
		}), "spec.verification.nodeCheck.timeoutSeconds"},
		"a node check that says too much": {policy(func(s *v1alpha1.RemediationPolicySpec) {
			s.Verification.NodeCheck = &v1alpha1.NodeCheckPod{Image: "check:1", Args: make([]string, 33)}
		}), "spec.verification.nodeCheck.args"},
		"an external edge nowhere": {cell(func(s *v1alpha1.CellSpec) {
			s.Edge.Mode = v1alpha1.EdgeExternal
		}), "an External edge needs edge.endpoints"},
		"an external edge somewhere": {cell(func(s *v1alpha1.CellSpec) {
			s.Edge = v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, Endpoints: []string{"edge.example.org:9090"}}
		}), ""},
		"a request that hands a machine to people": {machine(v1alpha1.ActionEscalate), "by a record, not by a request"},
		"a request":                {machine(v1alpha1.ActionReinstall), ""},
		"a cell without geography": {cell(func(s *v1alpha1.CellSpec) { s.Geography = "" }), "spec.geography"},
		"a federation without geography": {&v1alpha1.Federation{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "f-"},
			Spec:       v1alpha1.FederationSpec{Retention: "48h"},
		}, "spec.geographies"},
		"an interval longer than the look-back allows": {&v1alpha1.Federation{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "f-"},
			Spec: v1alpha1.FederationSpec{
				Geographies: []v1alpha1.Geography{{Name: "asia"}}, IntervalSeconds: ptr.To(int32(41)),
			},
		}, "spec.intervalSeconds"},
		"a geography that is no name": {&v1alpha1.Federation{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "f-"},
			Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: `a"b{}`}}},
		}, "spec.geographies[0].name"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), tc.object)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, tc.want)
		})
	}
	t.Run("a changed record", func(t *testing.T) {
		r := record()
		require.NoError(t, c.Create(t.Context(), r))
		r.Spec.Reason = "another reason"
		require.ErrorContains(t, c.Update(t.Context(), r), "is a record and cannot be changed")
	})
}

func policy(change func(*v1alpha1.RemediationPolicySpec)) client.Object {
	p := &v1alpha1.RemediationPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
		Spec:       v1alpha1.RemediationPolicySpec{Mode: v1alpha1.ModeAct, Pools: []string{"workers"}},
	}
	change(&p.Spec)
	return p
}

func steps(actions ...v1alpha1.RemediationAction) []v1alpha1.EscalationStep {
	all := make([]v1alpha1.EscalationStep, 0, len(actions))
	for _, a := range actions {
		all = append(all, v1alpha1.EscalationStep{Action: a})
	}
	return all
}

func machine(asked v1alpha1.RemediationAction) client.Object {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "m-", Namespace: "default"},
		Spec: v1alpha1.MachineSpec{
			ClusterName: "shop",
			Remediation: &v1alpha1.RemediationRequest{ID: "r-1", Action: asked, StartBefore: metav1.Now(), Deadline: metav1.Now()},
		},
	}
}

func budget(change func(*v1alpha1.FleetDisruptionBudgetSpec)) client.Object {
	b := &v1alpha1.FleetDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"},
		Spec:       v1alpha1.FleetDisruptionBudgetSpec{Level: v1alpha1.BudgetCell, MaxInFlight: ptr.To(int32(2))},
	}
	change(&b.Spec)
	return b
}

func cell(change func(*v1alpha1.CellSpec)) client.Object {
	c := &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"},
		Spec:       v1alpha1.CellSpec{Geography: "asia", Region: "asia-east", KubeconfigSecret: "asia-1"},
	}
	change(&c.Spec)
	return c
}

func record() *v1alpha1.Remediation {
	now := metav1.Now()
	return &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"},
		Spec: v1alpha1.RemediationSpec{
			PolicyName: "workers",
			Target: v1alpha1.RemediationTarget{
				Cell: "asia-1", Namespace: "fleet", Cluster: "shop", Machine: "m", MachineUID: "u", Node: "n",
			},
			Action: v1alpha1.ActionReboot, Reason: "not ready", Deadline: now,
			Evidence: v1alpha1.Evidence{
				AgreedAt: now,
				Signals:  []v1alpha1.SignalRecord{{Source: "node", ObservedAt: now, Says: "Ready=Unknown"}},
			},
			Gate: v1alpha1.GateRecord{ClusterMachines: 20, ClusterUnhealthy: 1, RackMachines: 5, RackUnhealthy: 1},
		},
	}
}

func recordOf(change func(*v1alpha1.RemediationSpec)) client.Object {
	r := record()
	change(&r.Spec)
	return r
}

// A proposal of which nothing else is known is never taken for an act.
func TestPhaseThatIsUnset(t *testing.T) {
	for mode, want := range map[v1alpha1.PolicyMode]v1alpha1.RemediationPhase{
		"": v1alpha1.RemediationPending, v1alpha1.ModeAct: v1alpha1.RemediationPending, v1alpha1.ModeActLimited: v1alpha1.RemediationPending,
		v1alpha1.ModeRecommend: v1alpha1.RemediationProposed, v1alpha1.ModeApprove: v1alpha1.RemediationProposed,
	} {
		r := v1alpha1.Remediation{Spec: v1alpha1.RemediationSpec{Mode: mode}}
		require.Equal(t, want, r.CurrentPhase(), string(mode))
		r.Status.Phase = v1alpha1.RemediationActing
		require.Equal(t, v1alpha1.RemediationActing, r.CurrentPhase(), string(mode))
	}
}

func TestADeadlineIsNeverLaterThanTheRecordSays(t *testing.T) {
	r := v1alpha1.Remediation{Spec: v1alpha1.RemediationSpec{Deadline: metav1.Unix(100, 0)}}
	require.Equal(t, metav1.Unix(100, 0), r.CurrentDeadline())
	r.Status.Deadline = ptr.To(metav1.Unix(101, 0))
	require.Equal(t, metav1.Unix(100, 0), r.CurrentDeadline())
	r.Status.Deadline = ptr.To(metav1.Unix(99, 0))
	require.Equal(t, metav1.Unix(99, 0), r.CurrentDeadline())
}

func TestResultsOfNodeChecksThatAreFinal(t *testing.T) {
	for result, ended := range map[v1alpha1.NodeCheckResult]bool{
		"":                        false,
		v1alpha1.NodeCheckPending: false,
		v1alpha1.NodeCheckRunning: false,
		v1alpha1.NodeCheckPass:    true,
		v1alpha1.NodeCheckFail:    true,
		v1alpha1.NodeCheckTimeout: true,
		v1alpha1.NodeCheckNotRun:  true,
	} {
		require.Equal(t, ended, result.Ended(), string(result))
	}
}

func TestPhasesThatAreFinal(t *testing.T) {
	for phase, final := range map[v1alpha1.RemediationPhase]bool{
		"":                            false,
		v1alpha1.RemediationProposed:  false,
		v1alpha1.RemediationPending:   false,
		v1alpha1.RemediationActing:    false,
		v1alpha1.RemediationVerifying: false,
		v1alpha1.RemediationSucceeded: true,
		v1alpha1.RemediationFailed:    true,
		v1alpha1.RemediationCancelled: true,
		v1alpha1.RemediationEscalated: true,
	} {
		require.Equal(t, final, phase.Final(), string(phase))
	}
}

func incident(change func(*v1alpha1.IncidentSpec)) *v1alpha1.Incident {
	in := &v1alpha1.Incident{ObjectMeta: metav1.ObjectMeta{GenerateName: "incident-"}, Spec: v1alpha1.IncidentSpec{
		Kind: v1alpha1.IncidentRack, Value: "rack-1", Cells: []string{"asia-1"}, MaxUnhealthyPercent: ptr.To(int32(20))}}
	change(&in.Spec)
	return in
}

// An incident is of what it was opened for, for good.
func TestAnIncidentsSuspectNeverChanges(t *testing.T) {
	c, err := client.New(testkit.APIServer(t), client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	in := incident(func(*v1alpha1.IncidentSpec) {})
	require.NoError(t, c.Create(t.Context(), in))
	in.Spec.Value = "rack-2"
	require.ErrorContains(t, c.Update(t.Context(), in), "is a record and cannot be changed")
}
