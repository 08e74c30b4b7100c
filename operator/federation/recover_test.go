package federation

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// The status of a Federation is lost, in each way in which it can be, on a real API
// server. The cells are where nobody would place them who began anew, and one is on
// its way, and they stay there.
func TestAPlanIsFoundAgain(t *testing.T) {
	w := newWorld(t)
	spec := v1alpha1.FederationSpec{
		Geographies: []v1alpha1.Geography{{Name: "asia", MaxSeriesPerShard: ptr.To[int32](1000)}, {Name: "europe"}},
		Network:     v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP},
	}
	w.Create(t, &v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, Spec: spec})
	w.cell(t, "asia-1", "asia", "127.93.0.1:9090")
	w.cell(t, "asia-2", "asia", "127.93.0.2:9090")
	f := w.federation(t, "fleet")
	plan := []v1alpha1.CellPlacement{{Name: "asia-1", Shard: 4, EdgeShards: 3}, {Name: "asia-2", Shard: 0, MovingTo: ptr.To[int32](2), EdgeShards: 1}}
	f.Status.Geographies = []v1alpha1.GeographyStatus{{Name: "asia", Shards: []int32{0, 2, 4}, Moving: 1, Cells: plan}, {Name: "europe", Shards: []int32{0}}}
	w.SetStatus(t, f)
	w.reconcile(t, "fleet")
	stays := func(message string) {
		t.Helper()
		require.Equal(t, []string{"asia-2"}, w.readBy(t, "cascade-asia-0"))
		require.Equal(t, []string{"asia-2"}, w.readBy(t, "cascade-asia-2"))
		require.Equal(t, []string{"asia-1"}, w.readBy(t, "cascade-asia-4"))
		status := w.federation(t, "fleet").Status.Geographies
		require.Len(t, status, 2)
		require.Equal(t, []int32{0, 2, 4}, status[0].Shards)
		require.Equal(t, message, status[0].Message)
		require.EqualValues(t, 4, status[0].Cells[0].Shard)
		require.EqualValues(t, 3, status[0].Cells[0].EdgeShards, "the old servers of its edge are still expected")
		require.NotNil(t, status[0].Cells[0].EdgeShardsBeside)
		require.Equal(t, v1alpha1.CellPlacement{Name: "asia-2", Shard: 0, MovingTo: ptr.To[int32](2), EdgeShards: 1}, status[0].Cells[1])
	}
	stays("")

	// It is wiped, as by a backup that has no status. Somebody has spoilt a file.
	f = w.federation(t, "fleet")
	f.Status = v1alpha1.FederationStatus{}
	w.SetStatus(t, f)
	cm := w.ConfigMap(t, "cascade-asia-4")
	whole := cm.Data["topology.rules.yaml"]
	cm.Data["topology.rules.yaml"] = "groups: {"
	require.NoError(t, w.Admin.Update(t.Context(), cm))
	before := w.versions(t)
	w.anew(t)
	w.reconcile(t, "fleet")
	w.requireInvalid(t, "fleet", "status.geographies: is lost, and what the cascades read cannot be seen in ConfigMap cascade-asia-4: topology.rules.yaml")
	after := w.versions(t)
	delete(before, "Federation fleet")
	delete(after, "Federation fleet")
	require.Equal(t, before, after)
	require.Empty(t, w.federation(t, "fleet").Status.Geographies)
	cm = w.ConfigMap(t, "cascade-asia-4")
	cm.Data["topology.rules.yaml"] = whole
	require.NoError(t, w.Admin.Update(t.Context(), cm))
	w.reconcile(t, "fleet")
	stays(recovered)

	// It is deleted, and made anew before what it owned has gone.
	require.NoError(t, w.Admin.Delete(t.Context(), w.federation(t, "fleet")))
	w.Create(t, &v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, Spec: spec})
	w.anew(t)
	w.reconcile(t, "fleet")
	stays(recovered)
	require.Equal(t, w.federation(t, "fleet").UID, w.StatefulSet(t, "cascade-asia-4").OwnerReferences[0].UID)

	// What runs cannot be read: that does not say that there is nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, w.r.recover(ctx, &v1alpha1.Federation{Spec: spec}), "looking for the shard plan in what runs")
	_, err := planOf([]corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}})
	require.ErrorContains(t, err, "ConfigMap theirs")
}
