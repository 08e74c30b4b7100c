package replay

import (
	"cmp"
	"slices"
	"strings"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

type machine struct{ cell, namespace, name string }

// Outcome is what a look comes to for a machine. All of it is empty for one that no
// policy selects or no source calls unhealthy, and that has no open repair.
type Outcome struct {
	// Verdict is empty while a repair runs.
	Verdict policy.Verdict `json:"verdict,omitempty"`
	// Action is set where something is written down, and nowhere else.
	Action api.RemediationAction `json:"action,omitempty"`
	// Phase is that of the machine's open repair as it is written down in this look.
	Phase  api.RemediationPhase `json:"phase,omitempty"`
	Reason policy.Reason        `json:"reason,omitempty"`
}

// differs says whether something else would have been done. A reason alone changes nothing.
func (o Outcome) differs(other Outcome) bool {
	o.Reason, other.Reason = "", ""
	return o != other
}

// bends says whether later snapshots would have been others: something is written down,
// or a repair ends, in one of the two alone.
func (o Outcome) bends(other Outcome) bool { return o.Action != other.Action || o.Phase != other.Phase }

func (o Outcome) compare(other Outcome) int {
	return cmp.Or(cmp.Compare(o.Verdict, other.Verdict), cmp.Compare(o.Action, other.Action), cmp.Compare(o.Phase, other.Phase), cmp.Compare(o.Reason, other.Reason))
}

// String is how a person reads it. That a node is unhealthy is no news of an act.
func (o Outcome) String() string {
	var words []string
	for _, word := range []string{string(o.Verdict), string(o.Action), string(o.Phase), string(o.Reason)} {
		if word != "" && (o.Verdict != policy.Act || word != string(policy.ReasonUnhealthy)) {
			words = append(words, word)
		}
	}
	return cmp.Or(strings.Join(slices.Compact(words), " "), "-") // Escalate is verdict and action
}

// outcomes are those of all machines that have a verdict or an open repair.
func outcomes(s snapshot.Snapshot, plan policy.Plan) map[machine]Side {
	all := map[machine]Side{}
	for i := range s.Remediations {
		rem := &s.Remediations[i]
		if phase := rem.CurrentPhase(); !phase.Final() {
			all[target(rem.Spec.Target)] = Side{Outcome{Phase: phase, Reason: policy.Reason(rem.Status.Reason)}, rem.Status.Message}
		}
	}
	for _, u := range plan.Updates {
		all[target(u.Target)] = Side{Outcome{Phase: u.Phase, Reason: u.Reason}, u.Message}
	}
	for _, w := range plan.Withdrawals {
		if u := w.Then; u != nil {
			all[target(u.Target)] = Side{Outcome{Phase: u.Phase, Reason: u.Reason}, u.Message}
		}
	}
	for _, d := range plan.Decisions {
		m := machine{d.Cell, d.Machine.Namespace, d.Machine.Name}
		side := Side{Outcome{Verdict: d.Verdict, Action: d.Spec.Action, Reason: d.Reason}, d.Message}
		if open, is := all[m]; is {
			side.Phase = open.Phase
			if open.Phase.Final() { // why a repair ends is worth more than why the next one waits
				side.Reason, side.Message = open.Reason, open.Message
			}
		}
		all[m] = side
	}
	return all
}

func target(t api.RemediationTarget) machine { return machine{t.Cell, t.Namespace, t.Machine} }
