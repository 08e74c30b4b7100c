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

// annotationClaim on the edge's ConfigMap is the UID of the Cell whose the cluster is.
// Two hubs may each have a Cell of one name.
const annotationClaim = "pharos.dev/cell-uid"

// claimName is the object that says whose the cluster is.
const claimName = "ConfigMap " + edgeName

// claim makes sure, before anything is applied, that the cluster is this Cell's
// alone: kubeconfigs of two Cells can lead to one cluster, and each would apply
// its parts over the other's. Where both find an empty cluster at once, the one
// that creates the edge's ConfigMap has it. It gives the objects that the Cell has.
func claim(ctx context.Context, remote client.Client, p workload.Place, c *v1alpha1.Cell) (known map[string]bool, err error) {
	known, made, err := lookAround(ctx, remote, p.Namespace, c.Name)
	if err != nil {
		return nil, err
	}
	if made != nil {
		return known, hold(ctx, remote, made, c)
	}
	first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: edgeName,
		Labels:      map[string]string{v1alpha1.LabelCell: c.Name, v1alpha1.LabelManagedBy: "pharos"},
		Annotations: map[string]string{annotationClaim: string(c.UID)},
	}}
	err = remote.Create(ctx, first, client.FieldOwner(workload.FieldOwner))
	if !apierrors.IsAlreadyExists(err) {
		return known, wrap("creating "+claimName, err)
	}
	if err := remote.Get(ctx, client.ObjectKeyFromObject(first), first); err != nil {
		return nil, wrap("reading "+claimName, err)
	}
	if err := rival(claimName, first, c.Name); err != nil {
		return nil, err
	}
	if err := p.Foreign(claimName, first); err != nil {
		return nil, err
	}
	return known, hold(ctx, remote, first, c)
}

// hold refuses a claim that a Cell of the same name has made, and signs one that was
// made before claims were signed. Of two hubs that do so at once, one has it.
func hold(ctx context.Context, remote client.Client, claim *corev1.ConfigMap, c *v1alpha1.Cell) error {
	switch by := claim.Annotations[annotationClaim]; by {
	case string(c.UID):
		return nil
	case "":
		signed := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&signed.ObjectMeta, annotationClaim, string(c.UID))
		return wrap("signing "+claimName, remote.Patch(ctx, signed,
			client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}), client.FieldOwner(workload.FieldOwner)))
	default:
		return workload.Invalidf("spec.kubeconfigSecret: leads to the cluster of another Cell %q, with the UID %s where this one has %s: that of another hub, or one that was here before. "+
			"If no hub has that Cell any more, hand the cluster over: kubectl -n %s annotate configmap %s %s-",
			c.Name, by, c.UID, claim.Namespace, edgeName, annotationClaim)
	}
}

// isOthers tells whether a cluster is another Cell's of the same name, which then
// keeps everything that bears that name.
func isOthers(ctx context.Context, remote client.Client, namespace string, c *v1alpha1.Cell) (bool, error) {
	var claim corev1.ConfigMap
	err := remote.Get(ctx, client.ObjectKey{Namespace: namespace, Name: edgeName}, &claim)
	if client.IgnoreNotFound(err) != nil {
		return false, wrap("reading "+claimName, err)
	}
	by := claim.Annotations[annotationClaim]
	return by != "" && by != string(c.UID), nil
}

// lookAround refuses a cluster in which another Cell has an object, and gives the
// objects that this one has, and its claim, if it has made one.
func lookAround(ctx context.Context, remote client.Client, namespace, cell string) (known map[string]bool, made *corev1.ConfigMap, err error) {
	known = map[string]bool{}
	for _, list := range kinds() {
		err := remote.List(ctx, list, client.InNamespace(namespace),
			client.MatchingLabels{v1alpha1.LabelManagedBy: "pharos"}, client.HasLabels{v1alpha1.LabelCell})
		if err != nil {
			return nil, nil, fmt.Errorf("looking for the parts of other Cells (%T): %w", list, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			kind, err := apiutil.GVKForObject(o, remote.Scheme())
			if err != nil {
				return fmt.Errorf("naming a part: %w", err)
			}
			if cm, is := item.(*corev1.ConfigMap); is && cm.Name == edgeName {
				made = cm
			}
			name := kind.Kind + " " + o.GetName()
			known[name] = o.GetLabels()[v1alpha1.LabelCell] == cell
			return rival(name, o, cell)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return known, made, nil
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
