package scenario_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// plan is a decision with something wrong about it.
type plan func([]api.RemediationPolicy, policy.Snapshot, time.Time) policy.Plan

// reckless acts on everything that is held or deferred.
func reckless(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	p := policy.Decide(policies, s, now)
	for i := range p.Decisions {
		d := &p.Decisions[i]
		d.Verdict, d.Name = policy.Act, "reckless-"+d.Machine.Name+now.Format("-150405")
		d.Spec = api.RemediationSpec{
			PolicyName: d.Policy, Action: api.ActionReboot, Deadline: metav1.NewTime(now.Add(30 * time.Minute)),
			Target: api.RemediationTarget{
				Cell: d.Cell, Namespace: d.Machine.Namespace, Cluster: d.Machine.Cluster, Machine: d.Machine.Name,
				MachineUID: d.Machine.UID, Node: d.Machine.Node, HardwareID: d.Machine.HardwareID, ProviderID: d.Machine.ProviderID,
			},
		}
	}
	return p
}

// forgetful knows of no repair that was written down or asked for.
func forgetful(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	s.Remediations = nil
	for i := range s.Cells {
		for j := range s.Cells[i].Machines {
			s.Cells[i].Machines[j].Request, s.Cells[i].Machines[j].Response = nil, nil
		}
	}
	return reckless(policies, s, now)
}

// unheeding forgets all that was tried once a machine is handed to people.
func unheeding(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	if slices.ContainsFunc(s.Remediations, func(r api.Remediation) bool { return r.Status.Phase == api.RemediationEscalated }) {
		s.Remediations = nil
	}
	return policy.Decide(policies, s, now)
}

// sanguine takes what has helped for something else.
func sanguine(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	s.Remediations = slices.Clone(s.Remediations)
	for i := range s.Remediations {
		if s.Remediations[i].Status.Phase == api.RemediationSucceeded {
			s.Remediations[i].Spec.Action = api.ActionReplace
		}
	}
	return policy.Decide(policies, s, now)
}

// greedy takes an empty selection for everything.
func greedy(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	all := *policies[0].DeepCopy()
	all.Spec.MatchAll = api.MatchAllMachines
	return reckless([]api.RemediationPolicy{all}, s, now)
}

// presuming takes every repair for written down already.
func presuming(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	p := policy.Decide(policies, s, now)
	for i := range p.Decisions {
		p.Decisions[i].Recorded = true
	}
	return p
}

// deaf knows of no budget.
func deaf(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	s.Budgets = nil
	return policy.Decide(policies, s, now)
}

// unlimited overlooks that a policy is limited.
func unlimited(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	free := *policies[0].DeepCopy()
	free.Spec.Mode, free.Spec.Limit = api.ModeAct, api.PolicyLimit{}
	return policy.Decide([]api.RemediationPolicy{free}, s, now)
}

// bold takes what is proposed for decided.
func bold(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	p := policy.Decide(policies, s, now)
	for i := range p.Decisions {
		if p.Decisions[i].Verdict == policy.Propose {
			p.Decisions[i].Verdict = policy.Act
		}
	}
	return p
}

// stubborn hears no denial.
func stubborn(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	for i := range s.Remediations {
		delete(s.Remediations[i].Annotations, api.AnnotationDeniedBy)
		s.Remediations[i].Status.Denial = nil
	}
	return policy.Decide(policies, s, now)
}

// covetous takes a machine that is in use for a spare.
func covetous(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	p := policy.Decide(policies, s, now)
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Spec.Replacement != nil {
			m := s.Cells[0].Machines[19]
			d.Spec.Replacement = &api.ReplacementTarget{Machine: m.Name, MachineUID: m.UID, Node: m.Node, HardwareID: m.HardwareID, ProviderID: m.ProviderID}
		}
	}
	return p
}

// brash sees no cordon.
func brash(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	for i := range s.Clusters {
		for j := range s.Clusters[i].Nodes {
			s.Clusters[i].Nodes[j].Unschedulable = false
		}
	}
	return policy.Decide(policies, s, now)
}

// credulous believes of every machine that it is off.
func credulous(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	for i := range s.Cells {
		for j := range s.Cells[i].Machines {
			m := &s.Cells[i].Machines[j]
			m.PowerSeen = &api.PowerStatus{State: api.PowerOff, ObservedAt: metav1.NewTime(now), HardwareID: m.HardwareID}
		}
	}
	return policy.Decide(policies, s, now)
}

// careless ends repairs without a thought for the nodes that they cordoned.
func careless(policies []api.RemediationPolicy, s policy.Snapshot, now time.Time) policy.Plan {
	p := policy.Decide(policies, s, now)
	p.Uncordons = nil
	for i := range p.Updates {
		if u := &p.Updates[i]; u.Reason == policy.ReasonUncordoning {
			u.Phase = api.RemediationSucceeded
		}
	}
	return p
}

// TestInvariantsBite lets decisions that are broken on purpose loose on the fleet.
// The same days pass without a violation when the real ones are made.
func TestInvariantsBite(t *testing.T) {
	for rule, broken := range map[string]struct {
		decide plan
		days   string
	}{
		onePerCluster:  {reckless, "node shop-00 down; node shop-07 down; run 7m"},
		onePerMachine:  {forgetful, "operator asia away; node shop-00 down; run 7m"},
		tooMuch:        {reckless, "rack asia/rack-1 down; run 7m"},
		noEvidence:     {reckless, "node shop-00 down; central b gone; run 7m"},
		notConfirmed:   {reckless, "observer asia broken; run 1m"},
		notSelected:    {greedy, "policy empty; node shop-00 down; run 7m"},
		notRecorded:    {presuming, "node shop-00 down; run 7m"},
		wasPaused:      {reckless, "node shop-00 paused; node shop-00 down; run 7m"},
		tooSoon:        {reckless, "node shop-00 down; run 10m; node shop-00 down; run 7m"},
		hadFailed:      {reckless, "operator asia fails; node shop-00 down; run 90m"},
		leftToPeople:   {unheeding, "operator asia fails; node shop-00 down; run 90m"},
		tooOften:       {sanguine, strings.Repeat("node shop-00 down; run 2h; ", 4) + "run 10m"},
		overBudget:     {deaf, "fleet asia mall 4x5; budget b {level: Cell, maxUnavailable: 1}; node shop-00 down; node mall-00 down; run 7m"},
		overInFlight:   {reckless, "fleet asia mall 4x5; budget b {level: Geography, names: [asia], maxInFlight: 1}; node shop-00 down; node mall-00 down; run 7m"},
		overWave:       {reckless, "fleet asia mall 4x5; node shop-00 down; node mall-00 down; run 7m"},
		pastLimit:      {unlimited, "fleet europe bank 4x5; policy limited; node shop-00 down; run 15m; node bank-00 down; run 7m"},
		inIncident:     {heedless, "rack asia/rack-1 down; run 8m; node shop-00 up; node shop-01 up; node shop-02 up; node shop-03 up; run 2m"},
		notApproved:    {bold, "policy asks; node shop-00 down; run 7m"},
		wasDenied:      {stubborn, "policy asks; node shop-00 down; run 7m; person shop-00 approves; person shop-00 denies; run 7m"},
		noSpare:        {covetous, "spare shop spare-1; policy replaces; node shop-00 dead; run 7m"},
		evictedUnasked: {brash, "policy drains; node shop-00 cordoned; node shop-00 down; run 7m"},
		fencedUnproven: {credulous, "policy drains; node shop-00 keeps; node shop-00 down; run 20m"},
		leftCordoned:   {careless, "policy drains; node shop-00 down; run 12m; judge cordons"},
		wasFrozen:      {deaf, "budget b {level: Fleet, freeze: Now, reason: drill}; node shop-00 down; run 7m"},
	} {
		t.Run(strings.ReplaceAll(rule, " ", "-"), func(t *testing.T) {
			require.Contains(t, strings.Join(lived(remediator{decide: broken.decide, confirm: blind, writes: -1}, broken.days), "\n"), rule+", ")
			require.Empty(t, lived(newRemediator(), broken.days))
		})
	}
}

// lived returns the violations of some bad days.
func lived(r remediator, days string) []string {
	f := newFleet()
	f.addCluster("asia", "shop", 4, 5)
	f.remediator = r
	for line := range strings.SplitSeq(days, ";") {
		f.must(strings.TrimSpace(line))
	}
	return f.violations
}

// blind is a last look that sees nothing.
func blind(_ policy.Decision, _ policy.Fresh, now time.Time) policy.Confirmation {
	return policy.Confirmation{StartBefore: now.Add(time.Minute)}
}
