// Package bootstrap installs Pharos into the clusters of a local fleet, as a
// platform team would: the manifests of package deploy, accounts with just the
// rights they need, the inventory, and the resources that say what to run. All
// of it is applied, so that it can be done again at every start.
package bootstrap

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// Namespace in a cell, where Clusters, Machines and their Secrets are.
const Namespace = "fleet"

// FederationName is the name of the local fleet's Federation.
const FederationName = "local"

// PolicyName is the name of its RemediationPolicy.
const PolicyName = "workers"

// Options of an installation.
type Options struct {
	Layout layout.Layout
	// Image is the image of Pharos itself.
	Image string
	// Robot is what the DingTalk sink accepts.
	Robot Robot
	// Connect returns the administrator's way into a cluster once its API server
	// serves; it blocks until then.
	Connect func(ctx context.Context, c layout.Cluster) (*rest.Config, error)
	// Prepared is called when a cluster has what the fleet's own components need in it.
	Prepared func(c layout.Cluster) error
}

// Robot is a DingTalk robot's URL and secrets.
type Robot struct {
	URL, AccessToken, Secret string
}

// installer collects what one cluster gives to another.
type installer struct {
	Options
	mu sync.Mutex
	// kubeconfigs by account and cluster, see key.
	kubeconfigs map[string][]byte
	clusters    map[string]*cluster
}

// Install installs Pharos. Clusters are installed side by side, each as soon as
// its API server serves; what one needs from another comes after.
func Install(ctx context.Context, o Options) error {
	i := &installer{Options: o, kubeconfigs: map[string][]byte{}, clusters: map[string]*cluster{}}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range layout.Clusters() {
		group.Go(func() error { return i.install(groupCtx, c) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, cell := range layout.Cells() {
		if err := i.hostClusters(ctx, cell); err != nil {
			return err
		}
	}
	return i.runFleet(ctx)
}

func (i *installer) install(ctx context.Context, c layout.Cluster) error {
	config, err := i.Connect(ctx, c)
	if err != nil {
		return err
	}
	to, err := connect(c.Name, config)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.clusters[c.Name] = to
	i.mu.Unlock()
	switch c.Role {
	case layout.RoleBusiness:
		err = i.installBusiness(ctx, to, c)
	case layout.RoleCell:
		err = i.installCell(ctx, to, c)
	case layout.RoleHub:
		err = i.installHub(ctx, to, c)
	}
	if err != nil {
		return fmt.Errorf("installing Pharos into %s: %w", c.Name, err)
	}
	return nil
}

// keep remembers a kubeconfig for another cluster to hold.
func (i *installer) keep(c layout.Cluster, account string, kubeconfig []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kubeconfigs[key(c, account)] = kubeconfig
}

func (i *installer) kubeconfig(c layout.Cluster, account string) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.kubeconfigs[key(c, account)]
}

func key(c layout.Cluster, account string) string { return c.Name + "/" + account }
