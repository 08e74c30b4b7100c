package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	nodes, err := f.rackNodes()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := i.stopKubelet(ctx, f.Cluster, n.Name, f.Kind); err != nil {
			return err
		}
	}
	return nil
}

// rackNodes are the nodes of the fault's rack; the error says which clusters, or
// which racks, there are.
func (f Fault) rackNodes() ([]layout.Node, error) {
	var clusters []string
	for _, c := range layout.BusinessClusters() {
		if c.Name == f.Cluster {
			return nodesInRack(c, f.Rack)
		}
		clusters = append(clusters, c.Name)
	}
	return nil, fmt.Errorf("no business cluster %q: there are %v", f.Cluster, clusters)
}

func nodesInRack(c layout.Cluster, rack string) ([]layout.Node, error) {
	var racks []string
	var found []layout.Node
	for _, n := range c.Nodes() {
		racks = append(racks, n.Rack)
		if n.Rack == rack {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("cluster %s has no rack %q: there are %v", c.Name, rack, slices.Compact(racks))
	}
	return found, nil
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

// brokenNodes finds the broken nodes of the clusters that answer.
func (i *Injector) brokenNodes(ctx context.Context) ([]brokenNode, error) {
	return gather(ctx, i, layout.BusinessClusters(), func(ctx context.Context, to client.Client, c layout.Cluster) ([]brokenNode, error) {
		var nodes corev1.NodeList
		if err := to.List(ctx, &nodes); err != nil {
			return nil, fmt.Errorf("listing nodes: %w", err)
		}
		var found []brokenNode
		for _, n := range nodes.Items {
			if kind := n.Annotations[layout.AnnotationFault]; kind != "" {
				found = append(found, brokenNode{c.Name, n, faultOf(c.Name, n, Kind(kind))})
			}
		}
		return found, nil
	})
}

func faultOf(cluster string, n corev1.Node, kind Kind) Fault {
	if kind == RackStop {
		return Fault{Kind: kind, Cluster: cluster, Rack: n.Labels[v1alpha1.LabelRack]}
	}
	return Fault{Kind: kind, Node: n.Name}
}

func (i *Injector) mendNodes(ctx context.Context) (mended []Fault, all error) {
	broken, all := i.brokenNodes(ctx)
	for _, b := range broken {
		err := update(ctx, i.clients[b.cluster], &b.node, func(n *corev1.Node) {
			removeAnnotation(n)
			setKubelet(n, true)
		})
		if err != nil {
			all = errors.Join(all, fmt.Errorf("starting the kubelet of node %s: %w", b.node.Name, err))
			continue
		}
		mended = append(mended, b.fault)
	}
	return mended, all
}
