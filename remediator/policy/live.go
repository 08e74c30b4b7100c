package policy

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// What a RemediationTarget can hold, in bytes.
const (
	maxBootID     = 64
	maxProviderID = 512
)

// defaultLease is the duration of a node's Lease that does not say its own.
const defaultLease = 40 * time.Second

// liveFact is what the business cluster's own API server says of one node.
type liveFact struct {
	cluster *LiveCluster
	node    *LiveNode
	lease   *Lease
}

// unreadable says why the live state is not known; empty means that it is.
func (l liveFact) unreadable(maxAge time.Duration, now time.Time) string {
	switch {
	case l.cluster == nil:
		return "the cluster was not read"
	case l.cluster.blind(maxAge, now) != "":
		return l.cluster.blind(maxAge, now)
	case l.node == nil:
		return "the Node was not read"
	case l.node.Err != "":
		return "reading the Node: " + l.node.Err
	}
	return ""
}

// blind says why nothing that the cluster's API server said can be relied on.
func (c *LiveCluster) blind(maxAge time.Duration, now time.Time) string {
	switch {
	case c.Err != "":
		return "reading the cluster: " + c.Err
	case !fresh(c.ReadAt, maxAge, now):
		return fmt.Sprintf("the cluster was last read %s ago", now.Sub(c.ReadAt).Round(time.Second))
	case skewed(c.ClockSkew.Duration):
		return c.clocks()
	}
	return ""
}

func (c *LiveCluster) clocks() string {
	return fmt.Sprintf("the clock of cluster %s's API server is %s the remediator's, so ages cannot be told", c.Cluster, apart(c.ClockSkew.Duration))
}

// Beats says whether the kubelet has renewed its Lease within its duration. A
// renewal in the future counts as one: it speaks against a dead kubelet.
func (l Lease) Beats(now time.Time) bool {
	duration := l.Duration.Duration
	if duration <= 0 {
		duration = defaultLease
	}
	return now.Sub(l.Renewed) < duration
}

// confirms says why the live node does not confirm that it is unhealthy and
// may be repaired; an empty reason means that it does.
func (l liveFact) confirms(s settings, now time.Time) (Reason, string) {
	if l.cluster != nil && l.cluster.Err == "" && skewed(l.cluster.ClockSkew.Duration) {
		return ReasonEvidenceStale, l.cluster.clocks()
	}
	if why := l.unreadable(s.evidenceAge, now); why != "" {
		return ReasonLiveUnknown, why
	}
	if reason, message := l.unhealthy(now); reason != "" {
		return reason, message
	}
	return l.repairable(s, now)
}

// unhealthy says why the live node is not known to be unhealthy. A Lease in time
// contradicts Ready=Unknown, which means that the kubelet is silent; it does not
// contradict Ready=False, which the kubelet says of itself.
func (l liveFact) unhealthy(now time.Time) (Reason, string) {
	switch {
	case l.node.Absent:
		return ReasonLiveStateContradicts, "the cluster has no such Node"
	case l.node.Deleting:
		return ReasonDeleting, "the Node is being deleted"
	case l.node.Ready == "True":
		return ReasonLiveStateContradicts, "the live Node is Ready"
	case l.node.Ready != "False" && l.node.Ready != "Unknown":
		return ReasonLiveUnknown, "the live Node has no Ready condition"
	case l.lease == nil:
		return ReasonLiveUnknown, "the Node has no Lease"
	case l.node.Ready == "Unknown" && l.lease.Beats(now):
		return ReasonLiveStateContradicts, fmt.Sprintf("the live Node is Unknown, but its Lease was renewed %s ago", now.Sub(l.lease.Renewed).Round(time.Second))
	}
	return "", ""
}

// repairable says why a node that is unhealthy is left alone all the same.
func (l liveFact) repairable(s settings, now time.Time) (Reason, string) {
	switch {
	case l.node.ControlPlane:
		return ReasonControlPlane, "the Node is part of a control plane, whose members are not counted: leave it to people"
	case l.node.Owner != "":
		return ReasonForeignOwner, l.node.Owner
	case l.node.Unschedulable && l.node.CordonedBy == "":
		return ReasonCordoned, "the Node is cordoned: somebody works on it"
	case l.node.BootID == "":
		return ReasonIdentityUnknown, "the Node reports no boot id, so a reboot could not be proven"
	case len(l.node.BootID) > maxBootID || len(l.node.ProviderID) > maxProviderID:
		return ReasonIdentityUnknown, fmt.Sprintf("the Node reports a boot id of %d bytes and a provider id of %d, which no record could hold", len(l.node.BootID), len(l.node.ProviderID))
	case now.Sub(l.node.Since) < s.unhealthy:
		return ReasonNotLongEnough, fmt.Sprintf("not ready for %s, required are %s", now.Sub(l.node.Since).Round(time.Second), s.unhealthy)
	}
	return "", ""
}

// well says what is missing for the live node to count as repaired; empty means nothing.
func (l liveFact) well(maxAge time.Duration, now time.Time) string {
	if why := l.unreadable(maxAge, now); why != "" {
		return why
	}
	switch {
	case l.node.Absent:
		return "the cluster has no such Node"
	case l.node.Ready != "True":
		return fmt.Sprintf("the live Node's Ready condition is %q", l.node.Ready)
	case l.lease == nil || !l.lease.Beats(now):
		return "the Node's Lease is not renewed"
	}
	return ""
}

// SourceLease is the source of a signal that tells when a kubelet was heard of last.
const SourceLease = "lease"

func (l liveFact) records() []api.SignalRecord {
	return []api.SignalRecord{
		{Source: SourceLease, ObservedAt: metav1.NewTime(l.lease.Renewed), Says: "last renewed"},
		{Source: "node", ObservedAt: metav1.NewTime(l.observed()),
			Says: fmt.Sprintf("Ready=%s since %s, boot id %s", l.node.Ready, l.node.Since.UTC().Format(time.RFC3339), clip(l.node.BootID, 64))},
	}
}

// observed is never zero: a condition without a heartbeat was observed when it changed.
func (l liveFact) observed() time.Time {
	if l.node.Heartbeat.IsZero() {
		return l.node.Since
	}
	return l.node.Heartbeat
}
