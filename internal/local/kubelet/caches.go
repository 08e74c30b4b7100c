package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// sweepInterval is how often everything is looked at even if no event says so.
const sweepInterval = 10 * time.Second

// errNotSynced says that the context ended before the caches were filled.
var errNotSynced = errors.New("the API was not read to the end")

// caches are the watched objects.
type caches struct {
	node   informers.SharedInformerFactory
	shared informers.SharedInformerFactory

	nodePods   coreinformers.PodInformer
	configMaps coreinformers.ConfigMapInformer
	secrets    coreinformers.SecretInformer
	services   coreinformers.ServiceInformer
	claims     coreinformers.PersistentVolumeClaimInformer
	volumes    coreinformers.PersistentVolumeInformer

	// claimsChanged and servicesChanged wake the loops that look after those.
	claimsChanged, servicesChanged chan struct{}
}

func newCaches(client kubernetes.Interface, nodeName string) *caches {
	onNode := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	}
	c := &caches{
		node:            informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(onNode)),
		shared:          informers.NewSharedInformerFactory(client, 0),
		claimsChanged:   make(chan struct{}, 1),
		servicesChanged: make(chan struct{}, 1),
	}
	core := c.shared.Core().V1()
	c.nodePods = c.node.Core().V1().Pods()
	c.configMaps, c.secrets, c.services = core.ConfigMaps(), core.Secrets(), core.Services()
	c.claims, c.volumes = core.PersistentVolumeClaims(), core.PersistentVolumes()
	return c
}

// start registers the handlers, fills the caches and waits for that.
func (c *caches) start(ctx context.Context, k *Kubelet) error {
	configChanged := func(obj any) { k.configChanged(namespaceOf(obj)) }
	claimsChanged := func(any) { wake(c.claimsChanged) }
	servicesChanged := func(any) { wake(c.servicesChanged) }
	err := errors.Join(
		onChange(c.configMaps.Informer(), configChanged),
		onChange(c.secrets.Informer(), configChanged),
		onChange(c.claims.Informer(), func(obj any) { claimsChanged(obj); configChanged(obj) }),
		onChange(c.volumes.Informer(), claimsChanged),
		onChange(c.services.Informer(), func(obj any) { servicesChanged(obj); k.configChanged("") }),
		onChange(c.nodePods.Informer(), servicesChanged),
	)
	if err != nil {
		return fmt.Errorf("watching the API: %w", err)
	}
	c.node.Start(ctx.Done())
	c.shared.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), c.synced()...) {
		return errNotSynced
	}
	return nil
}

func (c *caches) synced() []cache.InformerSynced {
	return []cache.InformerSynced{
		c.nodePods.Informer().HasSynced, c.configMaps.Informer().HasSynced, c.secrets.Informer().HasSynced,
		c.services.Informer().HasSynced, c.claims.Informer().HasSynced, c.volumes.Informer().HasSynced,
	}
}

// stop waits for the watches to end; their context has.
func (c *caches) stop() {
	c.node.Shutdown()
	c.shared.Shutdown()
}

func onChange(informer cache.SharedIndexInformer, f func(obj any)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f,
		UpdateFunc: func(_, obj any) { f(obj) },
		DeleteFunc: f,
	})
	return err
}

// namespaceOf returns the namespace of an object or of the tombstone of one, and "" when it cannot be told.
func namespaceOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return ""
	}
	namespace, _, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return ""
	}
	return namespace
}

// wake leaves a signal in a channel of capacity one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// podConfigs reads the ConfigMaps and Secrets of one namespace from the caches.
type podConfigs struct {
	*caches
	namespace string
}

// ConfigMap implements podspec.Configs.
func (p podConfigs) ConfigMap(name string) (*corev1.ConfigMap, error) {
	return p.configMaps.Lister().ConfigMaps(p.namespace).Get(name)
}

// Secret implements podspec.Configs.
func (p podConfigs) Secret(name string) (*corev1.Secret, error) {
	return p.secrets.Lister().Secrets(p.namespace).Get(name)
}
