package nodecheck_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/nodecheck"
)

var (
	began = metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	end   = metav1.NewTime(time.Now().Add(-time.Second).Truncate(time.Second))
)

// ended is the status of a pod whose container ran to an end.
func ended(phase corev1.PodPhase, exit int32, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "check", Image: "check:1", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exit, Reason: reason, Message: message, StartedAt: began, FinishedAt: end,
		}},
	}}}
}

func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "check", Image: "check:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

// because is a status with a reason of the pod itself.
func because(s corev1.PodStatus, reason, message string) corev1.PodStatus {
	s.Reason, s.Message = reason, message
	return s
}

// disrupted is a status in which whoever evicted the pod has said so.
func disrupted(s corev1.PodStatus) corev1.PodStatus {
	s.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "drained"}}
	return s
}

// unbegun is what a kubelet writes of a container that it ended before it began.
func unbegun(s corev1.PodStatus) corev1.PodStatus {
	s.ContainerStatuses[0].State.Terminated.StartedAt = metav1.Time{}
	return s
}

// in1970 is what a container runtime says of a container that it could not start.
func in1970(s corev1.PodStatus) corev1.PodStatus {
	s.ContainerStatuses[0].State.Terminated.StartedAt = metav1.Unix(0, 0)
	return s
}

func running() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "check", Image: "check:1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
	}}}
}

func testResults(t *testing.T, b business) {
	const deadline = "DeadlineExceeded"
	for name, tc := range map[string]struct {
		status  corev1.PodStatus
		result  api.NodeCheckResult
		reason  string
		message string
		exit    int32 // -1: none
	}{
		"waits for its image": {waiting("ErrImagePull", "no such image"), api.NodeCheckRunning, "ErrImagePull", "no such image", -1},
		"runs":                {running(), api.NodeCheckRunning, "", "", -1},
		"passes":              {ended(corev1.PodSucceeded, 0, "Completed", ""), api.NodeCheckPass, "Completed", "", 0},
		"succeeds, nobody knows how": {corev1.PodStatus{Phase: corev1.PodSucceeded}, api.NodeCheckNotRun, "NoExitCode",
			"the pod succeeded, and its container is not known to have exited with 0", -1},
		"fails":             {ended(corev1.PodFailed, 3, "Error", "disk\n\x1b[31msda\u202e is slow"), api.NodeCheckFail, "Error", "disk sda is slow", 3},
		"is out of memory":  {ended(corev1.PodFailed, 137, "OOMKilled", ""), api.NodeCheckFail, "OOMKilled", "", 137},
		"outlives its time": {because(ended(corev1.PodFailed, 137, "Error", "step 3"), deadline, "too long"), api.NodeCheckTimeout, deadline, "too long step 3", -1},
		"never gets an image": {because(unbegun(ended(corev1.PodFailed, 137, "ContainerStatusUnknown", "")), deadline, "too long"),
			api.NodeCheckNotRun, deadline, "too long", -1},
		"is evicted":                     {because(ended(corev1.PodFailed, 137, "Error", ""), "Evicted", "low on memory"), api.NodeCheckNotRun, "Evicted", "low on memory", -1},
		"is evicted, and exits with 0":   {because(ended(corev1.PodSucceeded, 0, "Completed", ""), "Evicted", "low on memory"), api.NodeCheckNotRun, "Evicted", "low on memory", -1},
		"is disrupted, and exits with 0": {disrupted(ended(corev1.PodSucceeded, 0, "Completed", "")), api.NodeCheckNotRun, "EvictionByEvictionAPI", "drained", -1},
		"is disrupted, and fails":        {disrupted(ended(corev1.PodFailed, 143, "Error", "")), api.NodeCheckNotRun, "EvictionByEvictionAPI", "drained", -1},
		"is refused by a kubelet":        {because(corev1.PodStatus{Phase: corev1.PodFailed}, "OutOfcpu", "no room"), api.NodeCheckNotRun, "OutOfcpu", "no room", -1},
		"cannot begin":                   {unbegun(ended(corev1.PodFailed, 128, "StartError", "no such file: /check")), api.NodeCheckNotRun, "StartError", "no such file: /check", -1},
		"cannot begin, in 1970":          {in1970(ended(corev1.PodFailed, 128, "StartError", "no such file: /check")), api.NodeCheckNotRun, "StartError", "no such file: /check", -1},
		"another container fails": {ended(corev1.PodFailed, 0, "Completed", ""), api.NodeCheckNotRun, "OtherContainer",
			"the check exited with 0, and another container of its pod failed", -1},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			s := startOf("r" + strings.Trim(strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""), "-"))
			b.becomes(b.start(s), tc.status)
			read := b.list(s.Remediation)
			require.Len(t, read, 1)
			require.Equal(t, tc.result, read[0].Result)
			require.Equal(t, tc.reason, read[0].Reason)
			require.Equal(t, tc.message, read[0].Message)
			if tc.exit < 0 {
				require.Nil(t, read[0].ExitCode)
			} else {
				require.Equal(t, tc.exit, *read[0].ExitCode)
			}
			if tc.result == api.NodeCheckPass {
				require.True(t, began.Time.Equal(read[0].Started))
				require.True(t, end.Time.Equal(read[0].Finished))
			}
		})
	}
	t.Run("a long message keeps its end", func(t *testing.T) {
		b.t = t
		b.becomes(b.start(startOf("long")), ended(corev1.PodFailed, 1, "Error", strings.Repeat("é", 600)+"the end"))
		message := b.list("long")[0].Message
		require.LessOrEqual(t, len(message), 512)
		require.True(t, strings.HasPrefix(message, "...é"), message)
		require.True(t, strings.HasSuffix(message, "the end"))
	})
}

// A check's output must neither colour nor overwrite a terminal, nor read
// otherwise than it is written.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"disk sda":                                 "disk sda",
		"\x1b[1;31mdisk\x1b[0m sda":                "disk sda",
		"\x1b[2J\x1b[1;1Hall is well":              "all is well",
		"\x1b]0;title\x07disk":                     "disk",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b]never ends":                          "never ends",
		"\u009b31mdisk":                            "disk",
		"\x1b(Bdisk\x1b":                           "disk",
		"a\u202etxt\u2066b\u200f\u061cc":           "atxtbc",
		"so\u200bft\ufeff":                         "soft",
		"one\r\n two\tthree\x00":                   "one two three",
		"\xff":                                     "?",
	} {
		require.Equal(t, want, nodecheck.Plain(in), "%q", in)
	}
}
