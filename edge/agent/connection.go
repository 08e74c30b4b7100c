package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/internal/kube"
)

// errHangs says that the API server answers and our watch does not. To wait
// for the watch would be to wait for its own back-off, or for ever.
var errHangs = errors.New("the watch of nodes hangs: nodes have changed and it did not say so")

// connection is one way into a business cluster: credentials, a transport of
// its own, and a watch of Nodes. It lasts until the credentials change or the
// cluster has not answered for a while.
type connection struct {
	http   *http.Client
	base   *url.URL
	client kubernetes.Interface
	nodes  cache.SharedIndexInformer
}

func connect(kubeconfig []byte, onError cache.WatchErrorHandlerWithContext) (*connection, error) {
	config, err := kube.ConfigFromBytes(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// client-go shares transports between equal configurations, and a shared
	// one would hand us back the dead connection that we mean to leave. One
	// with a proxy function is not shared; this is the one it would use by itself.
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	c := &connection{base: base}
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	// A redirect would carry the credentials to somewhere else.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.client, err = kubernetes.NewForConfigAndClient(config, c.http); err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	if c.nodes, err = newInformer(c.client.CoreV1().RESTClient(), "nodes", &corev1.Node{}, trimNode, onError); err != nil {
		return nil, err
	}
	return c, nil
}

// run watches Nodes until ctx ends.
func (c *connection) run(ctx context.Context) {
	c.nodes.RunWithContext(ctx)
	c.http.CloseIdleConnections()
}

// probe finds out whether the watch of Nodes tells the truth now: the API
// server and its etcd answer a consistent read, and a second watch from where
// ours stands sees nothing that ours does not. It fails rather than hang.
func (c *connection) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("reading nodes: %w", err)
	}
	if !c.nodes.HasSynced() {
		return errors.New("nodes are not listed yet")
	}
	position := c.nodes.LastSyncResourceVersion()
	moved, err := c.movedSince(ctx, position)
	if err != nil || !moved {
		return err
	}
	return c.awaitMove(ctx, position)
}

// movedSince looks for a moment whether there is a change after the position.
func (c *connection) movedSince(ctx context.Context, position string) (bool, error) {
	w, err := c.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: position, TimeoutSeconds: ptr.To[int64](1)})
	if apierrors.IsResourceExpired(err) {
		return true, nil // so much has changed that the position is forgotten
	}
	if err != nil {
		return false, fmt.Errorf("watching nodes: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("watching nodes: %w", ctx.Err())
		case event, open := <-w.ResultChan():
			if !open {
				return false, nil
			}
			if event.Type != watch.Error {
				return true, nil
			}
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return false, fmt.Errorf("watching nodes: %w", err)
			}
			return true, nil
		}
	}
}

// awaitMove waits until our watch has left the position.
func (c *connection) awaitMove(ctx context.Context, position string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for c.nodes.LastSyncResourceVersion() == position {
		select {
		case <-ctx.Done():
			return errHangs
		case <-tick.C:
		}
	}
	return nil
}
