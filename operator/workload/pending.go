package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AnnotationServed is on the StatefulSet of a second server once its pod was ready: it
// has something to lose from then on, even while it is away.
const AnnotationServed = "pharos.dev/served"

// servedOwner owns that annotation alone, so that applying the server keeps it.
const servedOwner = FieldOwner + "-turns"

// remember writes down that a server serves, before anything is changed that could
// end that.
func (t *turner) remember(ctx context.Context, server string) error {
	if t.seen.Served[server] || t.seen.Serving[server] == "" {
		return nil
	}
	mark := appsv1ac.StatefulSet(server, t.place.Namespace).WithAnnotations(map[string]string{AnnotationServed: "true"})
	if err := t.client.Apply(ctx, mark, client.FieldOwner(servedOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing down that StatefulSet %s has served: %w", server, err)
	}
	t.seen.Served[server] = true
	return nil
}

// pending are the objects that applying them would change, as the API server itself
// says. What a person is told waits then does, and no central is asked for nothing.
func (t *turner) pending(ctx context.Context, objects Objects) (Objects, error) {
	var pending Objects
	for _, o := range objects {
		changes, err := t.changes(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("looking whether %s is to be changed: %w", Identity(o), err)
		}
		if changes {
			pending = append(pending, o)
		}
	}
	return pending, nil
}

func (t *turner) changes(ctx context.Context, o runtime.ApplyConfiguration) (bool, error) {
	live, err := t.typed(o)
	if err != nil {
		return false, err
	}
	name := client.ObjectKey{Namespace: t.place.Namespace, Name: Name(o)}
	if err := t.client.Get(ctx, name, live); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	// The answer is written into what is applied, so that it has to be a copy.
	copied := reflect.New(reflect.TypeOf(o).Elem()).Interface().(runtime.ApplyConfiguration)
	if err := recode(o, copied); err != nil {
		return false, err
	}
	if err := apply(ctx, client.NewDryRunClient(t.client), copied); err != nil {
		return false, err
	}
	then, err := t.typed(o)
	if err != nil {
		return false, err
	}
	if err := recode(copied, then); err != nil {
		return false, err
	}
	switch now := live.(type) {
	case *appsv1.StatefulSet:
		t.brings[now.Name] = brings(now, then.(*appsv1.StatefulSet))
	case *corev1.ConfigMap:
		t.same[now.Name] = slices.Equal(sorted(now.Data), sorted(then.(*corev1.ConfigMap).Data))
	}
	return !equality.Semantic.DeepEqual(bare(live), bare(then)), nil
}

// typed is an empty object of the kind of what is applied.
func (t *turner) typed(o runtime.ApplyConfiguration) (client.Object, error) {
	is := o.(identified)
	empty, err := t.client.Scheme().New(schema.FromAPIVersionAndKind(ptr.Deref(is.GetAPIVersion(), ""), ptr.Deref(is.GetKind(), "")))
	if err != nil {
		return nil, err
	}
	return empty.(client.Object), nil
}

func recode(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// bare is an object without what others write, or what counts its changes.
func bare(o client.Object) client.Object {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	if s, is := o.(*appsv1.StatefulSet); is {
		s.Status = appsv1.StatefulSetStatus{}
		for i := range s.Spec.VolumeClaimTemplates { // not every answer names their kind
			s.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{}
		}
	}
	return o
}

// brings tells whether a StatefulSet is to have something that it lacks, and that files
// may need: a flag, a mount or a ConfigMap that is mounted.
func brings(now, then *appsv1.StatefulSet) bool {
	has := provided(now)
	return slices.ContainsFunc(provided(then), func(what string) bool { return !slices.Contains(has, what) })
}

// provided is what the files of a pod find there. How much is kept, and where, is in
// flags too, and no file knows of it.
func provided(s *appsv1.StatefulSet) []string {
	var all []string
	for _, c := range s.Spec.Template.Spec.Containers {
		for _, arg := range c.Args {
			if !strings.HasPrefix(arg, "--storage.") {
				all = append(all, arg)
			}
		}
		for _, m := range c.VolumeMounts {
			all = append(all, m.MountPath)
		}
	}
	for _, v := range s.Spec.Template.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				all = append(all, source.ConfigMap.Name)
			}
		}
	}
	return all
}
