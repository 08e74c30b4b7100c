package kubelet_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// logsOf reads logs as kubectl does: through the API server.
func (n *testNode) logsOf(name string, o corev1.PodLogOptions) (string, error) {
	n.t.Helper()
	data, err := client.CoreV1().Pods(n.namespace).GetLogs(name, &o).DoRaw(n.t.Context())
	return string(data), err
}

func TestLogsThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.pod("talk", "-c", "echo one; echo two >&2; echo three; exit 3")
	p.Spec.Containers[0].Command = []string{"sh"}
	n.create(p)
	n.wait("talk", "it was restarted", func(p *corev1.Pod) bool { return mainStatus(p).RestartCount >= 1 })
	eventually(t, "the log is complete", func() error {
		text, err := n.logsOf("talk", corev1.PodLogOptions{Previous: true})
		if err == nil && text != "one\ntwo\nthree\n" {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	last := int64(1)
	text, err := n.logsOf("talk", corev1.PodLogOptions{Previous: true, TailLines: &last})
	require.NoError(t, err)
	require.Equal(t, "three\n", text)
	text, err = n.logsOf("talk", corev1.PodLogOptions{Previous: true, TailLines: &last, Timestamps: true})
	require.NoError(t, err)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*Z three\n$`, text)
}

func TestFinishedPodsKeepTheirLogsThroughARestart(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.pod("job", "exit", "the", "result")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	n.create(p)
	n.wait("job", "it is done", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	n.stop()
	n.start()
	eventually(t, "the log is served", func() error {
		text, err := n.logsOf("job", corev1.PodLogOptions{})
		if err == nil && text != "the result\n" {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	_, err := n.logsOf("job", corev1.PodLogOptions{Previous: true})
	require.True(t, apierrors.IsNotFound(err), "there is no earlier run: %v", err)
}

func TestFollowEndsWithTheContainer(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.create(n.pod("count", "count"))
	n.waitReady("count")
	var stream io.ReadCloser
	// The pod may run before the API server knows the node that it asks.
	eventually(t, "the log is served", func() (err error) {
		stream, err = client.CoreV1().Pods(n.namespace).GetLogs("count", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		return err
	})
	defer stream.Close()
	in := bufio.NewReader(stream)
	for range 30 {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(line, "line "))
	}
	n.delete("count")
	_, err := io.Copy(io.Discard, in)
	require.NoError(t, err, "the stream ends, and ends well")
}
