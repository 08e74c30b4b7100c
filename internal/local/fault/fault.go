// Package fault breaks parts of a local fleet, and mends them. What is broken
// is written on the object that it is broken at: an annotation on a Node or a
// Pod. Nothing else remembers it, so that any process can list and clear it.
package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// Kind is one way to break the fleet.
type Kind string

// Kinds of faults.
const (
	// NodeStop is the death of a worker node's kubelet.
	NodeStop Kind = "node-stop"
	// NodeFlap is a kubelet that dies and comes back, again and again.
	NodeFlap Kind = "node-flap"
	// RackStop is the death of every kubelet of a rack.
	RackStop Kind = "rack-stop"
	// EdgeDown is the death of a cell's edge Prometheus.
	EdgeDown Kind = "edge-down"
	// CentralDown is the death of one of the two centrals.
	CentralDown Kind = "central-down"
)

// Description explains a kind to a person.
type Description struct {
	Kind Kind `json:"kind"`
	// Arguments as flags of the command.
	Arguments string `json:"arguments"`
	Text      string `json:"text"`
}

// Kinds are the faults there are.
func Kinds() []Description {
	return []Description{
		{NodeStop, "--node shop-node-07", "a worker node's kubelet dies; a repair brings it back"},
		{NodeFlap, "--node shop-node-07", "a worker node's kubelet dies and comes back by itself, until cleared"},
		{RackStop, "--cluster shop --rack rack-2", "every kubelet of a rack dies; must not lead to repairs of nodes"},
		{EdgeDown, "--cell asia-1", "a cell's edge Prometheus dies, until cleared"},
		{CentralDown, "--replica a", "one of the two central Prometheus dies, until cleared"},
	}
}

// Fault is one fault to inject. Of the fields, those of its kind count; an
// empty one means the default that Kinds shows.
type Fault struct {
	Kind    Kind   `json:"kind"`
	Node    string `json:"node,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Rack    string `json:"rack,omitempty"`
	Cell    string `json:"cell,omitempty"`
	Replica string `json:"replica,omitempty"`
}

// withDefaults fills in what the kind needs and leaves out what it does not.
func (f Fault) withDefaults() Fault {
	switch f.Kind {
	case NodeStop, NodeFlap:
		return Fault{Kind: f.Kind, Node: cmp.Or(f.Node, "shop-node-07")}
	case RackStop:
		return Fault{Kind: f.Kind, Cluster: cmp.Or(f.Cluster, "shop"), Rack: cmp.Or(f.Rack, "rack-2")}
	case EdgeDown:
		return Fault{Kind: f.Kind, Cell: cmp.Or(f.Cell, "asia-1")}
	case CentralDown:
		return Fault{Kind: f.Kind, Replica: cmp.Or(f.Replica, "a")}
	}
	return f
}

// String names the fault and its target.
func (f Fault) String() string {
	target := f.Node + f.Cluster + f.Cell + f.Replica
	if f.Rack != "" {
		target += "/" + f.Rack
	}
	return strings.TrimSpace(string(f.Kind) + " " + target)
}

// Injector breaks and mends one fleet.
type Injector struct {
	clients map[string]client.Client
}

// New makes clients for the clusters of a fleet, by name. It asks them nothing yet.
func New(configs map[string]*rest.Config) (*Injector, error) {
	i := &Injector{clients: map[string]client.Client{}}
	for name, config := range configs {
		c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
		if err != nil {
			return nil, fmt.Errorf("connecting to cluster %s: %w", name, err)
		}
		i.clients[name] = c
	}
	return i, nil
}

// Inject breaks what the fault says and returns the fault with its defaults
// filled in. Injecting it twice is the same as once.
func (i *Injector) Inject(ctx context.Context, f Fault) (Fault, error) {
	f = f.withDefaults()
	var err error
	switch f.Kind {
	case NodeStop, NodeFlap:
		err = i.breakNode(ctx, f)
	case RackStop:
		err = i.stopRack(ctx, f)
	case EdgeDown, CentralDown:
		err = i.stopPod(ctx, f)
	default:
		err = fmt.Errorf("no fault %q: there are %v", f.Kind, kinds())
	}
	if err != nil {
		return f, fmt.Errorf("injecting %s: %w", f, err)
	}
	return f, nil
}

func kinds() []Kind {
	var all []Kind
	for _, d := range Kinds() {
		all = append(all, d.Kind)
	}
	return all
}

// List says what is broken now, sorted.
func (i *Injector) List(ctx context.Context) ([]Fault, error) {
	nodes, errNodes := i.brokenNodes(ctx)
	pods, errPods := i.stoppedPods(ctx)
	if err := errors.Join(errNodes, errPods); err != nil {
		return nil, fmt.Errorf("listing faults: %w", err)
	}
	var all []Fault
	for _, n := range nodes {
		all = append(all, n.fault)
	}
	for _, p := range pods {
		all = append(all, p.fault)
	}
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all), nil
}

// Clear mends everything that a fault broke, and returns the faults.
func (i *Injector) Clear(ctx context.Context) ([]Fault, error) {
	faults, err := i.List(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(i.mendNodes(ctx), i.startPods(ctx)); err != nil {
		return nil, fmt.Errorf("clearing faults: %w", err)
	}
	return faults, nil
}

// update changes an object, again when somebody else changed it meanwhile.
func update[T client.Object](ctx context.Context, c client.Client, o T, change func(T)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		change(o)
		return c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

func (i *Injector) cluster(name string) (client.Client, error) {
	c, ok := i.clients[name]
	if !ok {
		return nil, fmt.Errorf("the fleet has no cluster %q", name)
	}
	return c, nil
}

func setAnnotation(o client.Object, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[layout.AnnotationFault] = value
	o.SetAnnotations(annotations)
}

func removeAnnotation(o client.Object) {
	annotations := o.GetAnnotations()
	delete(annotations, layout.AnnotationFault)
	o.SetAnnotations(annotations)
}

// setKubelet is the life or death of a node's kubelet.
func setKubelet(n *corev1.Node, running bool) {
	if !running {
		delete(n.Labels, layout.LabelKubelet)
		return
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[layout.LabelKubelet] = layout.KubeletRunning
}
