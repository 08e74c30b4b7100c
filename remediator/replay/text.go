package replay

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Text writes a result for a person.
func (r Result) Text(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "compared %d snapshots, of %s to %s\n", r.Looks, clock(r.First), clock(r.Last))
	if r.Unread > 0 {
		fmt.Fprintf(w, "%d more could not be read and are left out\n", r.Unread)
	}
	if len(r.Differences) > 0 {
		fmt.Fprintln(w, "\nFIRST\tLAST\tLOOKS\tCERTAIN\tMACHINE\tBEFORE\tAFTER\tDOUBT\tWHY")
	}
	for _, d := range r.Differences {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", clock(d.First), clock(d.Last), d.Looks, d.Certain, d.Cell+"/"+d.Machine,
			d.Before, d.After, cmp.Or(string(d.Doubt), "-"), why(d))
	}
	fmt.Fprintf(w, "\nMachines with another verdict: %d; with the same for another reason: %d.\n", r.Machines, r.ReasonsOnly)
	fmt.Fprintf(w, "Repairs that were to begin: %d; with these policies: %d, of which the same: %d.\n", r.Repairs.Then, r.Repairs.Now, r.Repairs.Both)
	r.limits(w)
	return w.Flush()
}

// limits says what the numbers are not.
func (r Result) limits(to io.Writer) {
	fmt.Fprintln(to, "\nBetween two snapshots nothing is known: one is recorded when a verdict changes, and every few minutes.")
	if r.DoubtfulAfter != nil {
		fmt.Fprintf(to, `In the snapshot of %s a repair begins or ends otherwise for the first time. Later snapshots have the repairs that were done, not those that
these policies would have done: what is not CERTAIN is only as good as that. DOUBT is the nearest part of the fleet in which it was so.
`, clock(*r.DoubtfulAfter))
	}
	for _, d := range r.Differences {
		if d.Doubt == NotRead {
			fmt.Fprintln(to, "NotRead: these policies would have had something read that nobody asked for then. Such a machine would not have been held for that.")
			return
		}
	}
}

// why is in the words of what would have been, or of what was and would not have been.
func why(d Difference) string {
	if d.After.Outcome == (Outcome{}) {
		return "before: " + d.Before.Message
	}
	return cmp.Or(d.After.Message, "-")
}

func clock(at time.Time) string { return at.UTC().Format(time.RFC3339) }
