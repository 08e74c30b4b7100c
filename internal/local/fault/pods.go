package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// stopPod stops the Prometheus of a cell or one of the centrals.
func (i *Injector) stopPod(ctx context.Context, f Fault) error {
	if err := f.checkPodTarget(); err != nil {
		return err
	}
	cluster, labels := f.Cell, client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentEdge}
	if f.Kind == CentralDown {
		cluster = layout.Hub().Name
		labels = client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentCentral, v1alpha1.LabelReplica: f.Replica}
	}
	c, err := i.cluster(cluster)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(deploy.Namespace), labels); err != nil {
		return fmt.Errorf("listing pods of cluster %s: %w", cluster, err)
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("cluster %s has no pod with labels %v: is the fleet ready?", cluster, labels)
	}
	for _, p := range pods.Items {
		if err := update(ctx, c, &p, func(p *corev1.Pod) { setAnnotation(p, layout.FaultStopped) }); err != nil {
			return fmt.Errorf("stopping pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// checkPodTarget says which cells and replicas there are, when the fault names another.
func (f Fault) checkPodTarget() error {
	if f.Kind == CentralDown && f.Replica != "a" && f.Replica != "b" {
		return fmt.Errorf("no central %q: there are a and b", f.Replica)
	}
	if f.Kind == CentralDown {
		return nil
	}
	var cells []string
	for _, c := range layout.MetaClusters() {
		if c.Role == layout.RoleCell {
			cells = append(cells, c.Name)
		}
	}
	if !slices.Contains(cells, f.Cell) {
		return fmt.Errorf("no cell %q: there are %v", f.Cell, cells)
	}
	return nil
}

// stoppedPod is a pod that a fault stopped.
type stoppedPod struct {
	cluster string
	pod     corev1.Pod
	fault   Fault
}

// stoppedPods finds the stopped pods of the clusters that answer.
func (i *Injector) stoppedPods(ctx context.Context) ([]stoppedPod, error) {
	return gather(ctx, i, layout.MetaClusters(), func(ctx context.Context, to client.Client, c layout.Cluster) ([]stoppedPod, error) {
		var pods corev1.PodList
		if err := to.List(ctx, &pods, client.InNamespace(deploy.Namespace)); err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		var found []stoppedPod
		for _, p := range pods.Items {
			if p.Annotations[layout.AnnotationFault] == layout.FaultStopped {
				found = append(found, stoppedPod{c.Name, p, podFault(c, p)})
			}
		}
		return found, nil
	})
}

func podFault(c layout.Cluster, p corev1.Pod) Fault {
	if c.Role == layout.RoleHub {
		return Fault{Kind: CentralDown, Replica: p.Labels[v1alpha1.LabelReplica]}
	}
	return Fault{Kind: EdgeDown, Cell: c.Name}
}

func (i *Injector) startPods(ctx context.Context) (started []Fault, all error) {
	stopped, all := i.stoppedPods(ctx)
	for _, s := range stopped {
		if err := update(ctx, i.clients[s.cluster], &s.pod, func(p *corev1.Pod) { removeAnnotation(p) }); err != nil {
			all = errors.Join(all, fmt.Errorf("starting pod %s: %w", s.pod.Name, err))
			continue
		}
		started = append(started, s.fault)
	}
	return started, all
}
