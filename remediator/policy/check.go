package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// maxChecks is how many pods are made for one repair at most, each because
	// nothing was learned from the one before.
	maxChecks = 5
	// checkPause lies between the first pod and the second, and is doubled after
	// each: a kubelet that has just begun refuses pods for a while.
	checkPause = 20 * time.Second
	// checkGrace is how long after its timeout a pod may take to be reported ended.
	checkGrace = 30 * time.Second
	// defaultCheckTimeout is that of a check that does not say its own.
	defaultCheckTimeout = 120
	// checkSays bounds what a repair's message quotes of a check's output, in
	// bytes. The rest stands in status.nodeCheck.
	checkSays = 200
)

// Words for why nothing is known from a pod, where the kubelet has none.
const (
	wordPodDeleted   = "PodDeleted"
	wordPodReplaced  = "PodReplaced"
	wordPodForeign   = "PodForeign"
	wordNotStarted   = "NotStarted"
	wordOverdue      = "Overdue"
	wordNodeRebooted = "NodeRebooted"
	wordNotMade      = "NotMade"
	wordRepairEnded  = "RepairEnded"
)

// checking is what verification learns of the node check.
type checking struct {
	// record is how far the check is; nil as long as none was asked for.
	record *api.NodeCheckRecord
	// fails is why the repair has failed. Empty means that the check does not say so.
	fails Reason
	// waits is why the check has not passed. Empty, without fails, means that it
	// has, or that the repair needs none.
	waits Reason
	says  string
	// starts means that the pod is to be made: it is written down, and not there.
	starts bool
}

// check asks how far the node check of a repair is. A result holds for the Node
// and the boot that the pod was made for, and for no other.
func (r *run) check(rem *api.Remediation, m *Machine, live liveFact, well bool) checking {
	if rem.Spec.Verification.NodeCheck == nil {
		return checking{}
	}
	rec := rem.Status.NodeCheck.DeepCopy()
	switch {
	case rec == nil:
		return r.attempt(rem, m, live, well, 1)
	case rec.Result == api.NodeCheckNotRun:
		return r.again(rem, m, live, well)
	case !rec.Result.Ended():
		if unknown := r.observe(rem, rec); unknown != "" {
			return checking{record: rec, waits: ReasonNodeCheckUnavailable, says: "the node check cannot be read: " + unknown}
		}
	}
	if live.unreadable(r.evidenceAge(rem.Spec.PolicyName), r.now) != "" || live.node.Absent {
		return checking{record: rec, waits: ReasonAwaitingVerification, says: fmt.Sprintf(
			"that the node check's result (%s) is of the boot that the node is in", rec.Result)}
	}
	if rec.NodeUID != live.node.UID || rec.BootID != live.node.BootID {
		notRun(rec, wordNodeRebooted, "the node has booted, or its Node was made anew, since the check was asked for")
	}
	if rec.Result == api.NodeCheckPending {
		return r.pending(rem, m, live, well, rec)
	}
	return r.conclude(rem, rec)
}

// pending is a check whose pod is not there: it is made, if nothing forbids it now.
func (r *run) pending(rem *api.Remediation, m *Machine, live liveFact, well bool, rec *api.NodeCheckRecord) checking {
	if reason, says := r.unready(rem, m, live, well); reason != "" {
		return checking{record: rec, waits: reason, says: says}
	}
	c := r.conclude(rem, rec)
	c.starts = true
	return c
}

// observe takes over what the pod says; it returns why that is not known.
func (r *run) observe(rem *api.Remediation, rec *api.NodeCheckRecord) string {
	pods := r.ix.checks[rem.Name]
	if pods == nil {
		return "its pods were not read"
	}
	if pods.Err != "" {
		return clip(pods.Err, 512)
	}
	i := slices.IndexFunc(pods.Pods, func(p CheckPod) bool { return p.Name == rec.Pod })
	switch {
	case i < 0 && rec.PodUID == "":
		// It was not made yet, or is gone before it was seen: it is made (again).
	case i < 0:
		notRun(rec, wordPodDeleted, "somebody deleted the pod before it had ended")
	case rec.PodUID != "" && pods.Pods[i].UID != rec.PodUID:
		notRun(rec, wordPodReplaced, "another pod bears the name now")
	case foreign(rem, rec, &pods.Pods[i]) != "":
		notRun(rec, wordPodForeign, foreign(rem, rec, &pods.Pods[i]))
	default:
		r.takeOver(rec, &pods.Pods[i], timeoutOf(rem))
	}
	return ""
}

// foreign says why a pod is not the one that was asked for, whatever it says of
// itself; empty means that it is. Whoever may make pods there can give them any
// name and mark. Its age is measured with the margin for clocks that differ.
func foreign(rem *api.Remediation, rec *api.NodeCheckRecord, pod *CheckPod) string {
	check := rem.Spec.Verification.NodeCheck
	what := ""
	switch {
	case pod.NodeUID != rec.NodeUID || pod.BootID != rec.BootID:
		what = "for another Node or another boot"
	case pod.Node != rem.Spec.Target.Node:
		what = fmt.Sprintf("on node %q", clip(pod.Node, 128))
	case pod.Image != check.Image:
		what = fmt.Sprintf("with image %q", clip(pod.Image, 128))
	case !slices.Equal(pod.Command, check.Command) || !slices.Equal(pod.Args, check.Args):
		what = "with another command"
	case pod.Created.Before(rec.RequestedAt.Add(-maxSkew)):
		what = "before the check was asked for"
	default:
		return ""
	}
	return "the pod of this name was made " + what
}

func timeoutOf(rem *api.Remediation) time.Duration {
	return checkTimeout(rem.Spec.Verification.NodeCheck)
}

// takeOver copies a pod's state. A pod that nobody reports ended though its time
// is over has timed out if it ever began.
func (r *run) takeOver(rec *api.NodeCheckRecord, pod *CheckPod, timeout time.Duration) {
	rec.PodUID, rec.Result, rec.ExitCode = pod.UID, pod.Result, pod.ExitCode
	rec.Reason, rec.Message = clip(pod.Reason, 63), clip(pod.Message, 1024)
	rec.StartedAt, rec.FinishedAt = moment(pod.Started), moment(pod.Finished)
	if pod.Result != api.NodeCheckRunning {
		return
	}
	if overdue := pod.Created.Add(timeout + checkGrace - 1); !r.late(overdue) {
		r.lookAt(overdue)
		return
	}
	if pod.Deleting {
		notRun(rec, wordPodDeleted, "somebody deleted the pod, and the kubelet does not report its end")
		return
	}
	if pod.Started.IsZero() {
		notRun(rec, wordNotStarted, fmt.Sprintf("its container did not begin within %s: %s", timeout, because(Reason(pod.Reason), pod.Message)))
		return
	}
	rec.Result, rec.Reason = api.NodeCheckTimeout, wordOverdue
	rec.Message = fmt.Sprintf("it began, and the kubelet does not report its end though %s are over", timeout)
}

// moment is a time as the API keeps it.
func moment(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := metav1.NewTime(t.Truncate(time.Second))
	return &at
}

func notRun(rec *api.NodeCheckRecord, word, message string) {
	rec.Result, rec.Reason, rec.Message = api.NodeCheckNotRun, word, clip(message, 1024)
}

// conclude says what a result that holds for the node means for its repair.
func (r *run) conclude(rem *api.Remediation, rec *api.NodeCheckRecord) checking {
	c := checking{record: rec}
	where := fmt.Sprintf("pod %s/%s on node %s, attempt %d of %d", api.NodeCheckNamespace, rec.Pod, rem.Spec.Target.Node, rec.Attempt, maxChecks)
	switch rec.Result {
	case api.NodeCheckPass:
	case api.NodeCheckFail:
		c.fails, c.says = ReasonNodeCheckFailed, "the node check failed on the repaired node: "+outcome(rec)+"; "+where
	case api.NodeCheckTimeout:
		c.fails, c.says = ReasonNodeCheckTimedOut, fmt.Sprintf("the node check did not end within %s: %s; %s", timeoutOf(rem), outcome(rec), where)
	case api.NodeCheckNotRun:
		c.waits, c.says = ReasonNodeCheckNotRun, "the node check did not run: "+outcome(rec)+"; "+where
		r.lookAt(nextCheck(rec))
	case api.NodeCheckRunning:
		c.waits, c.says = ReasonAwaitingNodeCheck, "the node check, "+where
		if rec.Message != "" {
			c.says += ": " + because(Reason(rec.Reason), clip(rec.Message, checkSays))
		}
	default:
		c.waits, c.says = ReasonAwaitingNodeCheck, "the node check, which is asked for: "+where
		if rec.Message != "" {
			c.waits, c.says = ReasonNodeCheckUnavailable, "the node check cannot be made: "+rec.Message+"; "+where
			if strings.Contains(rec.Message, rec.Pod) {
				c.says = fmt.Sprintf("the node check cannot be made, attempt %d of %d: %s", rec.Attempt, maxChecks, rec.Message)
			}
		}
	}
	return c
}

// outcome is a result in words.
func outcome(rec *api.NodeCheckRecord) string {
	message := clip(rec.Message, 640)
	if rec.Result == api.NodeCheckFail || rec.Result == api.NodeCheckTimeout {
		message = Tail(rec.Message, checkSays)
	}
	out := because(Reason(rec.Reason), message)
	if rec.ExitCode != nil {
		out = fmt.Sprintf("exit code %d, %s", *rec.ExitCode, out)
	}
	return out
}

// closeCheck gives the check of a repair that ends its final state: nothing will
// be learned from a pod that is still awaited, and nobody looks at it any more.
func (u *Update) closeCheck(rem *api.Remediation) {
	rec := u.NodeCheck
	if rec == nil {
		rec = rem.Status.NodeCheck
	}
	if !u.Phase.Final() || rec == nil || rec.Result.Ended() {
		return
	}
	rec = rec.DeepCopy()
	says := fmt.Sprintf("the repair ended (%s) while the check was %s", u.Reason, rec.Result)
	if rec.Message != "" {
		says += "; " + because(Reason(rec.Reason), rec.Message)
	}
	notRun(rec, wordRepairEnded, says)
	u.NodeCheck = rec
}

// again is for a check of which nothing is known: another pod, after a while.
func (r *run) again(rem *api.Remediation, m *Machine, live liveFact, well bool) checking {
	rec := rem.Status.NodeCheck.DeepCopy()
	next := nextCheck(rec)
	if rec.Attempt < maxChecks && !r.now.Before(next) {
		if c := r.attempt(rem, m, live, well, rec.Attempt+1); c.record != nil {
			return c
		}
	}
	return r.conclude(rem, rec)
}

// nextCheck is the first time at which a check that did not run may be tried again.
func nextCheck(rec *api.NodeCheckRecord) time.Time {
	return rec.RequestedAt.Add(checkPause << (rec.Attempt - 1))
}

// attempt asks for a pod. It is written down now, and made when that is seen to
// stand: a crash in between leaves a record that says what was meant.
func (r *run) attempt(rem *api.Remediation, m *Machine, live liveFact, well bool, n int32) checking {
	if reason, says := r.unready(rem, m, live, well); reason != "" {
		return checking{waits: reason, says: says}
	}
	r.lookAt(r.now.Add(time.Millisecond))
	return r.conclude(rem, &api.NodeCheckRecord{
		Attempt: n, Pod: fmt.Sprintf("check-%s-%d", rem.Name, n), NodeUID: live.node.UID, BootID: live.node.BootID,
		Result: api.NodeCheckPending, RequestedAt: metav1.NewTime(r.now.Truncate(time.Second)),
	})
}

// unready says why no pod is to be made on the node now.
func (r *run) unready(rem *api.Remediation, m *Machine, live liveFact, well bool) (Reason, string) {
	t := rem.Spec.Target
	cell := r.ix.cells[t.Cell]
	switch {
	case !slices.Contains(cell.CheckedClusters, t.Cluster):
		return ReasonNodeCheckUnavailable, fmt.Sprintf(
			"the repair asks for a node check, and Cluster %s in cell %s names no spec.nodeCheckKubeconfigSecret", t.Cluster, t.Cell)
	case cell.Paused || m.Paused || slices.Contains(cell.PausedClusters, t.Cluster) || r.policyPaused(rem.Spec.PolicyName):
		return ReasonPaused, "the node check is not begun: the policy, cell, cluster or machine is paused or being deleted"
	case !well:
		return ReasonAwaitingVerification, "the node check, which begins when the live node is well"
	case live.node.UID == "" || live.node.BootID == "":
		return ReasonIdentityUnknown, "the node check is not begun: the Node has no UID or boot id to bind its result to"
	}
	if reason, says := r.frozen(place{cell, m}); reason != "" {
		return reason, "the node check is not begun: " + says
	}
	return "", ""
}

func (r *run) policyPaused(name string) bool {
	i := slices.IndexFunc(r.policies, func(p *api.RemediationPolicy) bool { return p.Name == name })
	return i >= 0 && paused(r.policies[i])
}

// among adds the check to what else is missing.
func (c checking) among(missing []string) []string {
	if c.says == "" {
		return missing
	}
	return append(missing, c.says)
}

// agreed is the message of a repair that is verified.
func (c checking) agreed() string {
	if c.record == nil {
		return "every central and the live node agree that the target is well"
	}
	return "every central, the live node and its node check agree that the target is well"
}

func (c checking) signals() []api.SignalRecord {
	if c.record == nil {
		return nil
	}
	s := api.SignalRecord{Source: "node-check", ObservedAt: c.record.RequestedAt,
		Says: fmt.Sprintf("pod %s passed, boot id %s", c.record.Pod, c.record.BootID)}
	if c.record.FinishedAt != nil {
		s.ObservedAt = *c.record.FinishedAt
	}
	return []api.SignalRecord{s}
}
