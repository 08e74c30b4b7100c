package cell

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// A cell grows and shrinks on a real API server, which refuses to change the
// volumes of a StatefulSet.
func TestACellGrowsAndShrinks(t *testing.T) {
	w := newWorld(t)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	})
	w.secret(t, "asia-1", w.access)
	change := func(spec func(*v1alpha1.CellSpec)) {
		t.Helper()
		c := w.Cell(t, "asia-1")
		spec(&c.Spec)
		require.NoError(t, w.Admin.Update(t.Context(), c))
		w.reconcile(t, "asia-1")
	}
	change(func(s *v1alpha1.CellSpec) { s.Size = v1alpha1.CellSmall })
	requireSize(t, w, "edge", v1alpha1.CellSmall, v1alpha1.CellSmall)
	first := w.StatefulSet(t, "edge")

	// It stays the same server, with more memory and the volume that it has.
	change(func(s *v1alpha1.CellSpec) { s.Size, s.Edge.Replicas = v1alpha1.CellLarge, ptr.To(int32(2)) })
	w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "waiting for edge, edge-0-b, edge-1-a, edge-1-b, edge-agent")
	require.Equal(t, first.UID, w.StatefulSet(t, "edge").UID)
	requireSize(t, w, "edge", v1alpha1.CellLarge, v1alpha1.CellSmall)
	requireRoom(t, w, "edge", "16384MB")
	for i, name := range []string{"edge-0-b", "edge-1-a", "edge-1-b"} {
		requireSize(t, w, name, v1alpha1.CellLarge, v1alpha1.CellLarge)
		requireRoom(t, w, name, "122880MB")
		w.RunPod(t, w.Settle(t, name), name+"-0", "127.94.3."+string(rune('1'+i)))
	}
	w.reconcile(t, "asia-1")
	for shard, name := range []string{"edge-0", "edge-1"} {
		budget := &policyv1.PodDisruptionBudget{}
		require.NoError(t, w.Admin.Get(t.Context(), testkit.Key(name), budget))
		require.Equal(t, strconv.Itoa(shard), budget.Spec.Selector.MatchLabels[v1alpha1.LabelShard])
		require.NotContains(t, budget.Spec.Selector.MatchLabels, v1alpha1.LabelReplica, "of both servers one stays")
	}
	status := w.Cell(t, "asia-1").Status
	require.Equal(t, []v1alpha1.EdgeServer{
		{Shard: 0, Replica: "a"}, {Shard: 0, Replica: "b", Endpoint: "127.94.3.1:9090"},
		{Shard: 1, Replica: "a", Endpoint: "127.94.3.2:9090"}, {Shard: 1, Replica: "b", Endpoint: "127.94.3.3:9090"},
	}, status.EdgeServers, "each server knows its own pod, and no other's")
	require.Equal(t, []string{"127.94.3.1:9090", "127.94.3.2:9090", "127.94.3.3:9090"}, status.EdgeEndpoints)

	change(func(s *v1alpha1.CellSpec) { s.Size, s.Edge.Replicas = v1alpha1.CellMedium, nil })
	requireSize(t, w, "edge", v1alpha1.CellMedium, v1alpha1.CellSmall)
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("edge-1-a"), &appsv1.StatefulSet{})))
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("edge-1-a"), &corev1.ConfigMap{})))
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("edge-0"), &policyv1.PodDisruptionBudget{})), "a single server may always be moved")
	require.Empty(t, w.Cell(t, "asia-1").Status.EdgeEndpoints)
}

// A cell follows the division that the Federation has come to, step by step, on a
// real API server: what it asks for itself has to wait.
func TestACellIsDividedAsTheFederationSays(t *testing.T) {
	w := newWorld(t)
	f := &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	}
	w.Create(t, f)
	w.secret(t, "asia-1", w.access)
	c := w.Cell(t, "asia-1")
	c.Spec.Edge.Shards = ptr.To(int32(2))
	require.NoError(t, w.Admin.Update(t.Context(), c))
	const both, second = "regex: 0;.*|.*;0", "regex: 1;.*|.*;1"
	for _, step := range []struct {
		name           string
		told           v1alpha1.CellPlacement
		edge, edge1    string
		secondIsServed bool
	}{
		{"one server has everything", v1alpha1.CellPlacement{EdgeShards: 1}, "", "", false},
		{"the second is made beside it", v1alpha1.CellPlacement{EdgeShards: 1, EdgeShardsBeside: ptr.To(int32(2))}, both, second, true},
		{"both are expected", v1alpha1.CellPlacement{EdgeShards: 2, EdgeShardsBeside: ptr.To(int32(1))}, both, second, true},
		{"each has its own", v1alpha1.CellPlacement{EdgeShards: 2}, `regex: "0"`, `regex: "1"`, true},
	} {
		step.told.Name = "asia-1"
		f.Status.Geographies = []v1alpha1.GeographyStatus{{Name: "asia", Cells: []v1alpha1.CellPlacement{step.told}}}
		w.SetStatus(t, f)
		w.reconcile(t, "asia-1")
		require.Contains(t, w.Text(t, "edge"), step.edge, step.name)
		err := w.Admin.Get(t.Context(), testkit.Key("edge-1-a"), &appsv1.StatefulSet{})
		if !step.secondIsServed {
			require.True(t, apierrors.IsNotFound(err), step.name)
			require.NotContains(t, w.Text(t, "edge"), "hashmod", step.name)
			continue
		}
		require.NoError(t, err, step.name)
		require.Contains(t, w.Text(t, "edge-1-a"), step.edge1, step.name)
	}
}

// requireSize compares what a server is given and the volume that it has with
// what cells of those sizes ask for.
func requireSize(t *testing.T, w *world, name string, given, volume v1alpha1.CellSize) {
	t.Helper()
	s := w.StatefulSet(t, name)
	memory := s.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory]
	require.Equal(t, edge.SizingOf(given).Memory, memory.String())
	disk := s.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
	require.Equal(t, edge.SizingOf(volume).Volume, disk.String())
}

// requireRoom checks that what a server keeps is bounded by the volume that it has.
func requireRoom(t *testing.T, w *world, name, blocks string) {
	t.Helper()
	require.Contains(t, w.StatefulSet(t, name).Spec.Template.Spec.Containers[0].Args, "--storage.tsdb.retention.size="+blocks)
}

// twoPairs is a cell whose edge has two shards of two servers each, which run.
type twoPairs struct{ *world }

var ofTwoPairs = []string{"edge", "edge-0-b", "edge-1-a", "edge-1-b"}

func newTwoPairs(t *testing.T) twoPairs {
	t.Helper()
	p := twoPairs{newWorld(t)}
	p.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	})
	p.secret(t, "asia-1", p.access)
	c := p.Cell(t, "asia-1")
	c.Spec.Edge.Shards, c.Spec.Edge.Replicas = ptr.To(int32(2)), ptr.To(int32(2))
	require.NoError(t, p.Admin.Update(t.Context(), c))
	p.reconcile(t, "asia-1")
	for _, name := range ofTwoPairs {
		require.EqualValues(t, 135, p.StatefulSet(t, name).Spec.MinReadySeconds, "nine intervals")
		p.comes(t, name) // both were made at once
		p.settles(t, name, 1)
	}
	p.reconcile(t, "asia-1")
	return p
}

// comes plays the controllers and the kubelet: the pod is ready.
func (p twoPairs) comes(t *testing.T, name string) {
	t.Helper()
	p.RunPod(t, p.Settle(t, name), name+"-0", strings.TrimSuffix(p.at(name), ":9090"))
	p.SetReady(t, name+"-0")
}

func (p twoPairs) goes(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, p.Admin.Delete(t.Context(), p.Pod(t, name+"-0"), client.GracePeriodSeconds(0)))
	p.settles(t, name, 0)
}

// settles plays the StatefulSet's controller: its pod has been ready for long enough, or not.
func (p twoPairs) settles(t *testing.T, name string, available int32) {
	t.Helper()
	s := p.StatefulSet(t, name)
	s.Status.Replicas, s.Status.ReadyReplicas, s.Status.AvailableReplicas = 1, 1, available
	p.SetStatus(t, s)
}

func (p twoPairs) images(t *testing.T) (out []string) {
	t.Helper()
	for _, name := range ofTwoPairs {
		out = append(out, p.StatefulSet(t, name).Spec.Template.Spec.Containers[0].Image)
	}
	return out
}

// look gives what the Cell says after a look.
func (p twoPairs) look(t *testing.T) string {
	t.Helper()
	p.reconcile(t, "asia-1")
	return p.Cell(t, "asia-1").Status.Conditions[0].Message
}

// A change reaches the servers of a pair one after the other, and of two pairs each
// by itself, on a real API server.
func TestAPairIsChangedInTurn(t *testing.T) {
	p := newTwoPairs(t)
	f := &v1alpha1.Federation{}
	f.Name = "fleet"
	require.NoError(t, p.Admin.Get(t.Context(), client.ObjectKeyFromObject(f), f))
	f.Spec.Images.Prometheus = "next"
	require.NoError(t, p.Admin.Update(t.Context(), f))
	const old = workload.DefaultPrometheusImage
	require.Contains(t, p.look(t), "edge-0-b is left as it is until edge has taken up what it was given: edge was changed just now")
	require.Equal(t, []string{"next", old, "next", old}, p.images(t))
	require.Contains(t, p.look(t), "edge-1-b is left as it is until edge-1-a has taken up what it was given: edge-1-a is not ready")

	// The first one of the second pair is back; that of the first has lost its node.
	p.goes(t, "edge")
	p.goes(t, "edge-1-a")
	p.comes(t, "edge-1-a")
	require.Contains(t, p.look(t), "edge-1-a has not been ready for long enough")
	// The second of the first pair restarts meanwhile: it must come back as it was.
	p.goes(t, "edge-0-b")
	p.settles(t, "edge-1-a", 1)
	said := p.look(t)
	require.Contains(t, said, "edge-0-b is left as it is")
	require.NotContains(t, said, "edge-1-b is left")
	require.Equal(t, []string{"next", old, "next", "next"}, p.images(t))
	p.comes(t, "edge-0-b")
	p.comes(t, "edge")
	p.settles(t, "edge", 1)
	require.NotContains(t, p.look(t), "is left as it is")
	require.Equal(t, []string{"next", "next", "next", "next"}, p.images(t))
	for _, name := range []string{"edge-0-b", "edge-1-b"} {
		p.goes(t, name)
		p.comes(t, name)
	}
	p.pairBecomesOne(t)
}

// One server is enough from now on, while the first one of the first pair is lost, and
// an image is given that takes the first of the second pair a while.
func (p twoPairs) pairBecomesOne(t *testing.T) {
	t.Helper()
	p.goes(t, "edge")
	f := p.Federation(t, "fleet")
	f.Spec.Images.Prometheus = "last"
	require.NoError(t, p.Admin.Update(t.Context(), f))
	c := p.Cell(t, "asia-1")
	c.Spec.Edge.Replicas = nil
	require.NoError(t, p.Admin.Update(t.Context(), c))
	require.Contains(t, p.look(t), "edge-0-b stays, though one server is asked for, until edge is well: edge was changed just now")
	said := p.look(t)
	require.Contains(t, said, "edge-0-b stays, though one server is asked for, until edge is well: edge is not ready")
	require.Contains(t, said, "edge-1-b stays, though one server is asked for, until edge-1-a is well: edge-1-a is not ready")
	require.Equal(t, []string{"last", "next", "last", "next"}, p.images(t))
	require.Contains(t, p.Cell(t, "asia-1").Status.EdgeServers, v1alpha1.EdgeServer{Shard: 0, Replica: "b", Endpoint: p.at("edge-0-b")}, "the cascade goes on reading it")

	p.goes(t, "edge-1-a")
	p.comes(t, "edge-1-a")
	require.Contains(t, p.look(t), "edge-1-a has not been ready for long enough", "the cascade does not know its new address yet")
	p.settles(t, "edge-1-a", 1)
	require.NotContains(t, p.look(t), "edge-1-b")
	gone := func(name string) bool {
		return apierrors.IsNotFound(p.Admin.Get(t.Context(), testkit.Key(name), &appsv1.StatefulSet{}))
	}
	require.True(t, gone("edge-1-b"))
	require.False(t, gone("edge-0-b"), "it is the only one that is well")

	change := regexp.MustCompile(`To let edge-0-b go all the same: kubectl annotate --overwrite cell asia-1 pharos.dev/proceed=(\S+)`).FindStringSubmatch(p.look(t))
	require.NotNil(t, change)
	c = p.Cell(t, "asia-1")
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, workload.AnnotationProceed, change[1])
	require.NoError(t, p.Admin.Update(t.Context(), c))
	p.look(t)
	require.True(t, gone("edge-0-b"), "a person lets it go")
}

// at is where the pod of a server is.
func (p twoPairs) at(name string) string { return "127.94.4." + string(rune('1'+len(name))) + ":9090" }
