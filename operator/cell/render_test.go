package cell

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func rendered(t *testing.T, change func(*v1alpha1.CellSpec)) Rendered {
	t.Helper()
	c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "asia-1"}, Spec: v1alpha1.CellSpec{Geography: "asia", Region: "east"}}
	change(&c.Spec)
	f := &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, Spec: v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	}
	r, err := Renderer{Namespace: "pharos-system"}.Render(c, f)
	require.NoError(t, err)
	return r
}

func TestAnEdgeIsAsLargeAsItsCell(t *testing.T) {
	for size, want := range map[v1alpha1.CellSize]struct{ memory, limit, blocks, volume string }{
		v1alpha1.CellSmall: {"2Gi", "4Gi", "16384MB", "20Gi"}, "": {"8Gi", "14Gi", "49152MB", "60Gi"},
	} {
		r := rendered(t, func(s *v1alpha1.CellSpec) { s.Size = size })
		for _, o := range r.Objects {
			set, ok := o.(*appsv1ac.StatefulSetApplyConfiguration)
			if !ok {
				continue
			}
			c := set.Spec.Template.Spec.Containers[0]
			require.Equal(t, resource.MustParse(want.memory), (*c.Resources.Requests)[corev1.ResourceMemory])
			require.Equal(t, resource.MustParse(want.limit), (*c.Resources.Limits)[corev1.ResourceMemory])
			require.NotContains(t, *c.Resources.Limits, corev1.ResourceCPU, "what is throttled is late")
			require.Contains(t, c.Args, "--storage.tsdb.retention.size="+want.blocks)
			require.Equal(t, resource.MustParse(want.volume), (*set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests)[corev1.ResourceStorage])
		}
	}
}

// What the Cell says of its edge is in the configuration of each server.
func TestAnEdgeScrapesWhatItsCellSays(t *testing.T) {
	r := rendered(t, func(s *v1alpha1.CellSpec) {
		s.Edge.Shards = ptr.To(int32(2))
		s.Edge.Skip = []v1alpha1.TargetComponent{"cadvisor"}
		s.Edge.Unverified = []v1alpha1.TargetComponent{"kubelet"}
		s.Edge.StaticTargets = []v1alpha1.StaticTarget{{Component: "etcd", Cluster: "shop", Addresses: []string{"10.0.0.1:2381"}}}
		s.Capacity.Pools = []v1alpha1.CapacityPool{{Name: v1alpha1.PoolClusters, Limit: resource.MustParse("60")}}
	})
	require.Len(t, r.Files, 2)
	for name, files := range r.Files {
		config := string(files["prometheus.yml"])
		require.NotContains(t, config, "cadvisor", name)
		require.Contains(t, kubeletJob(config), "insecure_skip_verify: true", name)
		require.Contains(t, config, "10.0.0.1:2381", name)
		require.Contains(t, config, "modulus: 2", name)
		require.Contains(t, string(files["topology.rules.yaml"]), "cell:capacity_limit:value", name)
	}
}

func kubeletJob(config string) string {
	_, job, _ := strings.Cut(config, "- job_name: kubelet-meta\n")
	job, _, _ = strings.Cut(job, "- job_name: ")
	return job
}

func TestAnExternalEdgeIsGivenWhatItIncludes(t *testing.T) {
	r := rendered(t, func(s *v1alpha1.CellSpec) {
		s.Edge = v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, Endpoints: []string{"10.0.0.1:9090"}}
	})
	require.Len(t, r.Files, 1)
	for _, files := range r.Files {
		require.NotContains(t, files, "prometheus.yml")
		for _, name := range []string{"agent.scrape.yaml", "meta.scrape.yaml", "prometheus-operator.yaml", "topology.rules.yaml"} {
			require.NotEmpty(t, files[name], name)
		}
	}
}

// What would be rendered without a word and could never work is refused, by the
// operator and by whoever renders files.
func TestACellThatCannotWorkIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.CellSpec)
		want   string
	}{
		"a server without an address": {func(s *v1alpha1.CellSpec) {
			s.Size, s.Edge.Replicas, s.Edge.Endpoints = v1alpha1.CellLarge, ptr.To(int32(2)), []string{"a:1", "b:1"}
		}, "spec.edge.endpoints: names 2 addresses, and the edge has 4 servers"},
		"skipped and named": {func(s *v1alpha1.CellSpec) {
			s.Edge.Skip = []v1alpha1.TargetComponent{"etcd"}
			s.Edge.StaticTargets = []v1alpha1.StaticTarget{{Component: "etcd", Addresses: []string{"10.0.0.1:2381"}}}
		}, "etcd is among the components to skip"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "asia-1"}, Spec: v1alpha1.CellSpec{Geography: "asia", Region: "east"}}
			tc.change(&c.Spec)
			f := &v1alpha1.Federation{Spec: v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}}}
			_, err := Renderer{Namespace: "pharos-system"}.Render(c, f)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
