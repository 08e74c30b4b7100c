package cell

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// concerned asks for the Cells that read something else of a Federation than
// before: all of them where what it describes has changed, or which rules of its own run,
// and those that its plan has put elsewhere where the rest of its status has. A Federation reports with each pod
// that comes or goes, and ten thousand cells must not be looked at for that.
func (r *Reconciler) concerned() handler.EventHandler {
	all := r.All(&v1alpha1.CellList{})
	return handler.Funcs{
		CreateFunc: all.Create, DeleteFunc: all.Delete, GenericFunc: all.Generic,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			before, isOne := e.ObjectOld.(*v1alpha1.Federation)
			now, stillOne := e.ObjectNew.(*v1alpha1.Federation)
			if !isOne || !stillOne || before.UID != now.UID || before.Generation != now.Generation || before.Status.RulesDigest != now.Status.RulesDigest {
				all.Update(ctx, e, queue)
				return
			}
			for _, cell := range placedElsewhere(before, now) {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: cell}})
			}
		},
	}
}

// placedElsewhere are the cells of which two statuses of a Federation say different
// things to their edges: which shards they write to, and how they are divided.
func placedElsewhere(before, now *v1alpha1.Federation) []string {
	was, is := placements(before), placements(now)
	var cells []string
	for at, placed := range is {
		if old, known := was[at]; !known || !equality.Semantic.DeepEqual(old, placed) {
			cells = append(cells, at.Name)
		}
	}
	for at := range was {
		if _, still := is[at]; !still {
			cells = append(cells, at.Name)
		}
	}
	return cells
}

// placements are what a status says to each cell of each geography. How many series
// a cell brings is said to nobody.
func placements(f *v1alpha1.Federation) map[types.NamespacedName]v1alpha1.CellPlacement {
	out := map[types.NamespacedName]v1alpha1.CellPlacement{}
	for _, g := range f.Status.Geographies {
		for _, c := range g.Cells {
			c.Series = 0
			out[types.NamespacedName{Namespace: g.Name, Name: c.Name}] = c
		}
	}
	return out
}
