package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// dialTimeout bounds the wait for a node that is gone.
	dialTimeout = 3 * time.Second
	// maxInFlight is how many scrapes of one endpoint of one node may be under
	// way. A pair of edges makes two; a kubelet that hangs makes no more than this.
	maxInFlight = 4
	// maxIdle bounds the connections that are kept between scrapes, for the
	// kubelets and for the node exporters of one cluster; idleFor, longer than
	// any interval of an edge, ends those of nodes that are gone.
	maxIdle = 2048
	idleFor = 90 * time.Second
	// maxOfNode bounds what a node may tell at once.
	maxOfNode = 32 << 20
	// nodeExporterPort is where node exporters serve.
	nodeExporterPort = 9100
)

// endpoint is one source of metrics on a node.
type endpoint struct {
	name string // as in the path and in the job of the edge
	path string
}

// endpoints of a node that are scraped.
func endpoints() []endpoint {
	return []endpoint{
		{name: componentKubelet, path: "/metrics"},
		{name: componentCadvisor, path: "/metrics/cadvisor"},
		{name: componentNodeExporter, path: "/metrics"},
	}
}

// nodeScraper reads metrics from the nodes of one cluster, straight from their
// addresses. It does not go through the API server: the right to do so, on
// nodes/proxy, lets its holder run commands in every pod.
type nodeScraper struct {
	// kubelets shows the observer's credential, and so only to who proves to be
	// a kubelet, unless the cluster's Secret says otherwise.
	kubelets *http.Client
	// plain shows none.
	plain *http.Client
	// loopback lets nodes be on this machine, which otherwise none is.
	loopback bool

	mu       sync.Mutex
	inFlight map[nodeEndpoint]int
}

type nodeEndpoint struct{ node, endpoint string }

func newNodeScraper(a access, loopback bool) (*nodeScraper, error) {
	config := rest.CopyConfig(a.config)
	config.ServerName, config.NextProtos = "", nil // those are of the API server
	if len(a.kubeletCA) > 0 {
		config.CAData, config.CAFile = a.kubeletCA, ""
	}
	config.Insecure = a.kubeletUnverified
	if config.Insecure {
		config.CAData, config.CAFile = nil, ""
	}
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities of kubelets: %w", err)
	}
	kubelets := nodeTransport(config)
	kubelets.TLSClientConfig = tls
	wrapped, err := rest.HTTPWrappersForConfig(config, kubelets)
	if err != nil {
		return nil, fmt.Errorf("reading the credential in the kubeconfig: %w", err)
	}
	return &nodeScraper{
		kubelets: &http.Client{Transport: wrapped, CheckRedirect: refuseRedirects},
		plain:    &http.Client{Transport: nodeTransport(config), CheckRedirect: refuseRedirects},
		loopback: loopback, inFlight: map[nodeEndpoint]int{},
	}, nil
}

// nodeTransport keeps one connection to each node. It speaks HTTP/1.1, where a
// request that ran out of time takes its connection along: on one that is
// shared by many, a node that lost it would go on hanging for minutes.
func nodeTransport(config *rest.Config) *http.Transport {
	return &http.Transport{
		Proxy:               config.Proxy,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 1,
		MaxIdleConns:        maxIdle,
		IdleConnTimeout:     idleFor,
		DisableCompression:  true, // what the scraper asks for is passed on
		MaxConnsPerHost:     2 * maxInFlight,
	}
}

func (s *nodeScraper) close() {
	// The transport's wrappers hide it from the http.Client's own method.
	utilnet.CloseIdleConnectionsFor(s.kubelets.Transport)
	s.plain.CloseIdleConnections()
}

// scrape asks one endpoint of a node. The caller must call done once it has read
// the response, and only when there is no error.
func (s *nodeScraper) scrape(ctx context.Context, n *nodeOutline, e endpoint, header http.Header) (resp *http.Response, done func(), err error) {
	url, client, err := s.target(n, e)
	if err != nil {
		return nil, nil, err
	}
	key := nodeEndpoint{n.name, e.name}
	if !s.enter(key) {
		return nil, nil, &scrapeError{reason: scrapeBusy, err: fmt.Errorf("%d scrapes of it are under way already and hang", maxInFlight)}
	}
	done = func() { s.leave(key) }
	resp, err = get(ctx, client, url, header)
	if err != nil {
		done()
		return nil, nil, err
	}
	return resp, done, nil
}

func (s *nodeScraper) enter(key nodeEndpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[key] >= maxInFlight {
		return false
	}
	s.inFlight[key]++
	return true
}

func (s *nodeScraper) leave(key nodeEndpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[key]--; s.inFlight[key] == 0 {
		delete(s.inFlight, key)
	}
}

// target is where an endpoint of a node is, and who may be sent there.
func (s *nodeScraper) target(n *nodeOutline, e endpoint) (string, *http.Client, error) {
	address, err := s.address(n)
	if err != nil {
		return "", nil, &scrapeError{reason: scrapeNoAddress, err: err}
	}
	if e.name == componentNodeExporter {
		return "http://" + net.JoinHostPort(address, strconv.Itoa(nodeExporterPort)) + e.path, s.plain, nil
	}
	return "https://" + net.JoinHostPort(address, strconv.Itoa(int(n.kubeletPort))) + e.path, s.kubelets, nil
}

// address refuses what cannot be a node's. Whoever may write a node's status in
// a business cluster chooses where we go, and must not choose this machine or
// the provider's metadata.
func (s *nodeScraper) address(n *nodeOutline) (string, error) {
	if n.internalIP == "" {
		return "", errors.New("it has no address of type InternalIP")
	}
	ip, err := netip.ParseAddr(n.internalIP)
	if err != nil {
		return "", fmt.Errorf("reading its InternalIP: %w", err)
	}
	ip = ip.Unmap().WithZone("")
	if ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || (ip.IsLoopback() && !s.loopback) {
		return "", fmt.Errorf("its InternalIP %s is no address of a node", ip)
	}
	return ip.String(), nil
}
