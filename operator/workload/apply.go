package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// identified is what every typed apply configuration tells of itself.
type identified interface {
	GetAPIVersion() *string
	GetKind() *string
	GetName() *string
}

// Apply applies every object, the others too when one fails. The error names
// the objects that failed.
func Apply(ctx context.Context, c client.Client, objects Objects) error {
	var failed []error
	for _, o := range objects {
		if err := apply(ctx, c, o); err != nil {
			failed = append(failed, fmt.Errorf("applying %s: %w", Identity(o), err))
		}
	}
	return errors.Join(failed...)
}

// apply leaves the volumes of a StatefulSet as large as they were made, and what is
// kept in them within that: no StatefulSet's can be changed, and the rest of the
// change must not wait for that.
func apply(ctx context.Context, c client.Client, o runtime.ApplyConfiguration) error {
	write := func() error { return c.Apply(ctx, o, client.FieldOwner(FieldOwner), client.ForceOwnership) }
	err := write()
	set, isSet := o.(*appsv1ac.StatefulSetApplyConfiguration)
	if !isSet || !apierrors.IsInvalid(err) {
		return err
	}
	var live appsv1.StatefulSet
	if readErr := c.Get(ctx, client.ObjectKey{Namespace: *set.Namespace, Name: *set.Name}, &live); readErr != nil {
		return errors.Join(err, fmt.Errorf("reading it: %w", readErr))
	}
	if !keepClaims(set, live.Spec.VolumeClaimTemplates) {
		return err
	}
	return write()
}

// Prune deletes the objects of the place that are not among those wanted, nor
// among those spared, which are told by Identity. It looks at the kinds in the list
// given, and only at objects with all of the place's labels.
func (p Place) Prune(ctx context.Context, c client.Client, wanted Objects, kinds []client.ObjectList, spared ...string) error {
	keep := map[string]bool{}
	for _, identity := range spared {
		keep[identity] = true
	}
	for _, o := range wanted {
		keep[Identity(o)] = true
	}
	var failed []error
	for _, list := range kinds {
		found, err := p.list(ctx, c, list)
		if err != nil {
			return err // the next would most likely wait in vain, too
		}
		for _, o := range found {
			kind, err := apiutil.GVKForObject(o, c.Scheme())
			if err != nil {
				return fmt.Errorf("naming a part: %w", err)
			}
			if name := kind.Kind + " " + o.GetName(); !keep[name] {
				failed = append(failed, remove(ctx, c, name, o))
			}
		}
	}
	return errors.Join(failed...)
}

// remove deletes the very object that was seen, not one that took its name since.
func remove(ctx context.Context, c client.Client, name string, o client.Object) error {
	err := c.Delete(ctx, o, client.Preconditions{UID: ptr.To(o.GetUID())}, client.PropagationPolicy("Background"))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

func (p Place) list(ctx context.Context, c client.Client, list client.ObjectList) ([]client.Object, error) {
	all, err := p.labelled(ctx, c, list)
	return slices.DeleteFunc(all, func(o client.Object) bool { return !p.owns(o) }), err
}

// labelled are the objects of a kind that bear the labels of the place.
func (p Place) labelled(ctx context.Context, c client.Client, list client.ObjectList) ([]client.Object, error) {
	// An empty copy: lists are shared between calls.
	list = list.DeepCopyObject().(client.ObjectList)
	if err := c.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingLabels(p.own())); err != nil {
		return nil, fmt.Errorf("listing the parts (%T): %w", list, err)
	}
	var out []client.Object
	err := meta.EachListItem(list, func(o runtime.Object) error {
		out = append(out, o.(client.Object))
		return nil
	})
	return out, err
}

// owns guards what a person labelled as if it were ours.
func (p Place) owns(o client.Object) bool {
	if p.Owner == nil {
		return true
	}
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == ptr.Deref(p.Owner.UID, "")
}

// Identity is the kind and the name of an object, for a person.
func Identity(o runtime.ApplyConfiguration) string {
	return ptr.Deref(o.(identified).GetKind(), "") + " " + Name(o)
}

// Name is the name of an object.
func Name(o runtime.ApplyConfiguration) string { return ptr.Deref(o.(identified).GetName(), "") }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
