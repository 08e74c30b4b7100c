package scenario_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// maxRounds is how many rounds a fleet that is left in peace may take until every
// repair has ended.
const maxRounds = 1080

// trouble lists, by kind of part, what can be wrong with one.
func trouble() map[string][]string {
	return map[string][]string{
		"central":  {"ok", "stale", "gone", "partial", "disagrees", "twin"},
		"cell":     {"ok", "dark", "unlisted", "paused"},
		"cluster":  {"ok", "unreachable", "unseen", "paused"},
		"observer": {"ok", "broken"},
		"operator": {"ok", "away", "fails", "slow"},
	}
}

// command is one line of a script: a kind, mostly a name, and what happens to it.
func (f *fleet) command(line string) error {
	words := append(strings.Fields(line), "", "", "", "")
	kind, name, what := words[0], words[1], words[2]
	if slices.Contains(trouble()[kind], what) {
		f.state[kind+" "+name] = what
		return nil
	}
	run, ok := map[string]func() error{
		"fleet":  func() error { return f.grow(name, what, words[3]) },
		"node":   func() error { return f.strike(f.machine(name), what) },
		"spare":  func() error { return f.addSpare(name, what) },
		"person": func() error { return f.person(name, what) },
		"rack":   func() error { return f.strikeRack(name, what) },
		"policy": func() error { return f.set(&f.policies[0], name) },
		"budget": func() error { return f.setBudget(name, strings.TrimPrefix(line, "budget "+name)) },
		"clock": func() error {
			ahead, err := time.ParseDuration(what)
			f.ahead[name] = ahead
			return err
		},
		"tick":       func() error { return f.pass(name, f.step) },
		"run":        func() error { return f.pass(name, f.step, f.round) },
		"decide":     func() error { f.round(); return nil },
		"settle":     f.settle,
		"judge":      func() error { f.judgeCordons(); return nil },
		"expect":     func() error { return f.expect(strings.TrimPrefix(line, "expect ")) },
		"kill-after": func() (err error) { f.writes, err = strconv.Atoi(name); return err },
		"meanwhile": func() error {
			f.meanwhile = append(f.meanwhile, strings.TrimPrefix(line, "meanwhile "))
			return nil
		},
	}[kind]
	if !ok {
		return fmt.Errorf("running %q: there is no such command, or no such trouble", line)
	}
	return run()
}

// must is for lines that are part of a test, not of a script.
func (f *fleet) must(line string) {
	if err := f.command(line); err != nil {
		panic(err)
	}
}

func (f *fleet) pass(duration string, each ...func()) error {
	left, err := time.ParseDuration(duration)
	for ; err == nil && left > 0; left -= step {
		for _, do := range each {
			do()
		}
	}
	return err
}

// grow adds a cluster to a cell, of so many racks with so many machines: "4x5".
func (f *fleet) grow(cell, cluster, size string) error {
	var racks, perRack int
	_, err := fmt.Sscanf(size, "%dx%d", &racks, &perRack)
	f.addCluster(cell, cluster, racks, perRack)
	return err
}

func (f *fleet) strikeRack(rack, what string) error {
	for _, m := range f.machines {
		if m.cell+"/"+m.Rack == rack {
			if err := f.strike(m, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// strike is what happens to a node, or is written on its machine.
func (f *fleet) strike(m *machine, what string) error {
	switch what {
	case "up":
		m.off, m.dead, m.needs, m.upFor, m.downFor, m.cordoned, m.Paused = false, false, "", 0, 0, false, false
		f.turn(m, true)
	case "needs-Reboot", "needs-Reinstall":
		m.needs = api.RemediationAction(strings.TrimPrefix(what, "needs-"))
		f.turn(m, false)
	case "down", "dead":
		m.dead = what == "dead"
		f.turn(m, false)
	case "flaps":
		m.upFor, m.downFor = 30*time.Second, time.Minute
	case "flaps-slowly":
		m.upFor, m.downFor = time.Minute, 7*time.Minute
	case "cordoned":
		m.cordoned = true
	case "paused", "resumed":
		m.Paused = what == "paused"
	case "acknowledged":
		for _, rem := range f.records {
			if rem.Spec.Target.MachineUID == m.UID {
				rem.Annotations = map[string]string{policy.AnnotationAcknowledged: "true"}
			}
		}
	default:
		return f.strikeDrain(m, what)
	}
	return nil
}

// escalations are what a policy may try in turn.
func escalations() map[string][]api.EscalationStep {
	return map[string][]api.EscalationStep{
		"replaces":      {{Action: api.ActionReplace}},
		"drains":        {{Action: api.ActionReboot, Drain: &api.DrainStep{TimeoutSeconds: ptr.To(int32(600))}}},
		"reboots-first": {{Action: api.ActionReboot, Attempts: ptr.To(int32(1))}, {Action: api.ActionReplace}},
		"steps": {
			{Action: api.ActionRestartComponent, TimeoutSeconds: ptr.To(int32(300)), Attempts: ptr.To(int32(1))},
			{Action: api.ActionReboot, TimeoutSeconds: ptr.To(int32(600)), Attempts: ptr.To(int32(2))},
			{Action: api.ActionReinstall, TimeoutSeconds: ptr.To(int32(900)), Attempts: ptr.To(int32(1))},
		},
	}
}

// set gives the policy another selection or mode, "all" being the ordinary one.
func (f *fleet) set(p *api.RemediationPolicy, what string) error {
	p.Annotations, p.Spec = nil, api.RemediationPolicySpec{Mode: api.ModeAct, MatchAll: api.MatchAllMachines}
	if p.Spec.Escalation = escalations()[what]; p.Spec.Escalation != nil {
		return nil
	}
	switch what {
	case "all":
	case "empty":
		p.Spec.MatchAll = ""
	case "elsewhere":
		p.Spec.MatchAll, p.Spec.Pools = "", []string{"elsewhere"}
	case "limited":
		p.Spec.Mode, p.Spec.Limit.PerDay = api.ModeActLimited, ptr.To(int32(1))
	case "asks":
		p.Spec.Mode = api.ModeApprove
	case "recommends":
		p.Spec.Mode = api.ModeRecommend
	case "observes":
		p.Spec.Mode = api.ModeObserve
	case "paused":
		p.Annotations = map[string]string{api.AnnotationPaused: "true"}
	default:
		return fmt.Errorf("changing the policy: it cannot be %s", what)
	}
	return nil
}

// calm mends everything but the nodes, and goes on where somebody stopped.
func (f *fleet) calm() {
	clear(f.state)
	clear(f.ahead)
	f.writes, f.meanwhile = -1, nil
	for i := range f.budgets {
		f.budgets[i].Spec.Freeze = ""
	}
	f.must("policy all")
}

// settle goes on until no repair is open and nothing is asked for.
func (f *fleet) settle() error {
	for range maxRounds {
		f.step()
		f.round()
		pending := func(r *api.Remediation) bool { return !phase(r).Final() }
		if !slices.ContainsFunc(f.machines, f.repairing) && !slices.ContainsFunc(f.records, pending) {
			return nil
		}
	}
	return fmt.Errorf("settling the fleet: a repair is still open after %d rounds:\n%s", maxRounds, &f.transcript)
}

// expect holds what a script is about, which is not rewritten with the transcript:
// "requests N", "repair-N PHASE REASON", "NODE VERDICT REASON".
func (f *fleet) expect(wanted string) error {
	facts := []string{fmt.Sprintf("requests %d", len(f.asked))}
	for _, rem := range f.records {
		facts = append(facts, fmt.Sprintf("%s %s %s", f.alias(rem.Name), phase(rem), rem.Status.Reason))
	}
	for _, verdict := range f.told {
		facts = append(facts, strings.Replace(verdict, ":", "", 1))
	}
	if !slices.Contains(facts, wanted) {
		return fmt.Errorf("expecting %q: true are %q", wanted, facts)
	}
	return nil
}
