package federation

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// expecting is a central that waits for the cascade of europe, and for that of asia
// until its configuration has arrived.
type expecting struct {
	asia, down, empty bool
}

func (c *expecting) Loaded(context.Context) (promapi.Loaded, error) { return promapi.Loaded{}, nil }

func (c *expecting) Samples(_ context.Context, query string, _ time.Time) (promapi.Answer, error) {
	if c.down {
		return promapi.Answer{}, errors.New("connection refused")
	}
	var a promapi.Answer
	if query != "fleet:cascade_expected:info" || c.empty {
		return a, nil
	}
	all := []string{"europe"}
	if c.asia {
		all = append(all, "asia")
	}
	for _, geography := range all {
		a.Samples = append(a.Samples, promapi.Sample{Value: 1, Labels: map[string]string{"geography": geography, "cascade_shard": "0"}})
	}
	return a, nil
}

// The cells of a geography are gone, and the geography with them. Its cascade goes
// when no central waits for it any more.
func geographyRemoved(t *testing.T, w *world) {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: deploy.Namespace, Name: "a-persons-own",
		Labels: map[string]string{LabelFederation: "fleet", v1alpha1.LabelManagedBy: "pharos"},
	}}
	w.Create(t, theirs)
	f := w.federation(t, "fleet")
	f.Spec.Geographies = f.Spec.Geographies[1:]
	require.NoError(t, w.Admin.Update(t.Context(), f))
	for _, name := range []string{"asia-1", "asia-2"} {
		require.NoError(t, w.Admin.Delete(t.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	central := &expecting{asia: true}
	connect := w.r.ears.connect
	w.r.ears.connect = func(string) (asker, error) { return central, nil }
	defer func() { w.r.ears.connect = connect }()
	w.r.ears.clients = map[string]asker{}
	again, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fleet"}})
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, again.RequeueAfter)
	w.StatefulSet(t, "cascade-asia-0")
	w.ConfigMap(t, "cascade-asia-0")
	require.NotContains(t, w.Text(t, "central-a"), "asia", "the centrals are told first")
	require.Contains(t, meta.FindStatusCondition(w.federation(t, "fleet").Status.Conditions, v1alpha1.ConditionReady).Message,
		"cascade-asia-0 reads no cell any more, and runs until both centrals say that they expect it no longer")

	central.asia = false
	w.reconcile(t, "fleet")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("cascade-asia-0"), &appsv1.StatefulSet{})))
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("cascade-asia-0"), &corev1.ConfigMap{})))
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
	w.StatefulSet(t, "cascade-europe-0")
	f = w.federation(t, "fleet")
	require.Zero(t, f.Status.Cells)
}

func TestBothCentralsMustSayWhatTheyExpect(t *testing.T) {
	europe := map[shard]bool{{"europe", 0}: true}
	for _, c := range []struct {
		name    string
		ready   []string
		b       *expecting
		settled bool
		fails   bool
	}{
		{"both have their configuration", []string{"central-a", "central-b"}, &expecting{}, true, false},
		{"one has not", []string{"central-a", "central-b"}, &expecting{asia: true}, false, false},
		{"one has just started, and knows nothing", []string{"central-a", "central-b"}, &expecting{empty: true}, false, false},
		{"one does not answer", []string{"central-a", "central-b"}, &expecting{down: true}, false, true},
		{"one is not ready", []string{"central-a"}, &expecting{}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEars(slog.New(slog.DiscardHandler))
			e.connect = func(address string) (asker, error) {
				if address == "central-a" {
					return &expecting{}, nil
				}
				return c.b, nil
			}
			settled, err := e.expect(t.Context(), withCentrals(&v1alpha1.Federation{}, c.ready...), europe)
			require.Equal(t, c.settled, settled)
			require.Equal(t, c.fails, err != nil, err)
		})
	}
}

// A split and a merge, as the centrals are told of them.
func TestAShardIsExpectedWhileACellIsThere(t *testing.T) {
	at := func(shard, next int) cascade.Placement { return cascade.Placement{Shard: shard, Next: next} }
	beside := func(shard int) cascade.Placement { return cascade.Placement{Shard: shard, Next: shard, Beside: true} }
	for _, c := range []struct {
		name  string
		cells []cascade.Placement
		want  []int
	}{
		{"no cells", nil, []int{0}},
		{"at rest", []cascade.Placement{at(0, 0), at(1, 1)}, []int{0, 1}},
		{"a split begins: the pod of the new shard may not exist", []cascade.Placement{at(0, 0), at(0, 1)}, []int{0}},
		{"its first cell has arrived: both centrals have heard it from there", []cascade.Placement{at(1, 1), at(0, 1), at(0, 0)}, []int{0, 1}},
		{"cells come from another geography: its pod may not exist", []cascade.Placement{beside(0)}, nil},
		{"the first of them counts here", []cascade.Placement{beside(0), at(1, 1)}, []int{1}},
		{"a merge: what dies before the move ends is missed", []cascade.Placement{at(0, 0), at(1, 0)}, []int{0, 1}},
	} {
		require.Equal(t, c.want, expected(cascade.Layout{Shards: []int{0, 1}, Cells: c.cells}), c.name)
	}
}

// What a layout leaves without a cell is kept for one step, and goes when a person
// vouches for the next; what takes the same number again just goes on.
func TestAnEmptiedCascadeIsKeptForOneStep(t *testing.T) {
	shards := func(status []v1alpha1.GeographyStatus, vouched bool, now Layouts) map[string][]int {
		now.Keep(status, vouched)
		out := map[string][]int{}
		for name, l := range now {
			out[name] = l.Shards
		}
		return out
	}
	at := func(name string, shards []int32, cells ...v1alpha1.CellPlacement) v1alpha1.GeographyStatus {
		return v1alpha1.GeographyStatus{Name: name, Shards: shards, Cells: cells}
	}
	one := func() Layouts {
		return Layouts{"asia-east": {Shards: []int{0}, Cells: []cascade.Placement{{Cell: "a"}, {Cell: "b"}}}}
	}
	merging := []v1alpha1.GeographyStatus{at("asia-east", []int32{0, 1}, v1alpha1.CellPlacement{Name: "a"}, v1alpha1.CellPlacement{Name: "b", Shard: 1, MovingTo: ptr.To[int32](0)})}
	merged := []v1alpha1.GeographyStatus{at("asia-east", []int32{0, 1}, v1alpha1.CellPlacement{Name: "a"}, v1alpha1.CellPlacement{Name: "b"})}
	require.Equal(t, map[string][]int{"asia-east": {0, 1}}, shards(merging, true, one()), "the step that empties it")
	require.Equal(t, map[string][]int{"asia-east": {0, 1}}, shards(merged, false, one()), "a render that nobody vouches for")
	require.Equal(t, map[string][]int{"asia-east": {0}}, shards(merged, true, one()), "the step after")
	again := Layouts{"asia-east": {Shards: []int{0, 1}, Cells: []cascade.Placement{{Cell: "a"}, {Cell: "b", Next: 1}}}}
	require.Equal(t, map[string][]int{"asia-east": {0, 1}}, shards(merged, true, again), "a cell moves to it again")
	require.Equal(t, map[string][]int{"asia-east": {0, 1}, "gone": {2}},
		shards(append(merging, at("gone", nil, v1alpha1.CellPlacement{Name: "c", Shard: 2})), false, one()), "a geography goes as well")
	require.Equal(t, map[string][]int{"asia-east": {0}}, shards(nil, false, one()), "a first layout")

	f := &v1alpha1.Federation{Spec: v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia-east"}, {Name: "empty"}}}}
	f.Status.Geographies = append(merged, at("empty", []int32{0, 3}), at("gone", []int32{2}))
	require.Equal(t, []string{"cascade-asia-east-1", "cascade-empty-3", "cascade-gone-2"}, Emptied(f))
	s, is := cascadeOf("cascade-asia-east-1")
	require.True(t, is)
	require.Equal(t, shard{"asia-east", 1}, s)
	for _, other := range []string{"central-a", "cascade-asia", "cascade-asia-x", "cascade"} {
		_, is := cascadeOf(other)
		require.False(t, is, other)
	}
}
