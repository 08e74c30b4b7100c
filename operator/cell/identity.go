package cell

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
)

const (
	// AnnotationMove lets a Cell move into the cluster whose UID is its value. It
	// names the cluster, so that it says nothing of the next one.
	AnnotationMove = "pharos.dev/move-to"
	// former and the name of a Cell is the key of the connection to the cluster that it
	// is to leave. No object's name has a slash.
	former = "former/"
)

// identity is what tells a cluster from every other, wherever it is reached.
func identity(ctx context.Context, remote client.Client) (string, error) {
	var system corev1.Namespace
	err := remote.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system)
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("asking which cluster this is, for which the kubeconfig lacks a right (apply deploy/cell there again): %w", err)
	}
	return string(system.UID), wrap("asking which cluster this is (namespace kube-system)", err)
}

// remember writes down, before anything is applied, which cluster the Cell is in.
func (r *Reconciler) remember(ctx context.Context, c *v1alpha1.Cell, uid string) error {
	now := v1alpha1.CellCluster{UID: uid, KubeconfigSecret: c.Spec.KubeconfigSecret}
	if c.Status.Cluster == now {
		return nil
	}
	before := c.DeepCopy()
	c.Status.Cluster = now
	if err := r.Client.Status().Patch(ctx, c, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing down which cluster the Cell is in: %w", err)
	}
	return nil
}

// move refuses a kubeconfig that leads to another cluster than before, until a
// person has said that the Cell is to go there. Then it takes the parts out of the
// former one: they would be nobody's, and go on to tell of a cell of this name.
func (r *Reconciler) move(ctx context.Context, c *v1alpha1.Cell, now string) error {
	was := c.Status.Cluster.UID
	if was == "" || was == now {
		return nil
	}
	if c.Annotations[AnnotationMove] != now {
		return workload.Invalidf("spec.kubeconfigSecret: Secret %s leads to cluster %s, and the parts are in cluster %s (UIDs of namespace kube-system), where they go on as they are. "+
			"If that is a mistake, give the former kubeconfig back. If the Cell is to move: keep the former kubeconfig in a Secret %s, name another Secret here, and "+
			"kubectl annotate --overwrite cell %s %s=%s",
			c.Spec.KubeconfigSecret, now, was, c.Status.Cluster.KubeconfigSecret, c.Name, AnnotationMove, now)
	}
	if c.Annotations[AnnotationAbandon] == was {
		return nil
	}
	remote, err := r.formerly(ctx, c)
	if err == nil {
		err = r.clearIn(ctx, remote, c)
	}
	if err != nil {
		return workload.Invalidf("%s: taking the parts out of cluster %s before the Cell moves: %w. If that cluster is lost, or you have taken them away (there: kubectl -n %s delete "+
			"statefulsets,deployments,configmaps,services,poddisruptionbudgets -l %s=%s): kubectl annotate --overwrite cell %[6]s %[7]s=%[2]s",
			AnnotationMove, was, err, r.Namespace, v1alpha1.LabelCell, c.Name, AnnotationAbandon)
	}
	r.cells.forget(former + c.Name)
	return nil
}

// formerly is a client of the cluster that the parts are in, by the Secret that
// led there last.
func (r *Reconciler) formerly(ctx context.Context, c *v1alpha1.Cell) (client.Client, error) {
	was := c.Status.Cluster
	if was.KubeconfigSecret == c.Spec.KubeconfigSecret {
		return nil, errors.New("its kubeconfig was overwritten: the Secret that led there is the one that spec.kubeconfigSecret names. Put the former one back, and the new one in another Secret")
	}
	remote, err := r.cells.by(ctx, former+c.Name, was.KubeconfigSecret)
	if err != nil {
		return nil, err
	}
	uid, err := identity(ctx, remote)
	if err == nil && uid != was.UID {
		err = fmt.Errorf("the Secret %s leads to cluster %s", was.KubeconfigSecret, uid)
	}
	return remote, err
}

// home is a client of the cluster that the parts of a Cell are in, which its
// kubeconfig may have left.
func (r *Reconciler) home(ctx context.Context, c *v1alpha1.Cell) (client.Client, error) {
	remote, err := r.cells.to(ctx, c)
	if err != nil || c.Status.Cluster.UID == "" {
		return remote, err
	}
	uid, err := identity(ctx, remote)
	if err != nil || uid == c.Status.Cluster.UID {
		return remote, err
	}
	if remote, err = r.formerly(ctx, c); err != nil {
		return nil, workload.Invalidf("spec.kubeconfigSecret: leads to cluster %s, and the parts are in cluster %s: %w", uid, c.Status.Cluster.UID, err)
	}
	return remote, nil
}
