// Package operator wires the controllers into the two programs that run them:
// the operator of the hub, and the node operator of a cell. The controllers are
// in the folders below.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/obs"
	"github.com/pharos-fleet/pharos/operator/cell"
	"github.com/pharos-fleet/pharos/operator/cluster"
	"github.com/pharos-fleet/pharos/operator/federation"
	"github.com/pharos-fleet/pharos/operator/machine"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// Options of either program.
type Options struct {
	// Config reaches the API server of the cluster that the program works in. Required.
	Config *rest.Config
	// Listen is the host:port of metrics and health. Required.
	Listen string
	// Namespace of the program, of its Lease, and of the parts. Required.
	Namespace string
	// JobConfigMap names the ConfigMap, in Namespace, of the site's repair Job.
	// Required by the node operator alone.
	JobConfigMap string
	// Log is required.
	Log *slog.Logger
}

func (o Options) validate() error {
	switch {
	case o.Config == nil:
		return errors.New("no API server given")
	case o.Listen == "":
		return errors.New("no address to listen on given")
	case o.Namespace == "":
		return errors.New("no namespace given")
	case o.Log == nil:
		return errors.New("no logger given")
	}
	return nil
}

// Operator is one of the two programs, ready to run.
type Operator struct {
	manager  manager.Manager
	server   *obs.Server
	registry *prometheus.Registry
	log      *slog.Logger
	// synced is set once the caches have been filled.
	synced atomic.Bool
}

// NewHub wires the operator of the hub: the controllers of Federation and Cell.
func NewHub(o Options) (*Operator, error) {
	op, err := newOperator(o, "operator", cache.Options{DefaultNamespaces: map[string]cache.Config{o.Namespace: {}}})
	if err != nil {
		return nil, err
	}
	parts := workload.Options{
		Client: op.manager.GetClient(), Live: op.manager.GetAPIReader(), Recorder: op.manager.GetEventRecorder("pharos-operator"),
		Registry: op.registry, Log: o.Log, Namespace: o.Namespace,
	}
	f, err := federation.New(parts)
	if err != nil {
		return nil, err
	}
	c, err := cell.New(parts)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.SetupWithManager(op.manager), c.SetupWithManager(op.manager)); err != nil {
		return nil, fmt.Errorf("setting up the controllers: %w", err)
	}
	return op, op.listen(o.Listen)
}

// NewMachine wires the node operator of a cell: the controllers of Machine and
// Cluster.
func NewMachine(o Options) (*Operator, error) {
	if o.JobConfigMap == "" {
		return nil, errors.New("no ConfigMap of the repair Job given")
	}
	mine := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: "pharos"})
	op, err := newOperator(o, "machine-operator", cache.Options{ByObject: map[client.Object]cache.ByObject{
		&batchv1.Job{}: {Label: mine},
	}})
	if err != nil {
		return nil, err
	}
	write, live, recorder := op.manager.GetClient(), op.manager.GetAPIReader(), op.manager.GetEventRecorder("pharos-machine-operator")
	m, err := machine.New(machine.Options{
		Client: write, Live: live, Recorder: recorder, Registry: op.registry, Log: o.Log,
		Template: client.ObjectKey{Namespace: o.Namespace, Name: o.JobConfigMap},
	})
	if err != nil {
		return nil, err
	}
	c, err := cluster.New(cluster.Options{Client: write, Live: live, Recorder: recorder, Registry: op.registry, Log: o.Log})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.SetupWithManager(op.manager), c.SetupWithManager(op.manager)); err != nil {
		return nil, fmt.Errorf("setting up the controllers: %w", err)
	}
	return op, op.listen(o.Listen)
}

func newOperator(o Options, lease string, caches cache.Options) (*Operator, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	caches.DefaultTransform = cache.TransformStripManagedFields()
	m, err := manager.New(o.Config, manager.Options{
		Scheme:                        kube.Scheme(),
		Logger:                        obs.Logr(o.Log),
		Cache:                         caches,
		LeaderElection:                true,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true, // Run returns when the manager ends, and so does the process
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the controllers' manager: %w", err)
	}
	op := &Operator{manager: m, registry: prometheus.NewRegistry(), log: o.Log}
	// The library's metrics, with those of the Go runtime and the process, are
	// in a registry of its own.
	if library, ok := metrics.Registry.(prometheus.Collector); ok {
		op.registry.MustRegister(library)
	}
	return op, nil
}

func (op *Operator) listen(address string) error {
	server, err := obs.NewServer(obs.ServerOptions{Address: address, Registry: op.registry, Ready: op.ready, Log: op.log})
	op.server = server
	return err
}

// ready says whether the API server has been read. A standby is ready, too.
func (op *Operator) ready() error {
	if !op.synced.Load() {
		return errors.New("the caches are not filled yet")
	}
	return nil
}

// Run serves and, while it leads, reconciles, until ctx is done or the lead is lost.
func (op *Operator) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return op.server.Run(ctx) })
	group.Go(func() error {
		op.synced.Store(op.manager.GetCache().WaitForCacheSync(ctx))
		return nil
	})
	group.Go(func() error {
		if err := op.manager.Start(ctx); err != nil {
			return fmt.Errorf("running the controllers: %w", err)
		}
		return nil
	})
	return group.Wait()
}
