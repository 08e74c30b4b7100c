package signal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/skew"
)

// kubeconfig reads the configuration that a Secret holds.
func kubeconfig(secret *corev1.Secret) (*rest.Config, error) {
	raw, ok := secret.Data[kube.SecretKeyKubeconfig]
	if !ok {
		return nil, fmt.Errorf("secret %s/%s has no key %s", secret.Namespace, secret.Name, kube.SecretKeyKubeconfig)
	}
	c, err := kube.ConfigFromBytes(raw)
	if errors.Is(err, clientcmd.ErrEmptyConfig) {
		// The library's words advise to set a variable of this process.
		return nil, fmt.Errorf("secret %s/%s: its kubeconfig has no current context, or a context without a cluster", secret.Namespace, secret.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return c, nil
}

// version changes whenever a Secret is written or replaced.
func version(s *corev1.Secret) string { return string(s.UID) + "/" + s.ResourceVersion }

// httpClient has connections of its own. Those that client-go makes are kept in
// a cache that nobody can empty, so that a fleet whose clusters come and go
// would fill it.
func httpClient(config *rest.Config, now func() time.Time) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	below := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls, Proxy: config.Proxy, MaxIdleConnsPerHost: parallel})
	transport, err := rest.HTTPWrappersForConfig(config, skew.Transport{Next: below, Now: now})
	if err != nil {
		return nil, fmt.Errorf("reading credentials: %w", err)
	}
	return &http.Client{Transport: transport, Timeout: config.Timeout}, nil
}

// cellConn is the client of a cell, made from one version of its Secret.
type cellConn struct {
	version string
	client  client.Client
	http    *http.Client
}

// Client returns the client of a cell. It reads the cell and its Secret anew,
// so that a withdrawn credential is used no more.
func (r *Reader) Client(ctx context.Context, cell *api.Cell) (client.Client, error) {
	name := cell.Spec.RemediatorKubeconfigSecret
	if name == "" {
		return nil, errors.New("spec.remediatorKubeconfigSecret is unset: nothing in this cell is repaired")
	}
	var secret corev1.Secret
	if err := r.hub.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("reading the cell's kubeconfig: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.cells[cell.Name]
	if old != nil && old.version == version(&secret) {
		return old.client, nil
	}
	config, err := kubeconfig(&secret)
	if err != nil {
		return nil, err
	}
	config.Timeout = r.timeout
	h, err := httpClient(config, r.now)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{HTTPClient: h, Scheme: kube.Scheme(), Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if old != nil {
		hangUp(old.http)
	}
	r.cells[cell.Name] = &cellConn{version(&secret), c, h}
	return c, nil
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
)

type clusterKey struct {
	cell, namespace, name string
	access                access
}

// clusterConn is a client of a business cluster, with the rights of one Secret.
type clusterConn struct {
	version string
	client  kubernetes.Interface
	http    *http.Client
}

// secretName is the Secret beside the Cluster that holds the kubeconfig.
func (k clusterKey) secretName(c *api.Cluster) (string, error) {
	if k.access == observing {
		return c.Spec.ObserverKubeconfigSecret, nil
	}
	if c.Spec.NodeCheckKubeconfigSecret == "" {
		return "", fmt.Errorf("cluster %s/%s in cell %s names no spec.nodeCheckKubeconfigSecret", k.namespace, k.name, k.cell)
	}
	return c.Spec.NodeCheckKubeconfigSecret, nil
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
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.clusters[key]
	if old != nil && old.version == version(&secret) {
		return old.client, nil
	}
	config, err := kubeconfig(&secret)
	if err != nil {
		return nil, err
	}
	config.Timeout = r.timeout
	h, err := httpClient(config, r.now)
	if err != nil {
		return nil, err
	}
	c, err := kubernetes.NewForConfigAndClient(config, h)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if old != nil {
		hangUp(old.http)
	}
	r.clusters[key] = &clusterConn{version(&secret), c, h}
	return c, nil
}

func objectKey(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// forgetCells drops what is kept for cells that are gone, and for their clusters.
func (r *Reader) forgetCells(known []api.Cell) {
	names := map[string]bool{}
	for i := range known {
		names[known[i].Name] = true
	}
	r.pause.forget(names)
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, conn := range r.cells {
		if !names[name] {
			hangUp(conn.http)
			delete(r.cells, name)
		}
	}
	r.drop(func(key clusterKey) bool { return !names[key.cell] })
}

// forgetClusters drops what is kept for clusters that are gone from a cell.
func (r *Reader) forgetClusters(cell string, known map[client.ObjectKey]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(func(key clusterKey) bool {
		return key.cell == cell && !known[client.ObjectKey{Namespace: key.namespace, Name: key.name}]
	})
}

// drop must be called with the lock held.
func (r *Reader) drop(gone func(clusterKey) bool) {
	for key, conn := range r.clusters {
		if gone(key) {
			hangUp(conn.http)
			delete(r.clusters, key)
		}
	}
}

// hangUp closes the connections that no request uses.
func hangUp(c *http.Client) { utilnet.CloseIdleConnectionsFor(c.Transport) }
