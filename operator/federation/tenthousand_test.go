//go:build !race

package federation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
)

// crowd are so many cells, whose names are as long as a label may be.
func crowd(n int) []v1alpha1.Cell {
	cells := make([]v1alpha1.Cell, n)
	for i := range cells {
		c := &cells[i]
		c.Name = fmt.Sprintf("cell-%05d-%s", i, strings.Repeat("x", 52))
		c.Spec = v1alpha1.CellSpec{Geography: "asia", Region: "r", KubeconfigSecret: "k"}
		c.Status.EdgeEndpoints = []string{fmt.Sprintf("10.%d.%d.1:9090", i/256, i%256)}
	}
	return cells
}

// follow makes the hub as a Federation and its cells say.
func (w *world) follow(t *testing.T, f *v1alpha1.Federation, cells []v1alpha1.Cell) {
	t.Helper()
	_, err := w.r.follow(t.Context(), f, cells)
	require.NoError(t, err)
}

// pieces are the ConfigMaps of a part beside its own.
func (w *world) pieces(t *testing.T, part string) []string {
	t.Helper()
	var all corev1.ConfigMapList
	require.NoError(t, w.Admin.List(t.Context(), &all, client.InNamespace(deploy.Namespace)))
	var names []string
	for _, cm := range all.Items {
		if rest, ok := strings.CutPrefix(cm.Name, part+"."); ok {
			names = append(names, rest)
		}
	}
	return names
}

// The race detector makes this ten times as slow, and there is no goroutine of
// ours in it: `make test` runs it once, without.
//
// Ten thousand cells in one geography, as a real API server takes them: every
// object, and the plan in the Federation's status. Growth leaves the centrals'
// pods alone, and what a smaller fleet does not need goes.
func TestTenThousandCellsAreAccepted(t *testing.T) {
	w := newWorld(t)
	limit := int32(10_000_000) // one shard, so that its targets are as many as they can be
	// A central that is given more is a new pod. Here its size is said, as by a team that wants to choose the moment.
	of := func(q string) *resource.Quantity { return ptr.To(resource.MustParse(q)) }
	size := v1alpha1.ServerResources{CPU: of("8"), Memory: of("16Gi"), MemoryLimit: of("32Gi"), Volume: of("100Gi")}
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia", MaxSeriesPerShard: &limit}}, Resources: v1alpha1.HubResources{Central: size}},
	})
	cells := crowd(10_000)
	w.follow(t, w.federation(t, "fleet"), cells[:1_500])
	few := w.StatefulSet(t, "central-a")
	require.Len(t, w.pieces(t, "central-a"), 4)

	w.follow(t, w.federation(t, "fleet"), cells)
	require.Len(t, w.pieces(t, "central-a"), 32)
	require.Equal(t, few.Generation, w.StatefulSet(t, "central-a").Generation, "a fleet that grows restarts no central")
	kept := w.federation(t, "fleet")
	require.Len(t, kept.Status.Geographies[0].Cells, 10_000, "the next plan begins with this one")
	files := slices.Sorted(slices.Values(w.pieces(t, "cascade-asia-0")))
	require.Contains(t, files, "targets-0")
	require.Contains(t, files, "topology-0")
	layouts, err := Plan(kept, cells, Heard{})
	require.NoError(t, err)
	require.Empty(t, layouts["asia"].Changes, "what was read back is the same plan")

	w.follow(t, w.federation(t, "fleet"), cells[:10])
	require.Empty(t, w.pieces(t, "central-a"))
	require.Equal(t, []string{"targets-0"}, w.pieces(t, "cascade-asia-0"))
	require.Contains(t, w.Text(t, "central-a"), cells[9].Name)
	for _, name := range []string{"central-a", "central-b"} {
		for _, v := range w.StatefulSet(t, name).Spec.Template.Spec.Volumes {
			require.Nil(t, v.Projected, "%s: a small fleet has what it always had", name)
		}
	}
}
