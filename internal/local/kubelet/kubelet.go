// Package kubelet runs the containers of pods as processes of the host: the kubelet of the fleet on one machine. It needs
// no root, no container runtime and no name server. Each pod has a loopback address of its own, its root folder takes the
// place of a mount namespace, and what a process cannot have is refused in the pod's status.
//
// It runs only what its image map names, keeps nothing running beyond its own end, and is no sandbox: a container may do
// whatever the user who runs the kubelet may do.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/process"
	"github.com/pharos-fleet/pharos/internal/local/kubelet/proxy"
)

// podWorkers is how many pods virtual-kubelet looks at at once. Its calls return at once, so few are enough.
const podWorkers = 4

// Kubelet is one node whose containers are processes.
type Kubelet struct {
	opts     Options
	log      *slog.Logger
	client   kubernetes.Interface
	listen   netip.AddrPort
	caches   *caches
	starter  *process.Starter
	addrs    *addresses
	metrics  *metrics
	proxy    *proxy.Proxy
	events   record.EventBroadcaster
	recorder record.EventRecorder
	statuses workqueue.TypedRateLimitingInterface[types.UID]

	// pods is the context of all workers, ended after everything that writes to the API.
	pods    context.Context
	endPods context.CancelCauseFunc

	mu      sync.Mutex
	workers map[types.UID]*worker
	running sync.WaitGroup

	// registered tells the readiness endpoint whether the node is.
	registered atomic.Pointer[node.NodeController]
}

// New returns a Kubelet. It touches neither the API nor the disk. It returns an error that lists everything that is wrong
// with the options.
func New(opts Options) (*Kubelet, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("checking kubelet options: %w", err)
	}
	client, err := kubernetes.NewForConfig(opts.Config)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	m, err := newMetrics(opts.Registry)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	p, err := proxy.New(opts.Log, opts.Registry)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	listen, err := netip.ParseAddrPort(opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("checking kubelet options: %w", err)
	}
	events := record.NewBroadcaster()
	pods, endPods := context.WithCancelCause(context.Background())
	return &Kubelet{
		opts: opts, log: opts.Log, client: client, listen: listen,
		caches:   newCaches(client, opts.NodeName),
		starter:  process.NewStarter(),
		addrs:    newAddresses(netip.MustParsePrefix(opts.PodCIDR)), // checked above
		metrics:  m,
		proxy:    p,
		events:   events,
		recorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: opts.NodeName}),
		statuses: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]()),
		pods:     pods, endPods: endPods,
		workers: map[types.UID]*worker{},
	}, nil
}

// Run registers the node and runs its pods until the context ends. Then it stops all containers, and returns once no
// process is left. It returns an error when it cannot start, or when a part of it ends by itself.
func (k *Kubelet) Run(ctx context.Context) error {
	unlock, err := lockRoot(k.opts.Root)
	if err != nil {
		return err
	}
	defer unlock()
	if err := k.clearStrays(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", k.opts.Listen)
	if err != nil {
		return fmt.Errorf("listening for logs: %w", err)
	}
	ctx = vklog.WithLogger(ctx, vkLogger{k.log})

	starterCtx, endStarter := context.WithCancel(context.WithoutCancel(ctx))
	var starter sync.WaitGroup
	starter.Go(func() { k.starter.Run(starterCtx) })

	err = k.serve(ctx, listener)
	k.endPods(errStopped)
	k.running.Wait()
	endStarter()
	starter.Wait()
	return errors.Join(err, k.clearStrays())
}

// serve runs everything that speaks to the API, and returns when all of it has ended.
func (k *Kubelet) serve(ctx context.Context, listener net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	k.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
	defer k.events.Shutdown()

	g.Go(func() error { return k.serveHTTP(ctx, listener) })
	g.Go(func() error { <-ctx.Done(); k.statuses.ShutDown(); return nil })
	if err := k.caches.start(ctx, k); err != nil {
		return endGroup(g, listener, err)
	}
	defer k.caches.stop()
	pc, nc, err := k.controllers()
	if err != nil {
		return endGroup(g, listener, err)
	}
	k.registered.Store(nc)
	g.Go(func() error { return ended(ctx, "pod controller", pc.Run(ctx, podWorkers)) })
	g.Go(func() error { return ended(ctx, "node controller", k.runNode(ctx, pc, nc)) })
	g.Go(func() error { k.writeStatuses(ctx); return nil })
	g.Go(func() error { k.sweep(ctx); return nil })
	if !k.opts.NoClaims {
		g.Go(func() error { k.provisionClaims(ctx); return nil })
	}
	if k.opts.ServiceProxy {
		g.Go(func() error { k.serveServices(ctx); return nil })
	}
	return g.Wait()
}

// endGroup ends what was started already, because the rest could not be.
func endGroup(g *errgroup.Group, listener net.Listener, err error) error {
	_ = listener.Close()
	waitErr := g.Wait()
	if errors.Is(err, errNotSynced) {
		return waitErr // asked to end before the start was complete, or a part failed
	}
	return errors.Join(err, waitErr)
}

// ended makes an error of a part that ended although nobody asked it to.
func ended(ctx context.Context, part string, err error) error {
	select {
	case <-ctx.Done():
		return nil // it was asked to, and how it ended is of no interest
	default:
	}
	if err == nil {
		err = errors.New("it ended by itself")
	}
	return fmt.Errorf("running %s: %w", part, err)
}

// controllers builds virtual-kubelet's two halves: one tells the provider of pods, the other keeps the node alive.
func (k *Kubelet) controllers() (*node.PodController, *node.NodeController, error) {
	pc, err := node.NewPodController(node.PodControllerConfig{
		PodClient:                 k.client.CoreV1(),
		PodInformer:               k.caches.nodePods,
		EventRecorder:             k.recorder,
		Provider:                  provider{k},
		ConfigMapInformer:         k.caches.configMaps,
		SecretInformer:            k.caches.secrets,
		ServiceInformer:           k.caches.services,
		SkipDownwardAPIResolution: true,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("building pod controller: %w", err)
	}
	nc, err := node.NewNodeController(nodePing{}, k.node(), k.client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease), leaseSeconds))
	if err != nil {
		return nil, nil, fmt.Errorf("building node controller: %w", err)
	}
	return pc, nc, nil
}

// runNode registers the node once pods can be run on it.
func (k *Kubelet) runNode(ctx context.Context, pc *node.PodController, nc *node.NodeController) error {
	select {
	case <-pc.Ready():
	case <-ctx.Done():
		return nil
	}
	return nc.Run(ctx)
}

// clearStrays ends what an earlier kubelet with this root left: grandchildren that its death did not reach.
func (k *Kubelet) clearStrays() error {
	n, err := process.KillStrays(podDirVariable, k.podsDir())
	if n > 0 {
		k.log.Warn("Ended processes that their containers had left behind", slog.Int("count", n))
	}
	return err
}

func (k *Kubelet) podsDir() string { return filepath.Join(k.opts.Root, "pods") }

func (k *Kubelet) podDir(uid types.UID) string { return filepath.Join(k.podsDir(), string(uid)) }

// logPath returns where the output of a container's run is kept.
func (k *Kubelet) logPath(uid types.UID, container string, run int32) string {
	return filepath.Join(k.podDir(uid), "logs", container, strconv.Itoa(int(run))+".log")
}

// hostAddress is the node's address.
func (k *Kubelet) hostAddress() string { return k.listen.Addr().String() }

// apiServer returns host and port of the API server.
func (k *Kubelet) apiServer() (host, port string, err error) {
	return apiServerAddress(k.opts.Config)
}

func newPodFolder(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return fmt.Errorf("creating pod folder: %w", err)
	}
	return nil
}
