package kubelet_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/local/kubelet"
)

// childOptions are what a kubelet in a process of its own needs.
type childOptions struct {
	Node, Root, PodCIDR, Listen, Tool string
	Host                              string
	CA, Cert, Key                     []byte
}

// TestRunAsChild is not a test: it is the kubelet that TestKilledKubeletLeavesNothing kills.
func TestRunAsChild(t *testing.T) {
	data := os.Getenv(roleVariable)
	if data == "" {
		return
	}
	var o childOptions
	require.NoError(t, json.Unmarshal([]byte(data), &o))
	k, err := kubelet.New(kubelet.Options{
		Config:   &rest.Config{Host: o.Host, TLSClientConfig: rest.TLSClientConfig{CAData: o.CA, CertData: o.Cert, KeyData: o.Key}},
		NodeName: o.Node, Root: o.Root, PodCIDR: o.PodCIDR, Listen: o.Listen,
		Images: map[string]string{toolImage: o.Tool}, Log: slog.Default(), Registry: newRegistry(),
	})
	require.NoError(t, err)
	require.NoError(t, k.Run(t.Context()))
}

func TestKilledKubeletLeavesNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	data, err := json.Marshal(childOptions{
		Node: n.name, Root: n.root, PodCIDR: n.opts.PodCIDR, Listen: n.opts.Listen, Tool: toolBinary,
		Host: api.Host, CA: api.CAData, Cert: api.CertData, Key: api.KeyData,
	})
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(self, "-test.run=^TestRunAsChild$")
	child.Env = append(os.Environ(), roleVariable+"="+string(data))
	child.Stderr = n.log
	require.NoError(t, child.Start())

	n.create(n.server("web"))
	n.create(n.server("parent", "--child"))
	n.waitReady("web")
	n.waitReady("parent")
	require.Len(t, n.processes(), 3)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	eventually(t, "the containers are gone", func() error {
		if left := n.processes(); len(left) > 1 {
			return os.ErrExist
		}
		return nil
	})

	n.start() // the next kubelet ends the grandchild that left its group, and runs the pods again
	n.wait("parent", "it runs again", func(p *corev1.Pod) bool { return mainStatus(p).RestartCount == 1 && ready(p) })
	n.wait("web", "it runs again", func(p *corev1.Pod) bool { return mainStatus(p).RestartCount == 1 && ready(p) })
	require.Len(t, n.processes(), 3)
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := kubelet.New(kubelet.Options{
		NodeName: "Not A Name", Root: "relative", PodCIDR: "10.0.0.0/24", Listen: "0.0.0.0:1", CertFile: "x",
		Images: map[string]string{"a": "relative", "b": filepath.Join(t.TempDir(), "none")},
	})
	for _, want := range []string{"API server", "logger", "Not A Name", "relative", "10.0.0.0/24", "0.0.0.0:1", "key file", "image a", "image b"} {
		require.ErrorContains(t, err, want)
	}
}

// What fails while the API server does not answer yet is told, and is not taken for the wish to end.
func TestFailureBeforeTheAPIServerAnswersIsTold(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	k, err := kubelet.New(kubelet.Options{
		Config: &rest.Config{Host: "https://127.90.126.1:1"}, NodeName: "alone", Root: t.TempDir(), PodCIDR: "127.90.125.0/24",
		Listen: "127.90.125.2:19090", CertFile: missing, KeyFile: missing, Log: slog.New(slog.DiscardHandler), Registry: newRegistry(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.ErrorContains(t, k.Run(ctx), missing)
	require.NoError(t, ctx.Err(), "it ended by itself")
}

func TestEndsWhenTheAPIServerNeverAnswers(t *testing.T) {
	t.Parallel()
	k, err := kubelet.New(kubelet.Options{
		Config: &rest.Config{Host: "https://127.90.126.1:1"}, NodeName: "alone", Root: t.TempDir(), PodCIDR: "127.90.126.0/24",
		Listen: "127.90.126.2:19090", Log: slog.New(slog.DiscardHandler), Registry: newRegistry(),
	})
	require.NoError(t, err)
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	go func() { done <- k.Run(ctx) }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("the kubelet did not end")
	}
}
