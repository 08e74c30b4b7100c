package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"
)

const (
	// pageSize is how many objects an API server that cannot stream a list is
	// asked for at once.
	pageSize = 500
	// watchSteady is how long a watch lasts that was no failure.
	watchSteady = time.Minute
)

// errHangs says that the API server answers and our watch does not. To wait
// for the watch would be to wait for its own back-off, or for ever.
var errHangs = errors.New("objects have changed and it did not say so")

// errNotListed says that there has been no time for an answer yet.
var errNotListed = errors.New("not listed yet")

// source lists and watches one resource in all namespaces.
type source struct {
	list  func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// watched is one resource of a cluster, kept as outlines by a watch.
type watched[K comparable, T outline[K]] struct {
	*outlines[K, T]
	resource string
	kind     runtime.Object
	source   source
	onError  func(error)

	mu      sync.Mutex
	present *cache.Reflector   // nil before the first watch
	again   context.CancelFunc // ends the present watch, so that another begins
	trouble error              // of the last watch that failed
}

func newWatched[K comparable, T outline[K]](resource string, kind runtime.Object, s source, draw func(any) (T, error), onError func(error)) *watched[K, T] {
	return &watched[K, T]{outlines: newOutlines(draw), resource: resource, kind: kind, source: s, onError: onError}
}

// run watches until ctx ends.
func (w *watched[K, T]) run(ctx context.Context) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Second),
		backoff.WithMaxInterval(30*time.Second),
		backoff.WithMaxElapsedTime(0),
	)
	for ctx.Err() == nil {
		began := time.Now()
		err := w.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.note(err)
			w.onError(fmt.Errorf("watching %s: %w", w.resource, err))
		}
		if time.Since(began) > watchSteady {
			retry.Reset()
		}
		sleep(ctx, retry.NextBackOff())
	}
}

// once lists and watches until the watch breaks. Its Reflector is new: one that
// an API server cannot stream lists to lists in a context of its own, and would
// go on after our end.
func (w *watched[K, T]) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return w.listPages(ctx)
		},
		WatchFuncWithContext: w.source.watch,
	}, w.kind, w.outlines, cache.ReflectorOptions{TypeDescription: w.resource})
	w.mu.Lock()
	w.present, w.again = reflector, cancel
	w.mu.Unlock()
	return reflector.ListAndWatchWithContext(ctx)
}

// listPages serves a Reflector whose API server cannot stream a list. It asks
// for what is in etcd now, because the API server pages nothing else, and draws
// each page before it asks for the next.
func (w *watched[K, T]) listPages(ctx context.Context) (runtime.Object, error) {
	out := &metainternalversion.List{}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := w.source.list(ctx, options)
		if err == nil && options.Continue == "" {
			out.ResourceVersion = resourceVersionOf(page)
		}
		return page, err
	})
	// All at once would be what we page to avoid; the next attempt begins anew.
	pages.FullListIfExpired, pages.PageSize, pages.PageBufferSize = false, pageSize, 0
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		t, err := w.draw(o)
		out.Items = append(out.Items, listed[T]{t})
		return err
	})
	return out, err
}

func resourceVersionOf(list runtime.Object) string {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

// position is where the present watch stands; empty until it has listed.
func (w *watched[K, T]) position() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.present == nil {
		return ""
	}
	return w.present.LastSyncResourceVersion()
}

// restart ends the present watch, so that the next begins.
func (w *watched[K, T]) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again != nil {
		w.again()
	}
}

func (w *watched[K, T]) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = err
}

// unlisted says why there is no list yet.
func (w *watched[K, T]) unlisted() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble != nil {
		return fmt.Errorf("listing %s: %w", w.resource, w.trouble)
	}
	return fmt.Errorf("%s are %w", w.resource, errNotListed)
}

// truthful finds out whether the outlines are as the API server has it now: a
// second watch, from where ours stands, sees nothing that ours does not.
func (w *watched[K, T]) truthful(ctx context.Context) error {
	position := w.position()
	if position == "" {
		return w.unlisted()
	}
	moved, err := w.movedSince(ctx, position)
	if err != nil || !moved {
		return err
	}
	return w.awaitMove(ctx, position)
}

// movedSince looks for a moment whether there is a change after the position.
func (w *watched[K, T]) movedSince(ctx context.Context, position string) (bool, error) {
	second, err := w.source.watch(ctx, metav1.ListOptions{ResourceVersion: position, TimeoutSeconds: ptr.To[int64](1)})
	if apierrors.IsResourceExpired(err) {
		return true, nil // so much has changed that the position is forgotten
	}
	if err != nil {
		return false, fmt.Errorf("watching %s: %w", w.resource, err)
	}
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("watching %s: %w", w.resource, ctx.Err())
		case event, open := <-second.ResultChan():
			if !open {
				return false, nil
			}
			if event.Type != watch.Error {
				return true, nil
			}
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return false, fmt.Errorf("watching %s: %w", w.resource, err)
			}
			return true, nil
		}
	}
}

// awaitMove waits until our watch has left the position. One that begins anew
// has none until it has listed.
func (w *watched[K, T]) awaitMove(ctx context.Context, position string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p := w.position(); p == position || p == ""; p = w.position() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the watch of %s hangs: %w", w.resource, errHangs)
		case <-tick.C:
		}
	}
	return nil
}
