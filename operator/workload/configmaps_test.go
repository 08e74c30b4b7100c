package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

func divided(pieces int) map[string][]byte {
	files := map[string][]byte{"prometheus.yml": []byte("a"), "topology-fleet.rules.yaml": []byte("b")}
	for i := range pieces {
		files[fmt.Sprintf("topology-%d-of-%d.rules.yaml", i, pieces)] = []byte("c")
	}
	return files
}

func server(files map[string][]byte) Objects {
	return Place{Namespace: "n"}.PrometheusServer(Server{Part: Part{Name: "central-a"}, Files: files, Retention: "1d"})
}

// mounted are the ConfigMaps of the server's configuration, those that may be
// missing with a question mark.
func mounted(t *testing.T, objects Objects) []string {
	t.Helper()
	set, ok := objects[len(objects)-1].(*appsv1ac.StatefulSetApplyConfiguration)
	require.True(t, ok, "the workload comes after what it mounts")
	v := set.Spec.Template.Spec.Volumes[0]
	if v.ConfigMap != nil {
		return []string{*v.ConfigMap.Name}
	}
	var names []string
	for _, s := range v.Projected.Sources {
		name := *s.ConfigMap.Name
		if s.ConfigMap.Optional != nil {
			name += "?"
		}
		names = append(names, name)
	}
	return names
}

func TestAServerOfOrdinarySizeHasOneConfigMap(t *testing.T) {
	objects := server(map[string][]byte{"prometheus.yml": nil, "topology.rules.yaml": nil})
	require.Len(t, objects, 2)
	require.Equal(t, []string{"central-a"}, mounted(t, objects))
}

// Every piece of a divided file has a ConfigMap of its own, which changes alone;
// what names the pieces comes after them.
func TestPiecesAreObjectsOfTheirOwn(t *testing.T) {
	objects := server(divided(2))
	var names []string
	for _, o := range objects {
		names = append(names, Identity(o))
	}
	require.Equal(t, []string{"ConfigMap central-a.topology-0", "ConfigMap central-a.topology-1", "ConfigMap central-a", "StatefulSet central-a"}, names)
	require.Equal(t, map[string]string{"topology-1-of-2.rules.yaml": "c"}, objects[1].(*corev1ac.ConfigMapApplyConfiguration).Data)
	require.Equal(t, map[string]string{"prometheus.yml": "a", "topology-fleet.rules.yaml": "b"}, objects[2].(*corev1ac.ConfigMapApplyConfiguration).Data)
}

// A fleet that grows from two pieces to thirty-two leaves the pod as it is, and
// one that needs more finds them mounted.
func TestGrowthLeavesThePodAlone(t *testing.T) {
	few, many := mounted(t, server(divided(2))), mounted(t, server(divided(32)))
	require.Equal(t, few, many)
	require.Equal(t, "central-a", few[0], "without the configuration there is no start")
	require.Len(t, few, 33)
	require.Equal(t, "central-a.topology-31?", few[32])
	require.Len(t, mounted(t, server(divided(64))), 65)
}

func TestFilesThatFitInNoConfigMapAreRefused(t *testing.T) {
	files := divided(2)
	files["topology-1-of-2.rules.yaml"] = []byte(strings.Repeat("x", 700_000))
	files["prometheus.yml"] = []byte(strings.Repeat("x", 700_000))
	require.NoError(t, CheckFiles("central-a", files), "each is an object of its own")
	files["other.yml"] = files["prometheus.yml"]
	require.ErrorContains(t, CheckFiles("central-a", files), "the files of central-a have 1400049 bytes for one ConfigMap, central-a, more than the 1048576 that it holds; the largest is other.yml with 700000")
	files["topology-1-of-2.rules.yaml"] = []byte(strings.Repeat("x", 2<<20))
	require.ErrorContains(t, CheckFiles("central-a", files), "ConfigMap, central-a.topology-1, more")
}

func TestFilesMustFitIntoAConfigMap(t *testing.T) {
	files := map[string][]byte{"a": make([]byte, 1<<19), "b": make([]byte, 1<<19-2)}
	require.NoError(t, CheckFiles("central-a", files))
	files["c"] = nil
	require.ErrorContains(t, CheckFiles("central-a", files), "the files of central-a have 1048577 bytes for one ConfigMap, central-a")
}
