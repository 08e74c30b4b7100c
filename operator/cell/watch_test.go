package cell

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/operator/workload"
)

const crowd = 10_000

// large is a Federation with a plan for ten thousand cells.
func large() *v1alpha1.Federation {
	f := &v1alpha1.Federation{}
	f.Generation = 1
	g := v1alpha1.GeographyStatus{Name: "asia"}
	for i := range crowd {
		g.Cells = append(g.Cells, v1alpha1.CellPlacement{Name: fmt.Sprintf("cell-%05d", i), Shard: int32(i / 30), EdgeShards: 1, Series: 1000})
	}
	f.Status.Geographies = []v1alpha1.GeographyStatus{g}
	return f
}

// What a Federation reports of itself wakes no cell, what it says to some wakes
// those, and what it describes wakes all of them.
func TestAReportWakesOnlyTheCellsThatItConcerns(t *testing.T) {
	builder := fake.NewClientBuilder().WithScheme(kube.Scheme())
	for i := range crowd {
		c := &v1alpha1.Cell{}
		c.Name = fmt.Sprintf("cell-%05d", i)
		builder.WithObjects(c)
	}
	woken := (&Reconciler{Options: workload.Options{Client: builder.Build()}}).concerned()
	cells := func(f *v1alpha1.Federation) []v1alpha1.CellPlacement { return f.Status.Geographies[0].Cells }
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.Federation)
		want   int
	}{
		{"a pod is ready", func(f *v1alpha1.Federation) { f.Status.Parts = []v1alpha1.PartStatus{{Name: "central-a", Ready: 1}} }, 0},
		{"series are measured", func(f *v1alpha1.Federation) { cells(f)[7].Series = 2000 }, 0},
		{"the condition changes", func(f *v1alpha1.Federation) { f.Status.Geographies[0].Message = "changed" }, 0},
		{"a cell begins to move", func(f *v1alpha1.Federation) { cells(f)[7].MovingTo = ptr.To[int32](9) }, 1},
		{"a cell has moved, and another is divided", func(f *v1alpha1.Federation) { cells(f)[7].Shard, cells(f)[8].EdgeShardsBeside = 9, ptr.To[int32](2) }, 2},
		{"a cell is new", func(f *v1alpha1.Federation) {
			f.Status.Geographies[0].Cells = append(cells(f), v1alpha1.CellPlacement{Name: "new"})
		}, 1},
		{"a cell has gone", func(f *v1alpha1.Federation) { f.Status.Geographies[0].Cells = cells(f)[1:] }, 1},
		{"another image is asked for", func(f *v1alpha1.Federation) { f.Generation++ }, crowd},
		{"other rules of its own run", func(f *v1alpha1.Federation) { f.Status.RulesDigest = "another" }, crowd},
		{"it was made anew", func(f *v1alpha1.Federation) { f.UID = "another" }, crowd},
	} {
		t.Run(c.name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			before, now := large(), large()
			c.change(now)
			begun := time.Now()
			woken.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: now}, queue)
			t.Logf("%d of %d cells are looked at, which took %s to find out", queue.Len(), crowd, time.Since(begun).Round(time.Millisecond))
			require.Equal(t, c.want, queue.Len())
		})
	}
}
