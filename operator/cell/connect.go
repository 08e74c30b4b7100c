package cell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	clients   *kube.Connections[string, client.Client]
}

func newConnections(secrets client.Reader, namespace string) *connections {
	return &connections{secrets, namespace, newClients(callTimeout)}
}

func newClients(timeout time.Duration) *kube.Connections[string, client.Client] {
	scheme := kube.Scheme()
	return kube.NewConnections[string](timeout, func(config *rest.Config, web *http.Client) (client.Client, error) {
		config.QPS, config.Burst = 50, 100
		// The kinds are known, so that nothing has to be discovered first.
		return client.New(config, client.Options{Scheme: scheme, Mapper: mapper(), HTTPClient: web})
	})
}

// to returns a client of the cell's API server. It calls nothing in the cell.
func (c *connections) to(ctx context.Context, cell *v1alpha1.Cell) (client.Client, error) {
	return c.by(ctx, cell.Name, cell.Spec.KubeconfigSecret)
}

// by returns the client of a cell, or of whatever else the key stands for, that a
// Secret leads to.
func (c *connections) by(ctx context.Context, key, secretName string) (client.Client, error) {
	name := client.ObjectKey{Namespace: c.namespace, Name: secretName}
	var secret corev1.Secret
	switch err := c.secrets.Get(ctx, name, &secret); {
	case apierrors.IsNotFound(err):
		return nil, workload.Invalidf("spec.kubeconfigSecret: there is no Secret %s", name)
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	remote, err := c.clients.To(key, &secret)
	if err != nil {
		return nil, workload.Invalidf("spec.kubeconfigSecret: Secret %s, key %s: %w", name, kube.SecretKeyKubeconfig, err)
	}
	return remote, nil
}

// forget closes the connections to a cell that is gone.
func (c *connections) forget(cell string) { c.clients.Drop(cell) }

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		corev1.SchemeGroupVersion.WithKind("Pod"),
	} {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
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
