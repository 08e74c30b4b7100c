package signal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/skew"
)

// cellClients keeps the client of each cell, by its name.
type cellClients = kube.Connections[string, client.Client]

func newCellClients(timeout time.Duration, now func() time.Time) *cellClients {
	scheme := kube.Scheme()
	return kube.NewConnections[string](timeout, func(config *rest.Config, web *http.Client) (client.Client, error) {
		measured(web, now)
		return client.New(config, client.Options{HTTPClient: web, Scheme: scheme, Mapper: mapper()})
	})
}

// clusterClients keeps the clients of each business cluster, one for each access.
type clusterClients = kube.Connections[clusterKey, kubernetes.Interface]

func newClusterClients(timeout time.Duration, now func() time.Time) *clusterClients {
	return kube.NewConnections[clusterKey](timeout, func(config *rest.Config, web *http.Client) (kubernetes.Interface, error) {
		measured(web, now)
		return kubernetes.NewForConfigAndClient(config, web)
	})
}

// measured lets whoever asks through the client compare the server's clock with ours.
func measured(web *http.Client, now func() time.Time) {
	web.Transport = skew.Transport{Next: web.Transport, Now: now}
}

// unusable says which Secret holds what no client can be made of.
func unusable(secret *corev1.Secret, err error) error {
	return fmt.Errorf("secret %s/%s, key %s: %w", secret.Namespace, secret.Name, kube.SecretKeyKubeconfig, err)
}

// Client returns the client of a cell. It reads the cell and its Secret anew,
// so that a withdrawn credential is used no more.
func (r *Reader) Client(ctx context.Context, cell *api.Cell) (client.Client, error) {
	secret, err := r.secretOf(ctx, cell)
	if err != nil {
		return nil, err
	}
	c, err := r.cells.To(cell.Name, secret)
	if err != nil {
		return nil, unusable(secret, err)
	}
	if w := r.watchers.of(cell.Name); w != nil {
		return noting{c, w}, nil
	}
	return c, nil
}

func (r *Reader) secretOf(ctx context.Context, cell *api.Cell) (*corev1.Secret, error) {
	name := cell.Spec.RemediatorKubeconfigSecret
	if name == "" {
		return nil, errors.New("spec.remediatorKubeconfigSecret is unset: nothing in this cell is repaired")
	}
	var secret corev1.Secret
	if err := r.hub.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("reading the cell's kubeconfig: %w", err)
	}
	return &secret, nil
}

// noting tells the watcher of the cell what was written: patches of Machines, and
// nothing else is.
type noting struct {
	client.Client
	watcher *watcher
}

// Patch implements client.Client.
func (n noting) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	err := n.Client.Patch(ctx, o, p, options...)
	if err == nil {
		n.watcher.noteWrite(o.GetResourceVersion())
	}
	return err
}

// mapper knows beforehand the kinds that are asked for in a cell. Discovering
// them would take a cell that says nothing longer than its deadline.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(api.GroupVersion.WithKind("Cluster"), meta.RESTScopeNamespace)
	m.Add(api.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	return m
}

// access is what a kubeconfig of a business cluster is for.
type access string

const (
	// observing reads Nodes and Leases.
	observing access = "observer's"
	// checking makes and reads the pods of node checks.
	checking access = "node checks'"
	// draining cordons nodes and evicts their pods.
	draining access = "drains'"
)

type clusterKey struct {
	cell, namespace, name string
	access                access
}

// secretName is the Secret beside the Cluster that holds the kubeconfig.
func (k clusterKey) secretName(c *api.Cluster) (string, error) {
	name, field := c.Spec.ObserverKubeconfigSecret, "observerKubeconfigSecret"
	switch k.access {
	case checking:
		name, field = c.Spec.NodeCheckKubeconfigSecret, "nodeCheckKubeconfigSecret"
	case draining:
		name, field = c.Spec.DrainKubeconfigSecret, "drainKubeconfigSecret"
	}
	if name == "" {
		return "", fmt.Errorf("cluster %s/%s in cell %s names no spec.%s", k.namespace, k.name, k.cell, field)
	}
	return name, nil
}

// business returns the client of a business cluster that the key's access needs.
func (r *Reader) business(ctx context.Context, cell client.Reader, key clusterKey) (kubernetes.Interface, error) {
	object := client.ObjectKey{Namespace: key.namespace, Name: key.name}
	var cluster api.Cluster
	if err := cell.Get(ctx, object, &cluster); err != nil {
		return nil, fmt.Errorf("reading the Cluster: %w", err)
	}
	var err error
	if object.Name, err = key.secretName(&cluster); err != nil {
		return nil, err
	}
	var secret corev1.Secret
	if err := cell.Get(ctx, object, &secret); err != nil {
		return nil, fmt.Errorf("reading the %s kubeconfig: %w", key.access, err)
	}
	c, err := r.clusters.To(key, &secret)
	if err != nil {
		return nil, unusable(&secret, err)
	}
	return c, nil
}

func objectKey(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// forgetCells drops what is kept for cells that are gone, and for their clusters.
func (r *Reader) forgetCells(known []api.Cell) {
	names := map[string]bool{}
	for i := range known {
		names[known[i].Name] = true
	}
	r.watchers.stopFunc(func(name string) bool {
		if !names[name] {
			r.metrics.forget(name)
		}
		return !names[name]
	})
	r.cells.DropFunc(func(name string) bool { return !names[name] })
	r.clusters.DropFunc(func(key clusterKey) bool { return !names[key.cell] })
}

// forgetClusters drops what is kept for clusters that are gone from a cell.
func (r *Reader) forgetClusters(cell string, known map[client.ObjectKey]bool) {
	r.clusters.DropFunc(func(key clusterKey) bool {
		return key.cell == cell && !known[client.ObjectKey{Namespace: key.namespace, Name: key.name}]
	})
}
