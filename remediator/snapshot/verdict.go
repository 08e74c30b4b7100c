package snapshot

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// VerdictKind is the kind of what was decided.
const VerdictKind = "Verdict"

// Verdict is what was decided, for programs and people to read.
type Verdict struct {
	metav1.TypeMeta `json:",inline"`
	Now             time.Time `json:"now"`
	// Decisions has one entry for each machine that a policy selects and some source calls unhealthy.
	Decisions []Decision `json:"decisions"`
	// Repairs are the open repairs of which something is to be written down.
	Repairs []Repair `json:"repairs,omitempty"`
	// Withdrawals are the requests that are to be taken off machines, by cell and machine.
	Withdrawals []string `json:"withdrawals,omitempty"`
	Policies    []Policy `json:"policies"`
	// Budgets has what of each FleetDisruptionBudget is the tightest, as it was counted.
	Budgets []Budget `json:"budgets,omitempty"`
	// Incidents are those that are not closed, or are closed now.
	Incidents []Incident `json:"incidents,omitempty"`
	// Unmatched counts nodes called unhealthy that no machine of the inventory bears.
	Unmatched int `json:"unmatched,omitempty"`
	// NextCheck is when waiting alone changes a decision; nil means never.
	NextCheck *time.Time `json:"nextCheck,omitempty"`
}

// Decision is the verdict on one machine.
type Decision struct {
	Cell    string         `json:"cell"`
	Cluster string         `json:"cluster"`
	Machine string         `json:"machine"`
	Node    string         `json:"node,omitempty"`
	Policy  string         `json:"policy"`
	Verdict policy.Verdict `json:"verdict"`
	Reason  policy.Reason  `json:"reason"`
	Message string         `json:"message"`
	// Action and Remediation are what is done and under which name, where the verdict is Act.
	Action      api.RemediationAction `json:"action,omitempty"`
	Remediation string                `json:"remediation,omitempty"`
}

// Repair is what is written down of an open repair.
type Repair struct {
	Name    string               `json:"name"`
	Machine string               `json:"machine"`
	Phase   api.RemediationPhase `json:"phase"`
	Reason  policy.Reason        `json:"reason"`
	Message string               `json:"message"`
}

// Policy says whether a policy may act.
type Policy struct {
	Name      string                 `json:"name"`
	Allowed   metav1.ConditionStatus `json:"allowed"`
	Reason    policy.Reason          `json:"reason"`
	Message   string                 `json:"message,omitempty"`
	Unhealthy int                    `json:"unhealthy"`
}

// Budget says how much of a budget is used.
type Budget struct {
	Name    string                 `json:"name"`
	Allowed metav1.ConditionStatus `json:"allowed"`
	Reason  policy.Reason          `json:"reason"`
	Message string                 `json:"message"`
	// Tightest is what has the least room left; nil if the budget covers nothing.
	Tightest *api.BudgetRecord `json:"tightest,omitempty"`
}

// Incident says how an incident stands.
type Incident struct {
	Name    string            `json:"name"`
	Kind    api.IncidentKind  `json:"kind"`
	Value   string            `json:"value"`
	Phase   api.IncidentPhase `json:"phase"`
	Message string            `json:"message"`
}

// VerdictOf tells of a plan what a reader needs.
func VerdictOf(plan policy.Plan, now time.Time) Verdict {
	v := Verdict{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: VerdictKind}, Now: now, Unmatched: plan.Unmatched}
	for _, d := range plan.Decisions {
		v.Decisions = append(v.Decisions, Decision{
			Cell: d.Cell, Cluster: d.Machine.Cluster, Machine: d.Machine.Name, Node: d.Machine.Node, Policy: d.Policy,
			Verdict: d.Verdict, Reason: d.Reason, Message: d.Message, Action: d.Spec.Action, Remediation: d.Name,
		})
	}
	for _, u := range plan.Updates {
		v.Repairs = append(v.Repairs, Repair{Name: u.Name, Machine: u.Target.Cell + "/" + u.Target.Machine, Phase: u.Phase, Reason: u.Reason, Message: u.Message})
	}
	for _, w := range plan.Withdrawals {
		v.Withdrawals = append(v.Withdrawals, w.Cell+"/"+w.Machine)
	}
	for _, r := range plan.Policies {
		v.Policies = append(v.Policies, Policy{Name: r.Name, Allowed: r.Allowed, Reason: r.Reason, Message: r.Message, Unhealthy: r.Unhealthy})
	}
	for _, b := range plan.Budgets {
		v.Budgets = append(v.Budgets, Budget{Name: b.Name, Allowed: b.Allowed, Reason: b.Reason, Message: b.Message, Tightest: b.Tightest})
	}
	for _, in := range plan.Incidents {
		v.Incidents = append(v.Incidents, Incident{Name: in.Name, Kind: in.Spec.Kind, Value: in.Spec.Value, Phase: in.Status.Phase, Message: in.Message})
	}
	if !plan.NextCheck.IsZero() {
		v.NextCheck = &plan.NextCheck
	}
	return v
}

// Text writes a verdict for a person.
func (v Verdict) Text(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "decided as at %s\n\n", v.Now.UTC().Format(time.RFC3339))
	if len(v.Decisions) == 0 {
		fmt.Fprintln(w, "No machine that a policy selects is called unhealthy.")
	} else {
		fmt.Fprintln(w, "VERDICT\tREASON\tMACHINE\tCLUSTER\tPOLICY\tWHY")
	}
	for _, d := range v.Decisions {
		why := d.Message
		if d.Remediation != "" {
			why = fmt.Sprintf("%s as %s: %s", d.Action, d.Remediation, why)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", d.Verdict, d.Reason, d.Machine, d.Cell+"/"+d.Cluster, d.Policy, why)
	}
	if len(v.Repairs) > 0 {
		fmt.Fprintln(w, "\nREPAIR\tMACHINE\tPHASE\tREASON\tWHY")
	}
	for _, r := range v.Repairs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Machine, r.Phase, r.Reason, r.Message)
	}
	for i, machine := range v.Withdrawals {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "The request on %s is to be withdrawn.\n", machine)
	}
	fmt.Fprintln(w, "\nPOLICY\tALLOWED\tREASON\tUNHEALTHY\tWHY")
	for _, p := range v.Policies {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", p.Name, p.Allowed, p.Reason, p.Unhealthy, cmp.Or(p.Message, "-"))
	}
	v.budgets(w)
	v.incidents(w)
	if v.Unmatched > 0 {
		fmt.Fprintf(w, "\n%d unhealthy nodes belong to no machine of the inventory.\n", v.Unmatched)
	}
	if v.NextCheck != nil {
		fmt.Fprintf(w, "\nWaiting alone changes something at %s.\n", v.NextCheck.UTC().Format(time.RFC3339))
	}
	return w.Flush()
}

// budgets has "-" for a budget that covers nothing, and a number alone where nothing bounds it.
func (v Verdict) budgets(to io.Writer) {
	if len(v.Budgets) > 0 {
		fmt.Fprintln(to, "\nBUDGET\tALLOWED\tREASON\tTIGHTEST\tMACHINES\tUNAVAILABLE\tIN FLIGHT\tWHY")
	}
	for _, b := range v.Budgets {
		domain, machines, unavailable, inFlight := "-", "-", "-", "-"
		if t := b.Tightest; t != nil {
			domain, machines = t.Domain, fmt.Sprint(t.Machines)
			unavailable, inFlight = atMost(t.Unavailable, t.MaxUnavailable), atMost(t.InFlight, t.MaxInFlight)
		}
		fmt.Fprintf(to, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", b.Name, b.Allowed, b.Reason, domain, machines, unavailable, inFlight, b.Message)
	}
}

func atMost(n int32, most *int32) string {
	if most == nil {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of at most %d", n, *most)
}

func (v Verdict) incidents(to io.Writer) {
	for i, in := range v.Incidents {
		if i == 0 {
			fmt.Fprintln(to, "\nINCIDENT\tPHASE\tSUSPECT")
		}
		fmt.Fprintf(to, "%s\t%s\t%s\n", in.Name, in.Phase, in.Message)
	}
}
