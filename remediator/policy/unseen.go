package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// maxNamed is how many unseen cells a message names.
const maxNamed = 10

// unseen is a cell of which so little is known that all its machines are held.
type unseen struct {
	cell    string
	reason  Reason
	message string
}

// unseenBy lists, by name, the cells that a policy selects and that cannot be
// listed or that some central does not see freshly. Such a cell shows no
// unhealthy machine, so that without this its silence would pass for health.
func (r *run) unseenBy(p *api.RemediationPolicy) []unseen {
	maxAge := evidenceAge(p)
	var found []unseen
	for _, cell := range r.ix.cells {
		if reason, message := r.ix.unseenFor(cell, maxAge, r.now); reason != "" && touches(p, cell) {
			found = append(found, unseen{cell.Name, reason, message})
		}
	}
	slices.SortFunc(found, func(a, b unseen) int { return cmp.Compare(a.cell, b.cell) })
	return found
}

func (ix *index) unseenFor(cell *Cell, maxAge time.Duration, now time.Time) (Reason, string) {
	if cell.Err != "" {
		return ReasonInventoryUnknown, "listing its machines: " + cell.Err
	}
	return ix.heard(cell, maxAge, now)
}

// heard says why what some central says of a cell cannot be relied on, now.
func (ix *index) heard(cell *Cell, maxAge time.Duration, now time.Time) (Reason, string) {
	for i := range ix.centrals {
		f := ix.centrals[i].fact(NodeRef{Cell: cell.Name})
		switch {
		case f.trouble != "":
			return f.trouble, f.message
		case f.heartbeat.IsZero():
			return ReasonEvidenceMissing, f.central + " has no heartbeat of it"
		case !fresh(f.heartbeat, maxAge, now):
			return ReasonEvidenceStale, f.aged("heartbeat of the cell", f.heartbeat, maxAge, now)
		}
	}
	return "", ""
}

// touches says whether a policy may speak for a machine of the cell. The machines
// of one that cannot be listed may be in any pool.
func touches(p *api.RemediationPolicy, cell *Cell) bool {
	if len(p.Spec.Pools) == 0 {
		return selects(p, cell.Name, "")
	}
	if len(p.Spec.Cells) > 0 && !slices.Contains(p.Spec.Cells, cell.Name) {
		return false
	}
	return cell.Err != "" || slices.ContainsFunc(cell.Machines, func(m Machine) bool { return selects(p, cell.Name, m.Pool) })
}

// limited is the state of a policy some of whose cells are not seen: Unknown
// while it goes on repairing others, False when there is no other.
func (r *run) limited(p *api.RemediationPolicy, dark []unseen) (metav1.ConditionStatus, Reason, string) {
	all := 0
	for _, cell := range r.ix.cells {
		if touches(p, cell) {
			all++
		}
	}
	var parts []string
	for _, u := range dark[:min(len(dark), maxNamed)] {
		parts = append(parts, fmt.Sprintf("cell %s: %s", u.cell, clip(u.message, 256)))
	}
	if more := len(dark) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	message := fmt.Sprintf("%d of %d cells are held, %s", len(dark), all, strings.Join(parts, "; "))
	if len(dark) == all {
		return metav1.ConditionFalse, dark[0].reason, message
	}
	return metav1.ConditionUnknown, dark[0].reason, message + "; the other cells go on being repaired"
}
