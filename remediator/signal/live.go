package signal

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/skew"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Live reads the suspects' Nodes, and all Leases of their clusters, from the
// clusters' own API servers, every cluster at once and each within the timeout.
func (r *Reader) Live(ctx context.Context, cells []policy.Cell, suspects []policy.NodeRef) []policy.LiveCluster {
	ctx, cancel := context.WithTimeout(ctx, 2*r.timeout)
	defer cancel()
	out := r.readAll(ctx, byCluster(suspects), func(w want) policy.LiveCluster { return r.liveCluster(ctx, cells, w) })
	r.unready.forget(r.now())
	return out
}

// readAll reads clusters, some at a time, those first that answered the last time.
func (r *Reader) readAll(ctx context.Context, wanted []want, read func(w want) policy.LiveCluster) []policy.LiveCluster {
	out, asked := make([]policy.LiveCluster, len(wanted)), make([]bool, len(wanted))
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, i := range r.laggards.last(wanted) {
		group.Go(func() error {
			asked[i] = ctx.Err() == nil
			out[i] = read(wanted[i])
			return nil
		})
	}
	_ = group.Wait() // what went wrong stands in each cluster's Err
	r.laggards.note(out, asked)
	return out
}

// want is the nodes to be read in one cluster.
type want struct {
	cell, cluster string
	nodes         []string
}

// byCluster groups suspects, which come sorted.
func byCluster(suspects []policy.NodeRef) []want {
	var out []want
	for _, s := range suspects {
		if n := len(out); n == 0 || out[n-1].cell != s.Cell || out[n-1].cluster != s.Cluster {
			out = append(out, want{cell: s.Cell, cluster: s.Cluster})
		}
		last := &out[len(out)-1]
		last.nodes = append(last.nodes, s.Node)
	}
	return out
}

func (r *Reader) liveCluster(ctx context.Context, cells []policy.Cell, w want) policy.LiveCluster {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	out := policy.LiveCluster{Cell: w.cell, Cluster: w.cluster, ReadAt: r.now()}
	c, err := r.find(ctx, cells, w)
	if err == nil {
		err = r.read(ctx, c, w.nodes, &out)
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

// read takes all Leases and the given Nodes of a cluster, and the difference
// between its clock and ours.
func (r *Reader) read(ctx context.Context, c kubernetes.Interface, nodes []string, out *policy.LiveCluster) error {
	ctx, clocks := skew.Measure(ctx)
	var err error
	if out.Leases, err = leases(ctx, c); err != nil {
		return err
	}
	out.Nodes = make([]policy.LiveNode, len(nodes))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, name := range nodes {
		group.Go(func() error {
			out.Nodes[i] = node(ctx, c, name)
			return nil
		})
	}
	_ = group.Wait() // what went wrong stands in each node's Err
	for i := range out.Nodes {
		if n := &out.Nodes[i]; n.Err == "" && !n.Absent {
			n.Unready.Duration = r.unready.saw(policy.NodeRef{Cell: out.Cell, Cluster: out.Cluster, Node: n.Name}, n.Ready == "True", r.now())
		}
	}
	out.ClockSkew.Duration, err = clocks.Skew()
	return err
}

// find needs the cluster's namespace, which series do not bear: the inventory
// has it. A name that stands for two clusters is not understood.
func (r *Reader) find(ctx context.Context, cells []policy.Cell, w want) (kubernetes.Interface, error) {
	namespace := ""
	for i := range cells {
		if cells[i].Name != w.cell {
			continue
		}
		for j := range cells[i].Machines {
			m := &cells[i].Machines[j]
			if m.Cluster != w.cluster {
				continue
			}
			if namespace != "" && namespace != m.Namespace {
				return nil, fmt.Errorf("namespaces %s and %s both have machines of a cluster of this name", namespace, m.Namespace)
			}
			namespace = m.Namespace
		}
	}
	if namespace == "" {
		return nil, fmt.Errorf("cell %s has no machines of this cluster", w.cell)
	}
	return r.connect(ctx, clusterKey{w.cell, namespace, w.cluster, observing})
}

func (r *Reader) connect(ctx context.Context, key clusterKey) (kubernetes.Interface, error) {
	var cell api.Cell
	if err := r.hub.Get(ctx, objectKey(key.cell), &cell); err != nil {
		return nil, fmt.Errorf("reading the Cell: %w", err)
	}
	c, err := r.Client(ctx, &cell)
	if err != nil {
		return nil, err
	}
	return r.business(ctx, c, key)
}

// NodeChecks returns the client that makes and reads the pods of node checks in
// the cluster of a target. Like every client it is made of the Secret as it is now.
func (r *Reader) NodeChecks(ctx context.Context, t api.RemediationTarget) (kubernetes.Interface, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.connect(ctx, clusterKey{t.Cell, t.Namespace, t.Cluster, checking})
}

// Drains returns the client that cordons and drains nodes in the cluster of a target.
func (r *Reader) Drains(ctx context.Context, t api.RemediationTarget) (kubernetes.Interface, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.connect(ctx, clusterKey{t.Cell, t.Namespace, t.Cluster, draining})
}

// Again reads the cluster of a target once more, for the last look before a write.
func (r *Reader) Again(ctx context.Context, t api.RemediationTarget, nodes []string) policy.LiveCluster {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	out := policy.LiveCluster{Cell: t.Cell, Cluster: t.Cluster, ReadAt: r.now()}
	c, err := r.connect(ctx, clusterKey{t.Cell, t.Namespace, t.Cluster, observing})
	if err == nil {
		err = r.read(ctx, c, nodes, &out)
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

func leases(ctx context.Context, c kubernetes.Interface) ([]policy.Lease, error) {
	var out []policy.Lease
	options := metav1.ListOptions{Limit: pageSize}
	for n := 0; n < maxObjects; n += pageSize {
		list, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing Leases: %w", err)
		}
		for i := range list.Items {
			out = appendLease(out, &list.Items[i])
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
	return nil, fmt.Errorf("listing Leases: there are more than %d", maxObjects)
}

// appendLease leaves out a Lease that was never renewed: it says nothing.
func appendLease(to []policy.Lease, l *coordinationv1.Lease) []policy.Lease {
	if l.Spec.RenewTime == nil {
		return to
	}
	lease := policy.Lease{Node: l.Name, Renewed: l.Spec.RenewTime.Time}
	if l.Spec.LeaseDurationSeconds != nil {
		lease.Duration.Duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	return append(to, lease)
}

func node(ctx context.Context, c kubernetes.Interface, name string) policy.LiveNode {
	n, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return policy.LiveNode{Name: name, Absent: true}
	case err != nil:
		return policy.LiveNode{Name: name, Err: err.Error()}
	}
	out := policy.LiveNode{
		Name: name, UID: string(n.UID), BootID: n.Status.NodeInfo.BootID, ProviderID: n.Spec.ProviderID,
		Unschedulable: n.Spec.Unschedulable, Deleting: n.DeletionTimestamp != nil,
		Owner: owner(n), ControlPlane: controlPlane(n),
	}
	if out.Unschedulable {
		out.CordonedBy = n.Annotations[api.AnnotationCordonedBy]
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			out.Ready = string(condition.Status)
			out.Since = condition.LastTransitionTime.Time
			out.Heartbeat = condition.LastHeartbeatTime.Time
		}
	}
	return out
}
