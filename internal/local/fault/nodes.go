package fault

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

func (i *Injector) breakNode(ctx context.Context, f Fault) error {
	of, err := layout.ClusterOfNode(f.Node)
	if err != nil {
		return err
	}
	return i.stopKubelet(ctx, of.Name, f.Node, f.Kind)
}

func (i *Injector) stopRack(ctx context.Context, f Fault) error {
	c, err := layout.ClusterByName(f.Cluster)
	if err != nil {
		return err
	}
	stopped := 0
	for _, n := range c.Nodes() {
		if n.Rack != f.Rack {
			continue
		}
		if err := i.stopKubelet(ctx, c.Name, n.Name, f.Kind); err != nil {
			return err
		}
		stopped++
	}
	if stopped == 0 {
		return fmt.Errorf("cluster %s has no rack %q with nodes", f.Cluster, f.Rack)
	}
	return nil
}

func (i *Injector) stopKubelet(ctx context.Context, cluster, name string, kind Kind) error {
	c, err := i.cluster(cluster)
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err = update(ctx, c, node, func(n *corev1.Node) {
		setAnnotation(n, string(kind))
		setKubelet(n, false)
	})
	if err != nil {
		return fmt.Errorf("stopping the kubelet of node %s: %w", name, err)
	}
	return nil
}

// brokenNode is a worker node with a fault.
type brokenNode struct {
	cluster string
	node    corev1.Node
	fault   Fault
}

func (i *Injector) brokenNodes(ctx context.Context) ([]brokenNode, error) {
	var found []brokenNode
	for _, c := range layout.BusinessClusters() {
		to, err := i.cluster(c.Name)
		if err != nil {
			return nil, err
		}
		var nodes corev1.NodeList
		if err := to.List(ctx, &nodes); err != nil {
			return nil, fmt.Errorf("listing nodes of cluster %s: %w", c.Name, err)
		}
		for _, n := range nodes.Items {
			if kind := n.Annotations[layout.AnnotationFault]; kind != "" {
				found = append(found, brokenNode{c.Name, n, faultOf(c.Name, n, Kind(kind))})
			}
		}
	}
	return found, nil
}

func faultOf(cluster string, n corev1.Node, kind Kind) Fault {
	if kind == RackStop {
		return Fault{Kind: kind, Cluster: cluster, Rack: n.Labels[v1alpha1.LabelRack]}
	}
	return Fault{Kind: kind, Node: n.Name}
}

func (i *Injector) mendNodes(ctx context.Context) error {
	broken, err := i.brokenNodes(ctx)
	if err != nil {
		return err
	}
	var all error
	for _, b := range broken {
		err := update(ctx, i.clients[b.cluster], &b.node, func(n *corev1.Node) {
			removeAnnotation(n)
			setKubelet(n, true)
		})
		if err != nil {
			all = errors.Join(all, fmt.Errorf("starting the kubelet of node %s: %w", b.node.Name, err))
		}
	}
	return all
}
