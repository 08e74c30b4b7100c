package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Known are the objects that bear the labels of the place, as Identity names them.
func (p Place) Known(ctx context.Context, c client.Client, kinds []client.ObjectList) (map[string]bool, error) {
	known := map[string]bool{}
	for _, list := range kinds {
		found, err := p.labelled(ctx, c, list)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			kind, err := apiutil.GVKForObject(o, c.Scheme())
			if err != nil {
				return nil, fmt.Errorf("naming a part: %w", err)
			}
			known[kind.Kind+" "+o.GetName()] = true
		}
	}
	return known, nil
}

// ApplyOwn applies objects, unless one of them has the name of an object of
// somebody else: that would be overwritten, and deleted when it is wanted no more.
// Those that are known to be the place's own are not looked at; live must see what
// there is.
func (p Place) ApplyOwn(ctx context.Context, c client.Client, live client.Reader, known map[string]bool, objects Objects) error {
	if err := p.checkOwn(ctx, live, known, objects); err != nil {
		return err
	}
	return Apply(ctx, c, objects)
}

func (p Place) checkOwn(ctx context.Context, live client.Reader, known map[string]bool, objects Objects) error {
	var foreign []error
	for _, o := range objects {
		if !known[Identity(o)] {
			foreign = append(foreign, p.free(ctx, live, o))
		}
	}
	return errors.Join(foreign...)
}

// free refuses an object that is there and does not bear the labels of the place.
func (p Place) free(ctx context.Context, live client.Reader, o runtime.ApplyConfiguration) error {
	there := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{
		APIVersion: ptr.Deref(o.(identified).GetAPIVersion(), ""), Kind: ptr.Deref(o.(identified).GetKind(), ""),
	}}
	err := live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: Name(o)}, there)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking whose %s is: %w", Identity(o), err)
	}
	return p.Foreign(Identity(o), there)
}

// Foreign refuses an object, named for a person, that does not bear the labels of
// the place.
func (p Place) Foreign(name string, o client.Object) error {
	var missing []string
	own := p.own()
	for _, label := range sorted(own) {
		if o.GetLabels()[label] != own[label] {
			missing = append(missing, label+"="+own[label])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	kind, short, _ := strings.Cut(name, " ")
	return Invalidf("metadata.name: %s is in namespace %s already and is not Pharos' own, for it lacks %s; Pharos would overwrite it, and delete it later. "+
		"Move it to another name or namespace, or hand it over: kubectl -n %s label --overwrite %s %s %s",
		name, p.Namespace, strings.Join(missing, " "), p.Namespace, strings.ToLower(kind), short, strings.Join(missing, " "))
}

// own are the labels that every object of the place bears, and nothing else does.
func (p Place) own() map[string]string {
	labels := maps.Clone(p.Labels)
	labels[v1alpha1.LabelManagedBy] = "pharos"
	return labels
}
