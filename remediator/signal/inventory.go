package signal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const (
	// parallel is how many cells, clusters or nodes are read at once.
	parallel = 16
	// pageSize bounds one page of a list.
	pageSize = 500
	// maxObjects bounds a whole list; a cell that has more is not understood.
	maxObjects = 200_000
)

// pause keeps cells that did not answer from being asked in every round.
type pause struct {
	mu    sync.Mutex
	until map[string]time.Time
	steps map[string]*backoff.ExponentialBackOff
	last  map[string]string
}

func newPause() *pause {
	return &pause{until: map[string]time.Time{}, steps: map[string]*backoff.ExponentialBackOff{}, last: map[string]string{}}
}

// resting says why a cell is not asked now; empty means that it may be.
func (p *pause) resting(cell string, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.until[cell]) {
		return p.last[cell]
	}
	return ""
}

func (p *pause) failed(cell string, now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.steps[cell] == nil {
		p.steps[cell] = backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second),
			backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
	}
	p.until[cell] = now.Add(p.steps[cell].NextBackOff())
	p.last[cell] = err.Error()
}

func (p *pause) answered(cell string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.until, cell)
	delete(p.steps, cell)
	delete(p.last, cell)
}

func (p *pause) forget(known map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for cell := range p.until {
		if !known[cell] {
			delete(p.until, cell)
			delete(p.steps, cell)
			delete(p.last, cell)
		}
	}
}

// Cells reads the inventory of every cell at once, save those that name no
// kubeconfig for repairs: they are none of ours. A cell that does not answer
// within the timeout is unknown, and is left to rest for a growing while. The
// error speaks of the hub.
func (r *Reader) Cells(ctx context.Context) ([]policy.Cell, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.timeout)
	defer cancel()
	var list api.CellList
	if err := r.hub.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing cells: %w", err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(c api.Cell) bool { return c.Spec.RemediatorKubeconfigSecret == "" })
	r.forgetCells(list.Items)
	cells := make([]policy.Cell, len(list.Items))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i := range list.Items {
		group.Go(func() error {
			cells[i] = r.cell(ctx, &list.Items[i])
			return nil
		})
	}
	return cells, group.Wait()
}

func (r *Reader) cell(ctx context.Context, object *api.Cell) policy.Cell {
	out := policy.Cell{Name: object.Name, Geography: object.Spec.Geography, Paused: Paused(object)}
	if out.Err = r.pause.resting(object.Name, r.now()); out.Err != "" {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := r.inventory(ctx, object, &out); err != nil {
		r.pause.failed(object.Name, r.now(), err)
		return policy.Cell{Name: object.Name, Geography: out.Geography, Paused: out.Paused, Err: err.Error()}
	}
	r.pause.answered(object.Name)
	return out
}

func (r *Reader) inventory(ctx context.Context, object *api.Cell, out *policy.Cell) error {
	c, err := r.Client(ctx, object)
	if err != nil {
		return err
	}
	clusters := map[client.ObjectKey]bool{}
	err = pages(ctx, c, &api.ClusterList{}, func(list *api.ClusterList) {
		for i := range list.Items {
			clusters[client.ObjectKeyFromObject(&list.Items[i])] = true
			if Paused(&list.Items[i]) {
				out.PausedClusters = append(out.PausedClusters, list.Items[i].Name)
			}
			if list.Items[i].Spec.NodeCheckKubeconfigSecret != "" {
				out.CheckedClusters = append(out.CheckedClusters, list.Items[i].Name)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	r.forgetClusters(object.Name, clusters)
	err = pages(ctx, c, &api.MachineList{}, func(list *api.MachineList) {
		for i := range list.Items {
			out.Machines = append(out.Machines, policy.FromMachine(&list.Items[i]))
		}
	})
	if err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	return nil
}

// Paused says whether an object bears the mark that stops repairs under it, or is
// on its way out: whoever takes a cell or a cluster down does not want it mended.
func Paused(o client.Object) bool {
	_, marked := o.GetAnnotations()[api.AnnotationPaused]
	return marked || o.GetDeletionTimestamp() != nil
}

// pages takes a list page by page, and fails rather than leave a part out.
func pages[L client.ObjectList](ctx context.Context, c client.Reader, list L, take func(L)) error {
	for n := 0; n < maxObjects; n += pageSize {
		if err := c.List(ctx, list, client.Limit(pageSize), client.Continue(list.GetContinue())); err != nil {
			return err
		}
		take(list)
		if list.GetContinue() == "" {
			return nil
		}
	}
	return fmt.Errorf("there are more than %d", maxObjects)
}
