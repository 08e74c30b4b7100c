package kube

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Connections keeps a client of type T for each key, for as long as the Secret
// that holds its kubeconfig is the same. Every client has connections of its
// own, which end with it: those of client-go are kept for ever, once for each
// credential that was ever used. It reads no Secret and calls no server itself.
type Connections[K comparable, T any] struct {
	timeout time.Duration
	build   func(*rest.Config, *http.Client) (T, error)

	mu   sync.Mutex
	open map[K]connection[T]
}

type connection[T any] struct {
	// version changes whenever the Secret is written or replaced.
	version string
	client  T
	http    *http.Client
}

// idlePerServer is how many connections to a server that speaks no HTTP/2, as
// behind a proxy, are kept for the next call. Go's own two would have callers that
// ask for many objects at once connect anew for most of them.
const idlePerServer = 16

// NewConnections returns an empty set. Its clients are what build makes; each
// of their calls ends after the timeout. Build may wrap the transport of the
// http.Client that it is given, if the wrapper tells what it wraps.
func NewConnections[K comparable, T any](timeout time.Duration, build func(*rest.Config, *http.Client) (T, error)) *Connections[K, T] {
	return &Connections[K, T]{timeout: timeout, build: build, open: map[K]connection[T]{}}
}

// To returns the key's client, as the Secret says now. An error is always about
// what the Secret holds.
func (c *Connections[K, T]) To(key K, secret *corev1.Secret) (T, error) {
	version := string(secret.UID) + "/" + secret.ResourceVersion
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.open[key]
	if ok && known.version == version {
		return known.client, nil
	}
	fresh, err := c.connect(secret.Data[SecretKeyKubeconfig])
	if err != nil {
		return fresh.client, err
	}
	fresh.version = version
	c.drop(key)
	c.open[key] = fresh
	return fresh.client, nil
}

// Drop ends the connections of a key that is gone, or that have proven dead.
// The next call of To makes new ones.
func (c *Connections[K, T]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

// DropFunc ends the connections of every key that is gone, as Drop does. A set
// whose owner does so at each round is never larger than what there is.
func (c *Connections[K, T]) DropFunc(gone func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.open {
		if gone(key) {
			c.drop(key)
		}
	}
}

// Len is how many clients there are.
func (c *Connections[K, T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// drop must be called with the lock held.
func (c *Connections[K, T]) drop(key K) {
	if known, ok := c.open[key]; ok {
		// The transport's wrappers hide it from the http.Client's own method.
		utilnet.CloseIdleConnectionsFor(known.http.Transport)
		delete(c.open, key)
	}
}

func (c *Connections[K, T]) connect(kubeconfig []byte) (connection[T], error) {
	var none connection[T]
	if len(kubeconfig) == 0 {
		return none, errors.New("is empty")
	}
	config, err := ConfigFromBytes(kubeconfig)
	if err != nil {
		return none, err
	}
	config.Timeout = c.timeout
	web, err := httpClient(config)
	if err != nil {
		return none, err
	}
	client, err := c.build(config, web)
	return connection[T]{client: client, http: web}, err
}

// httpClient follows no redirect: that would carry the credential elsewhere.
func httpClient(config *rest.Config) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates in the kubeconfig: %w", err)
	}
	plain := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls, Proxy: config.Proxy, MaxIdleConnsPerHost: idlePerServer})
	transport, err := rest.HTTPWrappersForConfig(config, plain)
	if err != nil {
		return nil, fmt.Errorf("reading the credential in the kubeconfig: %w", err)
	}
	return &http.Client{
		Transport: transport, Timeout: config.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
