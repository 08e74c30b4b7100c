package signal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// parallel is how many cells, clusters or nodes are read at once.
const parallel = 16

// watchers are those of all cells, by the name of the cell.
type watchers struct {
	mu  sync.Mutex
	all map[string]*watcher
}

func (s *watchers) of(cell string) *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[cell]
}

func (s *watchers) set(cell string, w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[cell] = w
}

// stopFunc stops the watchers of cells that are gone, and waits for their end.
func (s *watchers) stopFunc(gone func(cell string) bool) {
	s.mu.Lock()
	var ended []*watcher
	for cell, w := range s.all {
		if gone(cell) {
			ended = append(ended, w)
			delete(s.all, cell)
		}
	}
	s.mu.Unlock()
	for _, w := range ended {
		w.stop()
	}
}

// Cells gives the inventory of every cell, save those that name no kubeconfig for
// repairs: they are none of ours. Each is watched from the first call on, until
// Close. A cell of which nothing current is known says why and since when; it is
// tried again in the background, and no round waits for it but the first, which
// gives every cell the time of one read. The error speaks of the hub.
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
		cell := &list.Items[i]
		cells[i] = policy.Cell{Name: cell.Name, Geography: cell.Spec.Geography, Region: cell.Spec.Region, Paused: Paused(cell)}
		group.Go(func() error {
			if err := r.ensure(ctx, cell); err != nil {
				cells[i].Err = err.Error()
			}
			return nil
		})
	}
	_ = group.Wait() // what went wrong stands in each cell's Err
	r.settle(ctx)
	for i := range cells {
		if cells[i].Err == "" {
			r.inventory(&cells[i])
		}
	}
	return cells, nil
}

// ensure has the cell watched by the kubeconfig that its Secret holds now. A
// credential that was withdrawn is used no more.
func (r *Reader) ensure(ctx context.Context, cell *api.Cell) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	secret, err := r.secretOf(ctx, cell)
	w := r.watchers.of(cell.Name)
	if w != nil && (apierrors.IsNotFound(err) || err == nil && !sameSecret(w.secret, secret)) {
		r.watchers.stopFunc(func(name string) bool { return name == cell.Name })
		w = nil
	}
	if err == nil && w == nil {
		r.watchers.set(cell.Name, r.watch(ctx, cell.Name, secret))
	}
	return err
}

func sameSecret(a, b *corev1.Secret) bool {
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}

// settle waits, for as long as one read may take, until every cell is known or has
// failed once: those that are listed for the first time, and those that have just
// been written to. What lies above that read is for whoever hangs to have failed.
func (r *Reader) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout+r.timeout/8)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for r.settling() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Reader) settling() bool {
	r.watchers.mu.Lock()
	defer r.watchers.mu.Unlock()
	for _, w := range r.watchers.all {
		if w.settling() {
			return true
		}
	}
	return false
}

func (r *Reader) inventory(out *policy.Cell) {
	w := r.watchers.of(out.Name)
	clusters, machines, err := w.inventory()
	if err != nil {
		out.Err = err.Error()
		return
	}
	r.metrics.known(out.Name, w.asOf(), len(machines))
	known := map[client.ObjectKey]bool{}
	out.Upgrades = map[string]string{}
	for _, c := range clusters {
		known[client.ObjectKey{Namespace: c.namespace, Name: c.name}] = true
		if c.paused {
			out.PausedClusters = append(out.PausedClusters, c.name)
		}
		if c.checked {
			out.CheckedClusters = append(out.CheckedClusters, c.name)
		}
		if c.drainable {
			out.DrainableClusters = append(out.DrainableClusters, c.name)
		}
		if c.upgrade != "" {
			out.Upgrades[c.name] = c.upgrade
		}
	}
	out.Machines = machines
	r.forgetClusters(out.Name, known)
}

// Paused says whether an object bears the mark that stops repairs under it, or is
// on its way out: whoever takes a cell or a cluster down does not want it mended.
func Paused(o client.Object) bool {
	_, marked := o.GetAnnotations()[api.AnnotationPaused]
	return marked || o.GetDeletionTimestamp() != nil
}

// Close ends the watches of every cell. It returns when nothing of them is left.
func (r *Reader) Close() {
	r.watchers.stopFunc(func(string) bool { return true })
}
