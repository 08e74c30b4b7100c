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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// Fault is one fault to inject. It may have the fields of its kind only; an empty
// one means the default that Kinds shows.
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

// check refuses a field that the kind does not take: whoever gives one means
// something else than what would be broken.
func (f Fault) check() error {
	takes := f.withDefaults()
	for _, field := range []struct{ flag, given, taken string }{
		{"--node", f.Node, takes.Node},
		{"--cluster", f.Cluster, takes.Cluster},
		{"--rack", f.Rack, takes.Rack},
		{"--cell", f.Cell, takes.Cell},
		{"--replica", f.Replica, takes.Replica},
	} {
		if field.given == "" || field.taken != "" {
			continue
		}
		known := slices.IndexFunc(Kinds(), func(d Description) bool { return d.Kind == f.Kind })
		return fmt.Errorf("injecting %s: it takes no %s; it takes, for example, %s", f.Kind, field.flag, Kinds()[known].Arguments)
	}
	return nil
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

// requestTimeout bounds each request to a cluster. An API server that hangs must
// not hang whoever wants to know what is broken.
const requestTimeout = 3 * time.Second

// New makes clients for the clusters of a fleet, by name. It asks them nothing yet.
func New(configs map[string]*rest.Config) (*Injector, error) {
	// With the two kinds known beforehand, no cluster is asked what it serves.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	i := &Injector{clients: map[string]client.Client{}}
	for name, config := range configs {
		config = rest.CopyConfig(config)
		config.Timeout = requestTimeout
		c, err := client.New(config, client.Options{Scheme: kube.Scheme(), Mapper: mapper})
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
	if err := f.check(); err != nil {
		return f, err
	}
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

// List says what is broken now, sorted. With an error it still says what is
// broken in the clusters that answered.
func (i *Injector) List(ctx context.Context) ([]Fault, error) {
	nodes, errNodes := i.brokenNodes(ctx)
	pods, errPods := i.stoppedPods(ctx)
	var all []Fault
	for _, n := range nodes {
		all = append(all, n.fault)
	}
	for _, p := range pods {
		all = append(all, p.fault)
	}
	if err := errors.Join(errNodes, errPods); err != nil {
		return sorted(all), fmt.Errorf("listing faults: %w", err)
	}
	return sorted(all), nil
}

func sorted(all []Fault) []Fault {
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// Clear mends everything that a fault broke, and returns the faults. With an
// error it returns those that it did mend.
func (i *Injector) Clear(ctx context.Context) ([]Fault, error) {
	nodes, errNodes := i.mendNodes(ctx)
	pods, errPods := i.startPods(ctx)
	cleared := sorted(append(nodes, pods...))
	if err := errors.Join(errNodes, errPods); err != nil {
		return cleared, fmt.Errorf("clearing faults: %w", err)
	}
	return cleared, nil
}

// gather asks clusters side by side and returns what those said that answered.
func gather[T any](ctx context.Context, i *Injector, clusters []layout.Cluster,
	ask func(context.Context, client.Client, layout.Cluster) ([]T, error),
) ([]T, error) {
	found, errs := make([][]T, len(clusters)), make([]error, len(clusters))
	var asking sync.WaitGroup
	for n, cluster := range clusters {
		asking.Go(func() {
			c, err := i.cluster(cluster.Name)
			if err != nil {
				errs[n] = err
				return
			}
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			if found[n], errs[n] = ask(ctx, c, cluster); errs[n] != nil {
				errs[n] = fmt.Errorf("what is broken in cluster %s is not known: %w", cluster.Name, errs[n])
			}
		})
	}
	asking.Wait()
	return slices.Concat(found...), errors.Join(errs...)
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
