package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// connection is one way into a cluster: credentials, transports of its own, and
// watches of Nodes and Pods. It lasts until the credentials change or the
// cluster has not answered for a while.
type connection struct {
	http   *http.Client
	base   *url.URL
	client kubernetes.Interface
	nodes  *watched[string, *nodeOutline]
	pods   *watched[podKey, *podOutline]
	// scraper reads the nodes' own metrics.
	scraper *nodeScraper
	peeker  *certificatePeeker
}

// connect prepares a connection and calls nobody. The watches tell onError what
// breaks them.
func connect(a access, loopback bool, onError func(error)) (*connection, error) {
	config := rest.CopyConfig(a.config)
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
	c.http.CheckRedirect = refuseRedirects
	if c.client, err = kubernetes.NewForConfigAndClient(config, c.http); err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	if c.scraper, err = newNodeScraper(a, loopback); err != nil {
		return nil, err
	}
	if c.peeker, err = newCertificatePeeker(config, base); err != nil {
		return nil, err
	}
	c.nodes = newWatched("nodes", &corev1.Node{}, nodeSource(c.client), drawNode, onError)
	c.pods = newWatched("pods", &corev1.Pod{}, podSource(c.client), drawPod, onError)
	return c, nil
}

func refuseRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func nodeSource(c kubernetes.Interface) source {
	return source{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.CoreV1().Nodes().List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.CoreV1().Nodes().Watch(ctx, o)
		},
	}
}

func podSource(c kubernetes.Interface) source {
	return source{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
		},
	}
}

// greet has the API server answer once, whatever it says, so that what follows finds a
// connection that is open: each of the watches and the probe would open one of its own,
// and those of hundreds of clusters at once wait for each other's handshakes until all of
// them time out, again and again. What greets waits for a turn. What a greeting fails of
// the probes find out and tell.
func (c *connection) greet(ctx context.Context, turns *semaphore.Weighted) {
	if turns.Acquire(ctx, 1) != nil {
		return
	}
	defer turns.Release(1)
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_ = c.client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
}

// run watches until ctx ends.
func (c *connection) run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { c.nodes.run(ctx) })
	watching.Go(func() { c.pods.run(ctx) })
	watching.Wait()
	// The transport's wrappers hide it from the http.Client's own method.
	utilnet.CloseIdleConnectionsFor(c.http.Transport)
	c.scraper.close()
}

// probe finds out whether the API server and its etcd answer a consistent read,
// and whether the watch of Nodes tells the truth. It fails rather than hang.
func (c *connection) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("reading nodes: %w", err)
	}
	if err := c.nodes.truthful(ctx); err != nil {
		return answeredError{err}
	}
	return nil
}

// probePods finds out whether the watch of Pods tells the truth.
func (c *connection) probePods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return c.pods.truthful(ctx)
}
