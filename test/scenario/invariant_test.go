package scenario_test

import (
	"fmt"
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// What must never happen, whatever goes wrong in whatever order.
const (
	onePerCluster = "two repairs in one cluster"
	onePerMachine = "two repairs of one machine"
	tooMuch       = "a repair where more than a fifth is unhealthy"
	noEvidence    = "a repair without fresh evidence from both centrals"
	notConfirmed  = "a repair that the live node does not confirm"
	notSelected   = "a repair that no selection covers"
	notRecorded   = "a repair without a record before it"
	wasPaused     = "a repair of what is paused"
	tooSoon       = "a repair within the cooldown"
	hadFailed     = "a repair after one that failed and was no milder"
	leftToPeople  = "a repair of what was handed to people"
	tooOften      = "a repair that has helped too often"
	pastLimit     = "a repair beyond the policy's limit"
)

// The limits of a policy that says nothing of them, as the API documents them.
const (
	maxAge   = time.Minute
	maxSkew  = 5 * time.Second
	dwell    = 5 * time.Minute
	cooldown = time.Hour
)

func (f *fleet) violate(rule, format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf("%s, %s in: %s", rule, f.now.Sub(f.start), fmt.Sprintf(format, args...)))
}

// judge is asked just before a request is written, right or wrong.
func (f *fleet) judge(m *machine, d policy.Decision) {
	rem := f.record(d.Name)
	if rem == nil || rem.Spec.Target.MachineUID != m.UID || phase(rem).Final() {
		f.violate(notRecorded, "%s is asked of %s", d.Name, m.Name)
	}
	if m.Request != nil || m.job != nil {
		f.violate(onePerMachine, "%s is asked of %s, which has another", d.Name, m.Name)
	}
	f.judgeEvidence(m)
	f.judgeLive(m)
	f.judgeSelection(m, &f.policies[0])
	f.judgeConsent(m, rem, &f.policies[0])
	f.judgeLimit(m, &f.policies[0])
	f.judgePause(m, &f.policies[0])
	f.judgeShare(m)
	f.judgeBudgets(m)
	f.judgePast(m, d.Spec.Action)
	f.judgeAttempts(m, d.Spec.Action, &f.policies[0])
	f.judgeIncidents(m)
}

// judgeEvidence looks at what each central really has of the machine.
func (f *fleet) judgeEvidence(m *machine) {
	names := map[string]bool{}
	for _, c := range f.centrals {
		a := f.answer(c)
		names[a.Replica] = true
		if !f.accuses(a, m) {
			f.violate(noEvidence, "%s says nothing of the kind of %s", a.Name, m.Name)
		}
	}
	if len(names) < 2 || (f.ahead["centrals"]-f.ahead["hub"]).Abs() > maxSkew || f.ahead["hub"].Abs() > maxSkew {
		f.violate(noEvidence, "%d centrals, and clocks apart by %s, for %s", len(names), f.ahead["hub"], m.Name)
	}
}

// accuses says whether a central lists the node freshly, in a cluster that is seen.
func (f *fleet) accuses(a policy.Central, m *machine) bool {
	listed := slices.ContainsFunc(a.Unhealthy, func(s policy.NodeSample) bool {
		return s.Cell == m.cell && s.Node == m.Node && f.now.Sub(s.At) <= maxAge
	})
	up := slices.ContainsFunc(a.ClustersUp, func(s policy.ClusterSample) bool {
		return s.Cell == m.cell && s.Cluster == m.Cluster && s.Up && f.now.Sub(s.At) <= maxAge
	})
	return a.Err == "" && len(a.Warnings) == 0 && listed && up
}

func (f *fleet) judgeLive(m *machine) {
	unread := f.state["cluster "+m.Cluster] == "unreachable"
	m.unready = slices.DeleteFunc(m.unready, func(at time.Time) bool { return f.now.Sub(at) > policy.UnreadyWindow })
	short := f.now.Sub(m.since) < dwell && step*time.Duration(len(m.unready)) < policy.UnreadyWindow*3/10
	if unread || m.alive || m.ready == "True" || m.cordoned || short || f.now.Sub(m.renewed) < leaseTime {
		f.violate(notConfirmed, "%s is alive: %t, Ready=%s for %s", m.Name, m.alive, m.ready, f.now.Sub(m.since))
	}
}

func (f *fleet) judgeSelection(m *machine, p *api.RemediationPolicy) {
	some := len(p.Spec.Cells)+len(p.Spec.Pools) > 0 &&
		(len(p.Spec.Cells) == 0 || slices.Contains(p.Spec.Cells, m.cell)) &&
		(len(p.Spec.Pools) == 0 || slices.Contains(p.Spec.Pools, m.Pool))
	if !slices.Contains([]api.PolicyMode{api.ModeApprove, api.ModeActLimited, api.ModeAct}, p.Spec.Mode) ||
		p.Spec.MatchAll != api.MatchAllMachines && !some {
		f.violate(notSelected, "%s by policy %s", m.Name, p.Name)
	}
}

// judgeLimit counts what was really asked for, whatever is written down of it.
func (f *fleet) judgeLimit(m *machine, p *api.RemediationPolicy) {
	if p.Spec.Mode != api.ModeActLimited {
		return
	}
	n := 0
	for _, at := range f.asked {
		if f.now.Sub(at) < 24*time.Hour {
			n++
		}
	}
	if p.Spec.Limit.PerDay == nil || n >= int(*p.Spec.Limit.PerDay) {
		f.violate(pastLimit, "%s after %d", m.Name, n)
	}
}

func (f *fleet) judgePause(m *machine, p *api.RemediationPolicy) {
	_, marked := p.Annotations[api.AnnotationPaused]
	if marked || m.Paused || f.state["cell "+m.cell] == "paused" || f.state["cluster "+m.Cluster] == "paused" {
		f.violate(wasPaused, "%s", m.Name)
	}
}

// judgeShare counts the dead by the truth, save those that nobody can know of yet.
func (f *fleet) judgeShare(m *machine) {
	var cluster, rack, badInCluster, badInRack int
	for _, o := range f.machines {
		if o.cell != m.cell || !o.InUse {
			continue
		}
		bad := 0
		if f.repairing(o) || !o.alive && f.now.Sub(o.changed) >= time.Minute {
			bad = 1
		}
		if o.Cluster == m.Cluster {
			cluster, badInCluster = cluster+1, badInCluster+bad
		}
		if o.Rack == m.Rack {
			rack, badInRack = rack+1, badInRack+bad
		}
	}
	// One is always allowed, so that small racks are repaired at all.
	if badInCluster > max(1, cluster/5) || badInRack > max(1, rack/5) {
		f.violate(tooMuch, "%s: %d of %d in its cluster, %d of %d in its rack", m.Name, badInCluster, cluster, badInRack, rack)
	}
}

// repairing says whether a repair of the machine is asked for, runs or is to be verified.
func (f *fleet) repairing(m *machine) bool {
	return m.Request != nil || m.job != nil || slices.ContainsFunc(f.records, func(r *api.Remediation) bool {
		return r.Spec.Target.MachineUID == m.UID && !phase(r).Final() && phase(r) != api.RemediationPending && phase(r) != api.RemediationProposed
	})
}

// judgePast lets a step follow one that failed without a pause, and nothing else.
func (f *fleet) judgePast(m *machine, action api.RemediationAction) {
	follows := false
	for _, rem := range f.records {
		if rem.Spec.Target.HardwareID != m.HardwareID || rem.Annotations[policy.AnnotationAcknowledged] == "true" {
			continue
		}
		switch phase(rem) {
		case api.RemediationEscalated:
			f.violate(leftToPeople, "%s after %s", m.Name, f.alias(rem.Name))
		case api.RemediationFailed:
			follows = true
			f.judgeStep(rem, action)
		case api.RemediationSucceeded:
			follows = false
		}
	}
	if left := f.now.Sub(m.touched); !m.touched.IsZero() && left < cooldown && !follows {
		f.violate(tooSoon, "%s was touched %s ago", m.Name, left)
	}
}

// judgeStep lets only something harsher follow what has failed within a day.
func (f *fleet) judgeStep(failed *api.Remediation, action api.RemediationAction) {
	order := []api.RemediationAction{api.ActionRestartComponent, api.ActionReboot, api.ActionReinstall, api.ActionReplace}
	milder := slices.Index(order, failed.Spec.Action) >= slices.Index(order, action)
	if milder && f.now.Sub(failed.Status.EndedAt.Time) < 24*time.Hour {
		f.violate(hadFailed, "%s after %s", action, f.alias(failed.Name))
	}
}

// judgeAttempts counts what has helped for a while, by the node operator's own account.
func (f *fleet) judgeAttempts(m *machine, action api.RemediationAction, p *api.RemediationPolicy) {
	most := 3
	for _, s := range p.Spec.Escalation {
		if s.Action == action && s.Attempts != nil {
			most = int(*s.Attempts)
		}
	}
	n := 0
	for _, rem := range f.records {
		if rem.Spec.Target.HardwareID == m.HardwareID && rem.Spec.Action == action && phase(rem) == api.RemediationSucceeded &&
			rem.Annotations[policy.AnnotationAcknowledged] != "true" && f.now.Sub(rem.Status.EndedAt.Time) < 24*time.Hour {
			n++
		}
	}
	if n >= most {
		f.violate(tooOften, "%s of %s after %d that helped", action, m.Name, n)
	}
}

// judgeStanding is asked after each step and each round.
func (f *fleet) judgeStanding() {
	f.judgeOneOfEach()
	busy, open := map[string]string{}, map[string]string{}
	for _, m := range f.machines {
		if m.Request != nil && f.record(m.Request.ID) == nil {
			f.violate(notRecorded, "%s stands on %s", m.Request.ID, m.Name)
		}
		cluster := m.cell + "/" + m.Cluster
		if other := busy[cluster]; f.repairing(m) && other != "" {
			f.violate(onePerCluster, "%s and %s in %s", other, m.Name, cluster)
		} else if f.repairing(m) {
			busy[cluster] = m.Name
		}
	}
	f.judgeProposals()
	for _, rem := range f.records {
		uid := rem.Spec.Target.MachineUID
		if phase(rem).Final() || phase(rem) == api.RemediationProposed {
			continue
		}
		if open[uid] != "" {
			f.violate(onePerMachine, "%s and %s are open", f.alias(open[uid]), f.alias(rem.Name))
		}
		open[uid] = rem.Name
	}
}
