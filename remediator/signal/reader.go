package signal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// DefaultTimeout bounds each source in each round, unless Options say otherwise.
const DefaultTimeout = 5 * time.Second

// Options are what a Reader reads.
type Options struct {
	// Hub reads Cells and Secrets, uncached.
	Hub client.Reader
	// Namespace in the hub of the cells' kubeconfig Secrets.
	Namespace string
	// Centrals are asked all; at least two, of different names.
	Centrals []Central
	// Timeout bounds each source in each round. Unset means DefaultTimeout.
	Timeout time.Duration
	// Now unset means time.Now.
	Now func() time.Time
}

// Reader reads the sources of decisions. It keeps clients between rounds, and
// nothing that it has read.
type Reader struct {
	hub       client.Reader
	namespace string
	centrals  []Central
	timeout   time.Duration
	now       func() time.Time

	pause *pause

	mu       sync.Mutex
	cells    map[string]*cellConn
	clusters map[clusterKey]*clusterConn
}

// New checks the options.
func New(o Options) (*Reader, error) {
	names := map[string]bool{}
	for _, c := range o.Centrals {
		if c.Name == "" || c.Client == nil || names[c.Name] {
			return nil, errors.New("setting up the signal reader: every central needs a client and a name of its own")
		}
		names[c.Name] = true
	}
	if len(names) < 2 {
		return nil, fmt.Errorf("setting up the signal reader: %d centrals given, repairs need the agreement of two", len(names))
	}
	if o.Hub == nil || o.Namespace == "" {
		return nil, errors.New("setting up the signal reader: the hub's client and namespace are needed")
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reader{
		hub: o.Hub, namespace: o.Namespace, centrals: o.Centrals, timeout: o.Timeout, now: o.Now, pause: newPause(),
		cells: map[string]*cellConn{}, clusters: map[clusterKey]*clusterConn{},
	}, nil
}

// kubeconfig reads the configuration that a Secret holds, and tells its version.
func kubeconfig(secret *corev1.Secret) (*rest.Config, error) {
	c, err := kube.ConfigFromBytes(secret.Data[kube.SecretKeyKubeconfig])
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return c, nil
}

// version changes whenever a Secret is written or replaced.
func version(s *corev1.Secret) string { return string(s.UID) + "/" + s.ResourceVersion }

// cellConn is the client of a cell, made from one version of its Secret.
type cellConn struct {
	version string
	client  client.Client
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
	if conn := r.cells[cell.Name]; conn != nil && conn.version == version(&secret) {
		return conn.client, nil
	}
	config, err := kubeconfig(&secret)
	if err != nil {
		return nil, err
	}
	config.Timeout = r.timeout
	c, err := client.New(config, client.Options{Scheme: kube.Scheme(), Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	r.cells[cell.Name] = &cellConn{version(&secret), c}
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

type clusterKey struct{ cell, namespace, name string }

// clusterConn is the observer's client of a business cluster.
type clusterConn struct {
	version string
	client  kubernetes.Interface
}

// observer returns the client that may read Nodes and Leases of a cluster.
func (r *Reader) observer(ctx context.Context, cell client.Reader, key clusterKey) (kubernetes.Interface, error) {
	object := client.ObjectKey{Namespace: key.namespace, Name: key.name}
	var cluster api.Cluster
	if err := cell.Get(ctx, object, &cluster); err != nil {
		return nil, fmt.Errorf("reading the Cluster: %w", err)
	}
	object.Name = cluster.Spec.ObserverKubeconfigSecret
	var secret corev1.Secret
	if err := cell.Get(ctx, object, &secret); err != nil {
		return nil, fmt.Errorf("reading the observer's kubeconfig: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if conn := r.clusters[key]; conn != nil && conn.version == version(&secret) {
		return conn.client, nil
	}
	config, err := kubeconfig(&secret)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst, config.Timeout = 50, 100, r.timeout
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	r.clusters[key] = &clusterConn{version(&secret), c}
	return c, nil
}

func objectKey(name string) client.ObjectKey { return client.ObjectKey{Name: name} }
