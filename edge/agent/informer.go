package agent

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// resourceClient speaks with the cell about Pharos' own resources.
func resourceClient(cell *rest.Config) (rest.Interface, error) {
	c := rest.CopyConfig(cell)
	c.APIPath = "/apis"
	c.GroupVersion = &v1alpha1.GroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(kube.Scheme()).WithoutConversion()
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("building a client of the cell's resources: %w", err)
	}
	return client, nil
}

// newInformer watches every object of a resource and keeps of each what trim leaves.
func newInformer(client rest.Interface, resource string, kind runtime.Object, trim cache.TransformFunc, onError cache.WatchErrorHandlerWithContext) (cache.SharedIndexInformer, error) {
	source := cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything())
	informer := cache.NewSharedIndexInformerWithOptions(source, kind, cache.SharedIndexInformerOptions{
		ObjectDescription: resource, Indexers: cache.Indexers{},
	})
	if err := informer.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("preparing the watch of %s: %w", resource, err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(onError); err != nil {
		return nil, fmt.Errorf("preparing the watch of %s: %w", resource, err)
	}
	return informer, nil
}

// identityOf keeps what the cache itself and the exports need of an object.
func identityOf(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp,
	}
}

// The trims below bound the memory of an object to what is exported of it. An
// object of another type is a tombstone of the cache, and passes as it is.

func trimCluster(o any) (any, error) {
	c, ok := o.(*v1alpha1.Cluster)
	if !ok {
		return o, nil
	}
	spec := c.Spec
	spec.Remediation = nil
	return &v1alpha1.Cluster{ObjectMeta: identityOf(c.ObjectMeta), Spec: spec}, nil
}

func trimMachine(o any) (any, error) {
	m, ok := o.(*v1alpha1.Machine)
	if !ok {
		return o, nil
	}
	return &v1alpha1.Machine{
		ObjectMeta: identityOf(m.ObjectMeta),
		Spec: v1alpha1.MachineSpec{
			ClusterName: m.Spec.ClusterName, NodeName: m.Spec.NodeName, Pool: m.Spec.Pool,
			FailureDomain: m.Spec.FailureDomain, State: m.Spec.State,
		},
	}, nil
}
