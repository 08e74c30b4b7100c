package federation

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// A geography outgrows its cascade, is divided, and shrinks again, on a real API
// server with the operator's own rights. What the centrals hear is said by two
// that are nothing but heard; at no moment does a cell have no server that reads
// it, or one that has not been heard to.
func TestAMoveIsMadeBeforeItIsBroken(t *testing.T) {
	w := newWorld(t)
	centrals := map[string]*witness{"127.92.3.1:9090": {}, "127.92.3.2:9090": {}}
	now := time.Now()
	w.r.ears.now = func() time.Time { return now }
	w.r.ears.connect = func(address string) (asker, error) { return centrals[address], nil }
	tell := func(series map[string]float64, beats map[spot]float64) {
		for _, c := range centrals {
			c.series, c.beats = series, beats
		}
		now = now.Add(2 * time.Minute * 10)
		w.reconcile(t, "fleet")
	}
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec: v1alpha1.FederationSpec{
			Geographies: []v1alpha1.Geography{{Name: "asia"}},
			Network:     v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP},
		},
	})
	w.cell(t, "asia-1", "asia", "127.93.0.1:9090")
	w.cell(t, "asia-2", "asia", "127.93.0.2:9090")
	w.reconcile(t, "fleet")
	w.runPod(t, "central-a", "127.92.3.1")
	w.runPod(t, "central-b", "127.92.3.2")
	w.reconcile(t, "fleet")
	require.Equal(t, []string{"asia-1", "asia-2"}, w.readBy(t, "cascade-asia-0"))

	tell(map[string]float64{"asia-1": 50_000, "asia-2": 60_000}, nil)
	require.Equal(t, []string{"asia-1", "asia-2"}, w.readBy(t, "cascade-asia-0"))
	require.Equal(t, []string{"asia-2"}, w.readBy(t, "cascade-asia-1"))
	geography := w.federation(t, "fleet").Status.Geographies[0]
	require.EqualValues(t, 1, geography.Moving)
	require.Contains(t, geography.Message, `cell "asia-2" moves from shard 0 to shard 1: shard 0 has 110000 series, more than 100000`)
	require.NotContains(t, w.Text(t, "central-a"), `cascade_shard: "1"`, "a server is missed before it has been heard of")

	// Nobody hears the new shard, then only one central does: nothing is taken away.
	centrals["127.92.3.1:9090"].beats = map[spot]float64{{cell: "asia-2", cascade: 1, edgeShard: 0}: 7}
	w.reconcile(t, "fleet")
	require.Equal(t, []string{"asia-1", "asia-2"}, w.readBy(t, "cascade-asia-0"))
	again, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fleet"}})
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, again.RequeueAfter, "soon")

	tell(map[string]float64{"asia-1": 50_000, "asia-2": 60_000}, map[spot]float64{{cell: "asia-2", cascade: 1, edgeShard: 0}: 6})
	require.Equal(t, []string{"asia-1"}, w.readBy(t, "cascade-asia-0"))
	require.Equal(t, []string{"asia-2"}, w.readBy(t, "cascade-asia-1"))
	require.Contains(t, w.Text(t, "central-a"), `cascade_shard: "1"`, "the centrals expect the new shard")

	// Fewer series count after a day; then the shards are joined.
	small := map[string]float64{"asia-1": 10_000, "asia-2": 15_000}
	tell(small, nil)
	require.EqualValues(t, 0, w.federation(t, "fleet").Status.Geographies[0].Moving)
	for range 2 {
		now = now.Add(24 * time.Hour)
		tell(small, nil)
	}
	require.Equal(t, []string{"asia-1", "asia-2"}, w.readBy(t, "cascade-asia-0"))
	require.Equal(t, []string{"asia-2"}, w.readBy(t, "cascade-asia-1"))
	tell(small, map[spot]float64{{cell: "asia-2", cascade: 0, edgeShard: 0}: 7, {cell: "asia-2", cascade: 1, edgeShard: 0}: 7})
	require.Equal(t, []string{"asia-1", "asia-2"}, w.readBy(t, "cascade-asia-0"))
	require.NotContains(t, w.Text(t, "central-a"), `cascade_shard: "1"`)
	centrals["127.92.3.1:9090"].expected, centrals["127.92.3.2:9090"].expected = []int{0}, []int{0, 1}
	w.reconcile(t, "fleet")
	w.StatefulSet(t, "cascade-asia-1") // one central still waits for it
	centrals["127.92.3.2:9090"].expected = []int{0}
	w.reconcile(t, "fleet")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("cascade-asia-1"), &appsv1.StatefulSet{})), "a shard without cells goes")
	require.Equal(t, []int32{0}, w.federation(t, "fleet").Status.Geographies[0].Shards)
}

// A status that somebody has spoiled costs no cell its server.
func TestASpoiltStatusIsOutlived(t *testing.T) {
	w := newWorld(t)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}, Network: v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP}},
	})
	w.cell(t, "asia-1", "asia", "127.93.0.1:9090")
	f := w.federation(t, "fleet")
	f.Status.Geographies = []v1alpha1.GeographyStatus{
		{Name: "asia", Shards: []int32{5}, Cells: []v1alpha1.CellPlacement{{Name: "asia-1", Shard: -7, EdgeShards: 1 << 30, EdgeShardsBeside: ptr.To(int32(-2))}, {Name: "ghost", Shard: 5}}},
		{Name: "atlantis", Cells: []v1alpha1.CellPlacement{{Name: "asia-1", Shard: 3000}}},
	}
	w.SetStatus(t, f)
	w.reconcile(t, "fleet")
	require.Equal(t, []string{"asia-1"}, w.readBy(t, "cascade-asia-0"))
	f = w.federation(t, "fleet")
	require.Len(t, f.Status.Geographies, 1)
	require.Equal(t, []v1alpha1.CellPlacement{{Name: "asia-1", EdgeShards: 1}}, f.Status.Geographies[0].Cells)
	ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
	require.Contains(t, ready.Message, `geography asia: the plan before has cell "asia-1" on shard -7, which cannot be`)
}

// slow writes nothing as long as it may.
type slow struct{ client.Client }

func (slow) Apply(ctx context.Context, _ runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// A look whose time is over before all is done tells of that.
func TestALookThatTakesAllItsTimeIsToldOf(t *testing.T) {
	w := newWorld(t)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec: v1alpha1.FederationSpec{
			Geographies: []v1alpha1.Geography{{Name: "asia"}},
			Network:     v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP},
		},
	})
	w.cell(t, "asia-1", "asia", "127.93.0.1:9090")
	w.reconcile(t, "fleet")

	says := func() string {
		return meta.FindStatusCondition(w.federation(t, "fleet").Status.Conditions, v1alpha1.ConditionReady).Message
	}
	w.r.Client, w.r.patience = slow{w.r.Client}, 2*time.Second
	w.cell(t, "asia-2", "asia", "127.93.0.2:9090")
	fleet := ctrl.Request{NamespacedName: types.NamespacedName{Name: "fleet"}}
	before, process := says(), t.Context()
	ending, end := context.WithTimeout(process, time.Second)
	defer end()
	_, err := w.r.Reconcile(ending, fleet)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, before, says(), "a process that ends says nothing more")
	_, err = w.r.Reconcile(process, fleet)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, says(), "context deadline exceeded")
}

// readBy are the cells whose edges a cascade reads, as its configuration says.
func (w *world) readBy(t *testing.T, name string) []string {
	t.Helper()
	text := w.ConfigMap(t, name+".targets-0").Data["targets-0-of-1.yaml"]
	var cells []string
	for _, cell := range []string{"asia-1", "asia-2"} {
		if containsLine(text, "cell: "+cell) {
			cells = append(cells, cell)
		}
	}
	return cells
}

func containsLine(text, line string) bool {
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}
