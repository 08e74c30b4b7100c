package cell

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/operator/workload"
)

func pair() (*v1alpha1.Cell, *v1alpha1.Federation) {
	c := &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: "asia-1"},
		Spec:       v1alpha1.CellSpec{Geography: "asia", Region: "east", KubeconfigSecret: "asia-1"},
	}
	f := &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	}
	return c, f
}

func TestEveryServerOfAnEdge(t *testing.T) {
	c, f := pair()
	c.Spec.Edge.Shards, f.Spec.Edge.Replicas, f.Spec.Edge.Retention = ptr.To(int32(2)), ptr.To(int32(2)), "30h"
	r, err := Render(c, f, "pharos-system")
	require.NoError(t, err)
	want := map[string][2]string{"edge": {"0", "a"}, "edge-0-b": {"0", "b"}, "edge-1-a": {"1", "a"}, "edge-1-b": {"1", "b"}}
	require.Len(t, r.Files, len(want))
	seen := map[string]bool{}
	for _, o := range r.Objects {
		s, is := o.(*appsv1ac.StatefulSetApplyConfiguration)
		if !is {
			continue
		}
		seen[*s.Name] = true
		require.Equal(t, want[*s.Name][0], s.Spec.Selector.MatchLabels[v1alpha1.LabelShard])
		require.Equal(t, want[*s.Name][1], s.Spec.Selector.MatchLabels[v1alpha1.LabelReplica], "no server's pods are another's")
		require.Contains(t, s.Spec.Template.Spec.Containers[0].Args, "--storage.tsdb.retention.time=30h")
		config := string(r.Files[*s.Name]["prometheus.yml"])
		require.Contains(t, config, "edge_shard: \""+want[*s.Name][0]+"\"")
		require.Contains(t, config, "edge_replica: "+want[*s.Name][1])
		promcfgtest.Check(t, r.Files[*s.Name])
	}
	require.Len(t, seen, len(want))
}

// An edge writes to each shard that the plan has for its cell, and to nobody
// before there is a plan.
func TestEdgesThatWrite(t *testing.T) {
	c, f := pair()
	f.Spec.Link = v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "https://{geography}-{shard}.example.org/api/v1/write"}
	config := func() string {
		t.Helper()
		r, err := Render(c, f, "pharos-system")
		require.NoError(t, err)
		return string(r.Files["edge"]["prometheus.yml"])
	}
	require.NotContains(t, config(), "remote_write")

	placed := v1alpha1.CellPlacement{Name: "asia-1", Shard: 2}
	f.Status.Geographies = []v1alpha1.GeographyStatus{
		{Name: "europe", Cells: []v1alpha1.CellPlacement{{Name: "asia-1", Shard: 9}}},
		{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "asia-2", Shard: 8}, placed}},
	}
	require.Contains(t, config(), "url: https://asia-2.example.org/api/v1/write")
	require.NotContains(t, config(), "asia-8.example.org")
	require.NotContains(t, config(), "asia-9.example.org")

	f.Status.Geographies[1].Cells[1].MovingTo = ptr.To(int32(0))
	require.Contains(t, config(), "url: https://asia-2.example.org/api/v1/write")
	require.Contains(t, config(), "url: https://asia-0.example.org/api/v1/write", "a moving cell is heard by both")

	f.Spec.Link = v1alpha1.Link{}
	require.NotContains(t, config(), "remote_write")
}

// A dead server stays where it was, so that it is a target that is down; one that
// there should not be any more is forgotten.
func TestEndpointsOutliveTheirPods(t *testing.T) {
	c, f := pair()
	c.Spec.Edge.Replicas = ptr.To(int32(2))
	servers := workload.EdgeServers(f, c)
	all, known := endpoints(c, servers, map[string][]string{"edge": {"10.0.0.1:9090"}, "edge-0-b": {"10.0.0.2:9090"}})
	require.Equal(t, []string{"10.0.0.1:9090", "10.0.0.2:9090"}, all)
	require.Equal(t, []v1alpha1.EdgeServer{{Shard: 0, Replica: "a", Endpoint: "10.0.0.1:9090"}, {Shard: 0, Replica: "b", Endpoint: "10.0.0.2:9090"}}, known)

	c.Status.EdgeServers = known
	all, _ = endpoints(c, servers, map[string][]string{"edge": {"10.0.0.7:9090"}})
	require.Equal(t, []string{"10.0.0.2:9090", "10.0.0.7:9090"}, all)
	c.Spec.Edge.Replicas = nil
	all, known = endpoints(c, workload.EdgeServers(f, c), nil)
	require.Equal(t, []string{"10.0.0.1:9090"}, all)
	require.Len(t, known, 1)

	c.Spec.Edge.Endpoints = []string{"b:1", "a:1"}
	all, known = endpoints(c, servers, map[string][]string{"edge": {"10.0.0.1:9090"}})
	require.Equal(t, []string{"a:1", "b:1"}, all)
	require.Empty(t, known)
}

func TestRenderRefuses(t *testing.T) {
	c, f := pair()
	_, err := Render(c, nil, "pharos-system")
	require.ErrorContains(t, err, "waiting for a Federation")
	f.Spec.Retention = "25h"
	_, err = Render(c, f, "pharos-system")
	require.ErrorContains(t, err, "Federation fleet: spec.retention: an edge that keeps samples for 1d1h cannot tell the error ratio over a day")
	f.Spec.Edge.Retention = "1d"
	_, err = Render(c, f, "pharos-system")
	require.ErrorContains(t, err, "spec.edge.retention")
	f.Spec.Edge.Retention, c.Spec.Geography = "2d", "mars"
	_, err = Render(c, f, "pharos-system")
	require.ErrorContains(t, err, `spec.geography: "mars" is none of Federation fleet`)
}
