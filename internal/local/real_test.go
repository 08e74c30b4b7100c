package local_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/components"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/proc"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// realPart runs the part of the plan that makes one business cluster: etcd, its
// API server and its kwok, with the real programs.
func realPart(t *testing.T, f *local.Fleet, shop layout.Cluster) (end func()) {
	t.Helper()
	l := f.Layout
	require.NoError(t, components.WriteCredentials(l, time.Now()))
	require.NoError(t, os.WriteFile(l.StagesFile(), components.Stages, 0o600))
	require.NoError(t, os.MkdirAll(l.HomeDir(), 0o700))
	require.NoError(t, os.MkdirAll(l.PreparedDir(), 0o700))
	require.NoError(t, os.WriteFile(l.PreparedFile(shop), nil, 0o600))
	found := map[string]string{}
	for _, name := range []string{"etcd", "kube-apiserver", "kwok"} {
		found[name] = testkit.Binary(t, name)
	}
	plan := components.Plan(components.Options{Layout: l, Binaries: found})
	wanted := []string{layout.Etcd, layout.APIServer(shop), layout.Kwok(shop)}
	plan.Components = slices.DeleteFunc(plan.Components, func(c supervisor.Component) bool { return !slices.Contains(wanted, c.Name) })
	for i := range plan.Components {
		for j, arg := range plan.Components[i].Args { // its own rights are the business of package bootstrap
			plan.Components[i].Args[j] = strings.Replace(arg, filepath.Join(l.PKIDir("shop"), "kwok.yaml"), l.Kubeconfig(shop), 1)
		}
	}
	s, err := supervisor.New(supervisor.Options{
		Plan: plan, StatusFile: l.StatusFile(), EventsFile: l.EventsFile(), LogDir: l.LogDir(), Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	end = func() {
		cancel()
		require.NoError(t, <-done)
	}
	if !waitReady(s, time.Minute) {
		end()
		t.Fatalf("not ready: %+v", s.Status().Components)
	}
	return end
}

func waitReady(s *supervisor.Supervisor, timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if ok, _ := s.Status().Ready(); ok {
			return true
		}
	}
	return false
}

// TestKubeletLivesAndDiesByItsLabel proves on the real programs what every fault
// rests on: a node with the label is Ready and its Lease is renewed, a node
// without it is left alone, and a node that gets it back recovers.
func TestKubeletLivesAndDiesByItsLabel(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet with space"))
	shop, err := layout.ClusterByName("shop")
	require.NoError(t, err)
	end := realPart(t, f, shop)
	t.Cleanup(func() {
		end()
		left, err := proc.Marked(layout.FleetEnv, f.Layout.Dir)
		require.NoError(t, err)
		require.Empty(t, left)
		require.NoError(t, local.CheckPorts(f.Layout), "every port is free again")
	})
	config, err := f.Config(shop)
	require.NoError(t, err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)

	running := map[string]string{layout.LabelKubelet: layout.KubeletRunning}
	require.NoError(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alive", Labels: running}}))
	require.NoError(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "never"}}))
	first := awaitRenewed(t, c, "alive", time.Time{})
	require.Eventually(t, func() bool { return nodeReady(t, c, "alive") }, time.Minute, 50*time.Millisecond)
	require.False(t, nodeReady(t, c, "never"))
	requirePodsRun(t, c, "alive")

	awaitRenewed(t, c, "alive", first)
	label(t, c, "alive", `null`)
	last := renewed(t, c, "alive")
	time.Sleep(7 * time.Second) // one renewal is due every five seconds
	require.WithinDuration(t, last, renewed(t, c, "alive"), time.Second, "a dead kubelet renews nothing")
	label(t, c, "alive", `"running"`)
	awaitRenewed(t, c, "alive", time.Now().Add(-time.Second))
}

func label(t *testing.T, c client.Client, node, value string) {
	t.Helper()
	patch := `{"metadata":{"labels":{"` + layout.LabelKubelet + `":` + value + `}}}`
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	require.NoError(t, c.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func nodeReady(t *testing.T, c client.Client, name string) bool {
	t.Helper()
	var n corev1.Node
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, &n))
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// renewed is when the node's Lease was last renewed; zero when there is none.
func renewed(t *testing.T, c client.Client, name string) time.Time {
	t.Helper()
	var lease coordinationv1.Lease
	err := c.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, &lease)
	if client.IgnoreNotFound(err) != nil {
		require.NoError(t, err)
	}
	if err != nil || lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

func awaitRenewed(t *testing.T, c client.Client, name string, after time.Time) time.Time {
	t.Helper()
	require.Eventually(t, func() bool { return renewed(t, c, name).After(after) }, time.Minute, 50*time.Millisecond)
	return renewed(t, c, name)
}
