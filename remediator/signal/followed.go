package signal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pageSize bounds one page of a list.
	pageSize = 500
	// maxObjects bounds a whole list; a cell that has more is not understood.
	maxObjects = 200_000
	// watchFor is how long a watch is asked for. An API server says two seconds
	// before the end of a watch how far it has come, so that what is kept is known
	// to be current about as often, and is at most twice as old.
	watchFor = 6 * time.Second
	// watchShort is how long a watch lasts at least that was no failure.
	watchShort = time.Second
)

// followed is one resource of a cell, kept by a list and by watches from where it
// stands. Of each object it keeps what draw takes from it, in order of their names.
//
// What is kept is as it was at a moment that is known. Before each watch one object
// is read, consistently: the answer bears the resource version that the cell has
// come to by then. Once the watch has come as far, by a change or by a bookmark,
// nothing that was there at that moment is missing. A watch that says nothing,
// or one of a server that lags behind, never comes as far.
type followed[T any] struct {
	resource string
	kind     func() client.ObjectList
	draw     func(client.Object) (T, bool)
	compare  func(a, b T) int
	timeout  time.Duration
	now      func() time.Time

	mu       sync.Mutex
	items    []T
	position string    // every change up to it is in items; empty before the first list
	asOf     time.Time // items are as they were then, or newer
}

// run lists, and watches until something fails.
func (f *followed[T]) run(ctx context.Context, c client.WithWatch) error {
	for {
		if err := f.list(ctx, c); err != nil {
			return fmt.Errorf("listing %s: %w", f.resource, err)
		}
		for proven := true; proven; {
			var err error
			if proven, err = f.watch(ctx, c); err != nil {
				return fmt.Errorf("watching %s: %w", f.resource, err)
			}
		}
		// This server does not say how far it has come: what there is is listed anew.
	}
}

// list takes everything anew, page by page, and fails rather than leave a part out.
func (f *followed[T]) list(ctx context.Context, c client.Reader) error {
	began := f.now()
	var items []T
	for next := ""; ; {
		page, err := f.page(ctx, c, pageSize, next)
		if err != nil {
			return err
		}
		err = meta.EachListItem(page, func(o runtime.Object) error {
			item, err := f.drawn(o)
			items = append(items, item)
			return err
		})
		if err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			f.replace(items, page.GetResourceVersion(), began)
			return nil
		}
		if len(items) >= maxObjects {
			return fmt.Errorf("there are more than %d", maxObjects)
		}
	}
}

// page asks for what is in etcd now: a list from a cache may be of any age.
func (f *followed[T]) page(ctx context.Context, c client.Reader, limit int64, next string) (client.ObjectList, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	page := f.kind()
	return page, c.List(ctx, page, client.Limit(limit), client.Continue(next))
}

func (f *followed[T]) drawn(o runtime.Object) (T, error) {
	if object, ok := o.(client.Object); ok {
		if item, ok := f.draw(object); ok {
			return item, nil
		}
	}
	var none T
	return none, fmt.Errorf("the API server sent a %T", o)
}

func (f *followed[T]) replace(items []T, position string, asOf time.Time) {
	items = slices.Clone(items) // without the room that the pages left
	slices.SortFunc(items, f.compare)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items, f.position, f.asOf = items, position, asOf
}

// watch takes changes in until the API server ends it, and says whether what is
// kept is known to be as it was when the watch began, or newer.
func (f *followed[T]) watch(ctx context.Context, c client.WithWatch) (bool, error) {
	began := f.now()
	reached, err := f.reached(ctx, c)
	if err != nil {
		return false, err
	}
	// What ends in order ends before; the rest hangs.
	ctx, cancel := context.WithTimeout(ctx, watchFor+f.timeout)
	defer cancel()
	position, _, _ := f.state()
	w, err := c.Watch(ctx, f.kind(), &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: position, AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(watchFor.Seconds())),
	}})
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("apply deploy/cell of this version in the cell, whose rights are older: %w", err)
	}
	if err != nil {
		return false, err
	}
	defer w.Stop()
	proven := false
	for event := range w.ResultChan() {
		if proven, err = f.take(event, reached, began); err != nil {
			return false, err
		}
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("it hung for %s: %w", watchFor+f.timeout, ctx.Err())
	}
	if took := f.now().Sub(began); !proven && took < watchShort {
		return false, fmt.Errorf("it ended after %s", took)
	}
	return proven, nil
}

// reached is the resource version that the cell has come to. It is never behind
// what was watched, unless the cell has lost a part of its history.
func (f *followed[T]) reached(ctx context.Context, c client.Reader) (string, error) {
	page, err := f.page(ctx, c, 1, "")
	if err != nil {
		return "", fmt.Errorf("reading how far the cell has come: %w", err)
	}
	reached := page.GetResourceVersion()
	position, _, _ := f.state()
	return reached, notBehind(reached, position)
}

// take takes one event in, and says whether the watch has come as far as the cell
// had when it began.
func (f *followed[T]) take(event watch.Event, reached string, began time.Time) (bool, error) {
	if event.Type == watch.Error {
		return false, apierrors.FromObject(event.Object)
	}
	item, err := f.drawn(event.Object)
	if err != nil {
		return false, err
	}
	position := event.Object.(client.Object).GetResourceVersion()
	proven, err := atLeast(position, reached)
	if err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := notBehind(position, f.position); err != nil {
		return false, err
	}
	at, known := slices.BinarySearchFunc(f.items, item, f.compare)
	switch {
	case event.Type == watch.Bookmark:
	case event.Type == watch.Deleted && known:
		f.items = slices.Delete(f.items, at, at+1)
	case event.Type == watch.Deleted:
	case known:
		f.items[at] = item
	default:
		f.items = slices.Insert(f.items, at, item)
	}
	f.position = position
	if proven {
		f.asOf = began
	}
	return proven, nil
}

// state is how far the changes are known, as of when, and whether there was a list.
func (f *followed[T]) state() (position string, asOf time.Time, listed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position, f.asOf, f.position != ""
}

// all is a copy of everything.
func (f *followed[T]) all() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.items)
}

// notBehind refuses a resource version that is older than what was seen before.
func notBehind(version, seen string) error {
	ahead, err := atLeast(version, seen)
	if err == nil && !ahead {
		err = fmt.Errorf("the cell went back from resource version %s to %s, as after a restore from a backup", seen, version)
	}
	return err
}

var errNoVersion = errors.New("the API server's resource versions are no numbers, so that nothing says what is current")

// atLeast compares resource versions, which Kubernetes lets clients do.
func atLeast(version, than string) (bool, error) {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errNoVersion, err)
	}
	return order >= 0, nil
}
