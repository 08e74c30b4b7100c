package cell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// callTimeout bounds one call to a cell. A cell that answers slower than this
// counts as one that does not answer.
const callTimeout = 10 * time.Second

// connections keeps one client for each cell, as long as its kubeconfig Secret
// stays the same.
type connections struct {
	secrets   client.Reader
	namespace string
	scheme    *runtime.Scheme
	timeout   time.Duration

	mu   sync.Mutex
	open map[string]connection
}

type connection struct {
	// version identifies the Secret's content.
	version string
	client  client.Client
	http    *http.Client
}

func newConnections(secrets client.Reader, namespace string) *connections {
	return &connections{secrets: secrets, namespace: namespace, scheme: kube.Scheme(), timeout: callTimeout, open: map[string]connection{}}
}

// to returns a client of the cell's API server. It calls nothing in the cell.
func (c *connections) to(ctx context.Context, cell *v1alpha1.Cell) (client.Client, error) {
	name := client.ObjectKey{Namespace: c.namespace, Name: cell.Spec.KubeconfigSecret}
	var secret corev1.Secret
	switch err := c.secrets.Get(ctx, name, &secret); {
	case apierrors.IsNotFound(err):
		return nil, workload.Invalidf("spec.kubeconfigSecret: there is no Secret %s", name)
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	version := string(secret.UID) + "/" + secret.ResourceVersion
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.open[cell.Name]; ok && known.version == version {
		return known.client, nil
	}
	fresh, err := c.connect(secret.Data[kube.SecretKeyKubeconfig])
	if err != nil {
		return nil, workload.Invalidf("spec.kubeconfigSecret: Secret %s, key %s: %w", name, kube.SecretKeyKubeconfig, err)
	}
	fresh.version = version
	c.close(cell.Name)
	c.open[cell.Name] = fresh
	return fresh.client, nil
}

// forget closes the connection to a cell that is gone.
func (c *connections) forget(cell string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(cell)
}

func (c *connections) close(cell string) {
	if known, ok := c.open[cell]; ok {
		known.http.CloseIdleConnections()
		delete(c.open, cell)
	}
}

func (c *connections) connect(kubeconfig []byte) (connection, error) {
	if len(kubeconfig) == 0 {
		return connection{}, errors.New("is empty")
	}
	config, err := kube.ConfigFromBytes(kubeconfig)
	if err != nil {
		return connection{}, err
	}
	config.Timeout = c.timeout
	config.QPS, config.Burst = 50, 100
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return connection{}, err
	}
	// The kinds are known, so that nothing has to be discovered first.
	cl, err := client.New(config, client.Options{Scheme: c.scheme, Mapper: mapper(), HTTPClient: web})
	return connection{client: cl, http: web}, err
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		corev1.SchemeGroupVersion.WithKind("Pod"),
	} {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	return m
}

// explain tells a cell that does not answer from one that answers no.
func explain(err error) error {
	var problem *workload.Problem
	var status apierrors.APIStatus
	switch {
	case err == nil || errors.As(err, &problem):
		return err
	case errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsServiceUnavailable(err):
		return err
	}
	return &workload.Problem{Reason: v1alpha1.ReasonUnreachable, Err: fmt.Errorf("the cell's API server did not answer: %w", err)}
}
