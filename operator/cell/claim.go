package cell

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// claim makes sure, before anything is applied, that the cluster is this Cell's
// alone: kubeconfigs of two Cells can lead to one cluster, and each would apply
// its parts over the other's. Where both find an empty cluster at once, the one
// that creates the edge's ConfigMap has it. It gives the objects that the Cell has.
func claim(ctx context.Context, remote client.Client, p workload.Place, cell string) (known map[string]bool, err error) {
	known, err = lookAround(ctx, remote, p.Namespace, cell)
	if err != nil || known[claimName] {
		return known, err
	}
	first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: edgeName,
		Labels: map[string]string{v1alpha1.LabelCell: cell, v1alpha1.LabelManagedBy: "pharos"},
	}}
	err = remote.Create(ctx, first, client.FieldOwner(workload.FieldOwner))
	if !apierrors.IsAlreadyExists(err) {
		return known, wrap("creating "+claimName, err)
	}
	if err := remote.Get(ctx, client.ObjectKeyFromObject(first), first); err != nil {
		return nil, wrap("reading "+claimName, err)
	}
	if err := rival(claimName, first, cell); err != nil {
		return nil, err
	}
	return known, p.Foreign(claimName, first)
}

// claimName is the object that says whose the cluster is.
const claimName = "ConfigMap " + edgeName

// lookAround refuses a cluster in which another Cell has an object, and gives those
// that this one has.
func lookAround(ctx context.Context, remote client.Client, namespace, cell string) (map[string]bool, error) {
	known := map[string]bool{}
	for _, list := range kinds() {
		err := remote.List(ctx, list, client.InNamespace(namespace),
			client.MatchingLabels{v1alpha1.LabelManagedBy: "pharos"}, client.HasLabels{v1alpha1.LabelCell})
		if err != nil {
			return nil, fmt.Errorf("looking for the parts of other Cells (%T): %w", list, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			kind, err := apiutil.GVKForObject(o, remote.Scheme())
			if err != nil {
				return fmt.Errorf("naming a part: %w", err)
			}
			name := kind.Kind + " " + o.GetName()
			known[name] = o.GetLabels()[v1alpha1.LabelCell] == cell
			return rival(name, o, cell)
		})
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}

// rival refuses an object that another Cell owns. That Cell may be another
// hub's, so that nobody here can know that it is gone.
func rival(name string, o client.Object, cell string) error {
	owner := o.GetLabels()[v1alpha1.LabelCell]
	if owner == "" || owner == cell || o.GetLabels()[v1alpha1.LabelManagedBy] != "pharos" {
		return nil
	}
	return workload.Invalidf("spec.kubeconfigSecret: leads to the cluster of Cell %q, whose %s is in namespace %s; each Cell needs a cluster of its own. "+
		"If there is no such Cell any more: kubectl -n %s delete statefulsets,deployments,configmaps,services,poddisruptionbudgets -l %s=%s",
		owner, name, o.GetNamespace(), o.GetNamespace(), v1alpha1.LabelCell, owner)
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
