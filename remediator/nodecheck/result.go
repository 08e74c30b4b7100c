package nodecheck

import (
	"cmp"
	"regexp"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Bounds of what is taken over from a pod, which anybody may have written.
const (
	maxReason  = 63
	maxMessage = 512
)

// clocks is how far a node's clock, which says when its check ended, may lie from
// the API server's, which says when the pod was deleted.
const clocks = 5 * time.Second

// reasonDeadline is the kubelet's word for a pod that outlived its deadline.
const reasonDeadline = "DeadlineExceeded"

// read says what a pod says of itself. Only a container that is known to have
// begun and ended by itself has passed or failed; a pod that was ended from
// outside, or whose container never began, tells nothing of the node.
func read(pod *corev1.Pod) policy.CheckPod {
	out := policy.CheckPod{
		Name: pod.Name, UID: string(pod.UID), Created: pod.CreationTimestamp.Time, Deleting: pod.DeletionTimestamp != nil,
		NodeUID: pod.Annotations[api.AnnotationNodeUID], BootID: pod.Annotations[api.AnnotationBootID], Node: pod.Spec.NodeName,
	}
	c := containerOf(pod)
	out.Image, out.Command, out.Args = c.Image, c.Command, c.Args
	state := stateOf(pod)
	out.Started, out.Finished = times(state)
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		succeeded(&out, pod, state)
	case corev1.PodFailed:
		failed(&out, pod, state)
	default:
		out.Result = api.NodeCheckRunning
		if w := state.Waiting; w != nil {
			out.Reason, out.Message = w.Reason, w.Message
		}
	}
	out.Reason, out.Message = policy.Tail(plain(out.Reason), maxReason), policy.Tail(plain(out.Message), maxMessage)
	return out
}

func stateOf(pod *corev1.Pod) corev1.ContainerState {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == containerName {
			return s.State
		}
	}
	return corev1.ContainerState{}
}

// times are zero where the kubelet does not say.
func times(s corev1.ContainerState) (started, finished time.Time) {
	switch {
	case s.Terminated != nil:
		return known(s.Terminated.StartedAt), known(s.Terminated.FinishedAt)
	case s.Running != nil:
		return known(s.Running.StartedAt), time.Time{}
	}
	return time.Time{}, time.Time{}
}

// known is zero for what a container runtime has no time of: it says 1970.
func known(t metav1.Time) time.Time {
	if t.Unix() <= 0 {
		return time.Time{}
	}
	return t.Time
}

// succeeded does not take for a pass what a check answers when it is told to end:
// many programs exit with 0 then.
func succeeded(out *policy.CheckPod, pod *corev1.Pod, s corev1.ContainerState) {
	disrupted, says := disruption(pod)
	switch {
	case disrupted != "":
		out.Result, out.Reason, out.Message = api.NodeCheckNotRun, disrupted, says
	case s.Terminated == nil || s.Terminated.ExitCode != 0:
		out.Result, out.Reason, out.Message = api.NodeCheckNotRun, "NoExitCode", "the pod succeeded, and its container is not known to have exited with 0"
	case out.Deleting && !out.Finished.Before(toldToEnd(pod).Add(-clocks)):
		out.Result, out.Reason, out.Message = api.NodeCheckNotRun, "PodDeleted", "somebody deleted the pod, and it ended when it was told to"
	default:
		out.Result, out.Reason, out.ExitCode = api.NodeCheckPass, s.Terminated.Reason, &s.Terminated.ExitCode
	}
}

// toldToEnd is when a pod that is being deleted was told so: the API server notes
// when its grace is over.
func toldToEnd(pod *corev1.Pod) time.Time {
	grace := pod.DeletionGracePeriodSeconds
	if grace == nil {
		grace = pod.Spec.TerminationGracePeriodSeconds
	}
	told := pod.DeletionTimestamp.Time
	if grace != nil {
		told = told.Add(-time.Duration(*grace) * time.Second)
	}
	return told
}

// disruption is why a pod was ended from outside, by the word of the kubelet or of
// whoever evicted it; empty if nobody says so.
func disruption(pod *corev1.Pod) (reason, message string) {
	if pod.Status.Reason != "" {
		return pod.Status.Reason, pod.Status.Message
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return cmp.Or(c.Reason, string(c.Type)), c.Message
		}
	}
	return "", ""
}

func failed(out *policy.CheckPod, pod *corev1.Pod, s corev1.ContainerState) {
	why, says := disruption(pod)
	began := !out.Started.IsZero()
	switch {
	case out.Deleting:
		out.Result, out.Reason, out.Message = api.NodeCheckNotRun, "PodDeleted", "somebody deleted the pod before it had ended"
	case why == reasonDeadline && began:
		out.Result, out.Reason, out.Message = api.NodeCheckTimeout, why, says
		if s.Terminated != nil {
			out.Message += " " + s.Terminated.Message
		}
	case why != "":
		// Evicted, refused by the kubelet, killed by a shutdown: not the check's own end.
		out.Result, out.Reason, out.Message = api.NodeCheckNotRun, why, says
	case s.Terminated == nil || !began:
		out.Result, out.Reason, out.Message = api.NodeCheckNotRun, "NoExitCode", "the pod failed, and its container is not known to have begun"
		if s.Terminated != nil && s.Terminated.Reason != "" {
			out.Reason, out.Message = s.Terminated.Reason, s.Terminated.Message
		}
	case s.Terminated.ExitCode == 0:
		out.Result, out.Reason, out.Message = api.NodeCheckNotRun, "OtherContainer", "the check exited with 0, and another container of its pod failed"
	default:
		out.Result, out.Reason, out.Message = api.NodeCheckFail, s.Terminated.Reason, s.Terminated.Message
		out.ExitCode = &s.Terminated.ExitCode
	}
}

// escapes are the sequences that a terminal obeys: with parameters, with a text of
// their own, and plain ones. Without them whole, their rest would stand in the text.
var escapes = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]?" +
	"|(?:\x1b[\\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\x07\x1b\u009c]*(?:\x07|\x1b\\\\|\u009c)" +
	"|\x1b[ -/]*[0-~]?")

// plain is text on one line, without what colours a terminal, moves its cursor, or
// turns, joins or hides letters.
func plain(s string) string {
	s = escapes.ReplaceAllString(strings.ToValidUTF8(s, "?"), "")
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}
