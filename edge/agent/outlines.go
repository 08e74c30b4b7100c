package agent

import (
	"fmt"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// outline is what is kept of an object; its key tells it from the others of its
// resource.
type outline[K comparable] interface{ key() K }

// outlines holds, of each object of a resource, what is exported of it and no
// more. A Reflector fills it, and draws each object while it is read from the
// stream, so that a full list is never in memory. It implements
// cache.TransformingStore.
type outlines[K comparable, T outline[K]] struct {
	draw func(object any) (T, error)

	mu    sync.RWMutex
	known map[K]T
}

func newOutlines[K comparable, T outline[K]](draw func(any) (T, error)) *outlines[K, T] {
	return &outlines[K, T]{draw: draw, known: map[K]T{}}
}

// Add implements cache.ReflectorStore.
func (s *outlines[K, T]) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s *outlines[K, T]) Update(object any) error {
	t, err := s.drawn(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[t.key()] = t
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *outlines[K, T]) Delete(object any) error {
	t, err := s.drawn(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, t.key())
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *outlines[K, T]) Replace(objects []any, _ string) error {
	fresh := make(map[K]T, len(objects))
	for _, o := range objects {
		t, err := s.drawn(o)
		if err != nil {
			return err
		}
		fresh[t.key()] = t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = fresh
	return nil
}

// Resync implements cache.ReflectorStore. Nobody is told of changes, so that
// there is nothing to tell again.
func (s *outlines[K, T]) Resync() error { return nil }

// Transformer implements cache.TransformingStore.
func (s *outlines[K, T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.drawn(object) }
}

// drawn takes outlines as they are: a Reflector hands back what it listed.
func (s *outlines[K, T]) drawn(object any) (T, error) {
	switch o := object.(type) {
	case T:
		return o, nil
	case listed[T]:
		return o.outline, nil
	}
	return s.draw(object)
}

// listed carries an outline through a Reflector's list, which holds objects of
// Kubernetes only.
type listed[T any] struct{ outline T }

// GetObjectKind implements runtime.Object.
func (listed[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. An outline is never changed.
func (l listed[T]) DeepCopyObject() runtime.Object { return l }

// all returns the outlines in no order; never nil.
func (s *outlines[K, T]) all() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]T, 0, len(s.known))
	for _, t := range s.known {
		out = append(out, t)
	}
	return out
}

// get returns one outline.
func (s *outlines[K, T]) get(key K) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, ok := s.known[key]
	return t, ok
}

// shared is a string of which many objects have the same, kept once.
type shared = unique.Handle[string]

func share(s string) shared { return unique.Make(s) }

// wrongType is the error of a draw that was handed something else.
func wrongType[T any](object any) (T, error) {
	var none T
	return none, fmt.Errorf("%T is no object of this resource", object)
}
