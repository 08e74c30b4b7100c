package policy

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// maxSkew is how far in the future a timestamp may lie before the clocks are
// taken to disagree.
const maxSkew = 5 * time.Second

// quorum is how many centrals must agree. All that are configured must.
const quorum = 2

// fact is what one central says that bears on one node.
type fact struct {
	central string
	// trouble says why nothing that the central says of the cell can be relied on.
	trouble   Reason
	message   string
	heartbeat time.Time
	up        *ClusterSample
	sample    *NodeSample
}

// facts are ordered by the centrals' names.
func (ix *index) facts(ref NodeRef) []fact {
	facts := make([]fact, 0, len(ix.centrals))
	for i := range ix.centrals {
		facts = append(facts, ix.centrals[i].fact(ref))
	}
	return facts
}

func (c *centralIndex) fact(ref NodeRef) fact {
	f := fact{central: c.Name, heartbeat: c.heartbeats[ref.Cell]}
	f.trouble, f.message = c.trouble()
	if partial := c.partial[ref.Cell]; f.trouble == "" && partial != "" {
		f.trouble, f.message = ReasonEvidencePartial, fmt.Sprintf("%s answered with a warning: %s", c.Name, partial)
	}
	f.up, f.sample = c.up[clusterRef{ref.Cell, ref.Cluster}], c.unhealthy[ref]
	return f
}

// trouble says why nothing at all that the central says can be relied on.
func (c *centralIndex) trouble() (Reason, string) {
	switch {
	case c.Err != "":
		return ReasonEvidenceMissing, fmt.Sprintf("%s did not answer: %s", c.Name, c.Err)
	case c.doubt != "":
		return ReasonEvidenceMissing, c.Name + " " + c.doubt
	case len(c.Warnings) > 0:
		return ReasonEvidencePartial, fmt.Sprintf("%s answered with a warning: %s", c.Name, c.Warnings[0])
	case skewed(c.ClockSkew.Duration):
		return ReasonEvidenceStale, fmt.Sprintf("%s: its clock is %s the remediator's, so ages cannot be told", c.Name, apart(c.ClockSkew.Duration))
	}
	return "", ""
}

func skewed(ahead time.Duration) bool { return ahead.Abs() > maxSkew }

func apart(ahead time.Duration) string {
	if ahead < 0 {
		return fmt.Sprintf("%s behind", -ahead)
	}
	return fmt.Sprintf("%s ahead of", ahead)
}

// opinion is what a fact amounts to.
type opinion int

const (
	unknown opinion = iota
	listed
	// lapsed means that the central still serves an old sample though the
	// cell has evaluated its rules since without listing the node. A central
	// keeps such a sample for its whole look-back.
	lapsed
	absent
)

// weigh turns a fact into an opinion; unknown comes with its reason. Half of the
// allowed age is the lag that a listing may have behind the cell's heartbeat.
func (f fact) weigh(ref NodeRef, maxAge time.Duration, now time.Time) (opinion, Reason, string) {
	if reason, message := f.silent(ref); reason != "" {
		return unknown, reason, message
	}
	if old := f.stale(maxAge, now); old != "" {
		return unknown, ReasonEvidenceStale, old
	}
	switch {
	case f.sample == nil:
		return absent, "", ""
	case f.heartbeat.Sub(f.sample.At) > maxAge/2:
		return lapsed, "", ""
	case !fresh(f.sample.At, maxAge, now):
		return unknown, ReasonEvidenceStale, f.aged("listing of the node", f.sample.At, maxAge, now)
	}
	return listed, "", ""
}

func (f fact) silent(ref NodeRef) (Reason, string) {
	switch {
	case f.trouble != "":
		return f.trouble, f.message
	case f.heartbeat.IsZero():
		return ReasonEvidenceMissing, fmt.Sprintf("%s has no heartbeat of cell %s", f.central, ref.Cell)
	case f.up == nil:
		return ReasonEvidenceMissing, fmt.Sprintf("%s does not know whether cluster %s/%s is up", f.central, ref.Cell, ref.Cluster)
	}
	return "", ""
}

func (f fact) stale(maxAge time.Duration, now time.Time) string {
	if !fresh(f.heartbeat, maxAge, now) {
		return f.aged("heartbeat of the cell", f.heartbeat, maxAge, now)
	}
	if !fresh(f.up.At, maxAge, now) {
		return f.aged("state of the cluster", f.up.At, maxAge, now)
	}
	return ""
}

func (f fact) aged(what string, at time.Time, maxAge time.Duration, now time.Time) string {
	age := now.Sub(at).Round(time.Second)
	if age < 0 {
		return fmt.Sprintf("%s: %s is %s in the future; clocks disagree", f.central, what, -age)
	}
	return fmt.Sprintf("%s: %s is %s old, allowed are %s", f.central, what, age, maxAge)
}

func fresh(at time.Time, maxAge time.Duration, now time.Time) bool {
	age := now.Sub(at)
	return age <= maxAge && age >= -maxSkew
}

// finding is what all centrals together say.
type finding int

const (
	findingUnknown finding = iota
	findingUnhealthy
	findingLapsed
	findingHealthy
)

// agree is unhealthy or healthy only if every central says so.
func agree(facts []fact, ref NodeRef, maxAge time.Duration, now time.Time) (finding, Reason, string) {
	if len(facts) < quorum {
		return findingUnknown, ReasonEvidenceMissing, fmt.Sprintf("%d centrals are configured, %d must agree", len(facts), quorum)
	}
	var say []string
	count := map[opinion]int{}
	for _, f := range facts {
		o, reason, message := f.weigh(ref, maxAge, now)
		if o == unknown {
			return findingUnknown, reason, message
		}
		count[o]++
		say = append(say, f.central+" "+words(o))
	}
	// Down is weighed after the others, since a fresh "down" is itself knowledge.
	if i := slices.IndexFunc(facts, func(f fact) bool { return !f.up.Up }); i >= 0 {
		return findingUnknown, ReasonClusterUnreachable,
			fmt.Sprintf("%s: cell %s does not see cluster %s", facts[i].central, ref.Cell, ref.Cluster)
	}
	switch {
	case count[listed] == len(facts):
		return findingUnhealthy, "", ""
	case count[listed] > 0:
		return findingUnknown, ReasonEvidenceConflict, fmt.Sprintf("the centrals disagree: %s, %s", say[0], say[1])
	case count[lapsed] > 0:
		return findingLapsed, ReasonEvidenceStale, fmt.Sprintf("listed by old samples only: %s, %s", say[0], say[1])
	}
	return findingHealthy, "", ""
}

func words(o opinion) string {
	switch o {
	case listed:
		return "lists the node as unhealthy"
	case lapsed:
		return "no longer lists it"
	default:
		return "does not list it"
	}
}

// record is the evidence as it is written down.
func (f fact) record(ref NodeRef, unhealthy bool) api.SignalRecord {
	if !unhealthy {
		return api.SignalRecord{Source: f.central, ObservedAt: metav1.NewTime(f.heartbeat), Says: "does not list the node as unhealthy"}
	}
	return api.SignalRecord{Source: f.central, ObservedAt: metav1.NewTime(f.sample.At),
		Says: clip(fmt.Sprintf("lists node %s as unhealthy: %s", ref.Node, f.sample.Reason), 512)}
}

// clip shortens a text to what the API accepts, on a rune's boundary.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := limit - 3
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "..."
}

// Tail keeps the end, on a rune's boundary: the last that a check wrote says most.
func Tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := len(s) - limit + 3
	for cut < len(s) && s[cut]&0xC0 == 0x80 {
		cut++
	}
	return "..." + s[cut:]
}
