// Package local runs a whole fleet on one machine, on real parts: it starts,
// describes and ends it. What runs is in package components, what is installed
// into it in package bootstrap.
package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// Fleet is a local fleet that runs.
type Fleet struct {
	// Layout says where everything is.
	Layout layout.Layout
}

// Open finds the fleet of an instance. An empty dir means the instance's
// default state folder, a relative one begins at the working directory. It does
// not look whether the fleet runs.
func Open(instance int, dir string) (*Fleet, error) {
	if dir == "" {
		def, err := layout.DefaultDir(instance)
		if err != nil {
			return nil, err
		}
		dir = def
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the state folder (or give --state-dir from the root on): %w", err)
	}
	l, err := layout.New(instance, dir)
	if err != nil {
		return nil, err
	}
	return &Fleet{Layout: l}, nil
}

// Running fails when no supervisor of the fleet is alive, or when the fleet is
// another's, and says what to do.
func (f *Fleet) Running() error {
	if _, err := readOwn(f.Layout); err != nil && !errors.Is(err, errNoFleet) {
		return err
	}
	if supervisorPID(f.Layout) == 0 {
		return fmt.Errorf("no fleet runs in %s: start one with `%s`", f.Layout.Dir, upCommand(f.Layout))
	}
	return nil
}

// UpCommand is what a person types to start the fleet.
func (f *Fleet) UpCommand() string { return upCommand(f.Layout) }

// DownCommand is what a person types to end it.
func (f *Fleet) DownCommand() string { return downCommand(f.Layout) }

// Config is the administrator's way into a cluster.
func (f *Fleet) Config(c layout.Cluster) (*rest.Config, error) {
	b, err := os.ReadFile(f.Layout.Kubeconfig(c))
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig of %s: %w", c.Name, err)
	}
	config, err := kube.ConfigFromBytes(b)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return config, nil
}

// Configs are the administrator's ways into all clusters, by name.
func (f *Fleet) Configs() (map[string]*rest.Config, error) {
	all := map[string]*rest.Config{}
	for _, c := range layout.Clusters() {
		config, err := f.Config(c)
		if err != nil {
			return nil, err
		}
		all[c.Name] = config
	}
	return all, nil
}

// MessagesURL lists what the DingTalk sink accepted.
func (f *Fleet) MessagesURL() string { return "http://" + f.Layout.DingTalkAddress() + "/messages" }
