package bootstrap

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pharos-fleet/pharos/internal/kube"
)

const (
	// fieldOwner owns what the local fleet applies.
	fieldOwner = client.FieldOwner("pharos-local")
	// callTimeout bounds one request to an API server that is still busy starting.
	callTimeout = 30 * time.Second
	// establishTimeout bounds the wait for custom resources to be served.
	establishTimeout = 30 * time.Second
	// tokenLifetime of the service account tokens that the fleet hands out. They
	// are renewed at every start.
	tokenLifetime = 365 * 24 * time.Hour
)

// cluster applies objects to one cluster as its administrator.
type cluster struct {
	name   string
	client client.Client
	// server and ca are what a kubeconfig for others must hold.
	server string
	ca     []byte
}

func connect(name string, config *rest.Config) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // an installation is one burst
	config.Timeout = callTimeout
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to cluster %s: %w", name, err)
	}
	return &cluster{name: name, client: c, server: config.Host, ca: config.CAData}, nil
}

// apply applies objects in their order.
func (c *cluster) apply(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		u, err := c.plain(o)
		if err != nil {
			return err
		}
		unstructured.RemoveNestedField(u.Object, "status")
		err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s in cluster %s: %w", u.GetKind(), u.GetName(), c.name, err)
		}
	}
	return nil
}

// applyStatus applies an object's status.
func (c *cluster) applyStatus(ctx context.Context, o client.Object) error {
	u, err := c.plain(o)
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(u.Object, "spec")
	err = c.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying the status of %s %s in cluster %s: %w", u.GetKind(), u.GetName(), c.name, err)
	}
	return nil
}

// plain is the object as server-side apply wants it: with its kind, and without
// fields that only the server sets.
func (c *cluster) plain(o client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(o, c.client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", o.GetName(), err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(fields)}
	u.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u, nil
}

func (c *cluster) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if err := c.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// applyCRDs applies custom resource definitions and waits until they are served.
func (c *cluster) applyCRDs(ctx context.Context, crds []*unstructured.Unstructured) error {
	if err := c.applyAll(ctx, crds); err != nil {
		return err
	}
	for _, o := range crds {
		if err := c.awaitEstablished(ctx, o.GetName()); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) awaitEstablished(ctx context.Context, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
			return false, err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established {
				return condition.Status == apiextensionsv1.ConditionTrue, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for cluster %s to serve %s: %w", c.name, name, err)
	}
	return nil
}

// token makes a token of a service account.
func (c *cluster) token(ctx context.Context, namespace, account string) (string, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds()))},
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := c.client.SubResource("token").Create(ctx, sa, request); err != nil {
		return "", fmt.Errorf("making a token of service account %s in cluster %s: %w", account, c.name, err)
	}
	return request.Status.Token, nil
}
