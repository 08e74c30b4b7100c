package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/kube"
)

// programFlags are the flags that the programs share: each listens, logs, and
// all but the relay of notifications speak to a cluster.
type programFlags struct {
	// listen receives where to serve; its value beforehand is the default.
	listen *string
	// cluster says for a person which cluster the kubeconfig is of; empty means
	// that the program needs none.
	cluster string

	log        logFlags
	kubeconfig string
}

// given is what the shared flags amount to.
type given struct {
	log *slog.Logger
	// config leads to the program's cluster; nil when it speaks to none.
	config *rest.Config
}

// program is what runs until its context is done.
type program interface {
	Run(ctx context.Context) error
}

// register adds the flags and has the command run what build makes of them.
func (f *programFlags) register(cmd *cobra.Command, build func(given) (program, error)) {
	flags := cmd.Flags()
	flags.StringVar(f.listen, "listen", *f.listen, "host:port to serve on, metrics and health included")
	if f.cluster != "" {
		flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the "+f.cluster+"; default $KUBECONFIG, else the pod's own")
	}
	f.log.register(cmd)
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given, err := f.open()
		if err != nil {
			return err
		}
		p, err := build(given)
		if err != nil {
			return err
		}
		return p.Run(cmd.Context())
	}
}

func (f *programFlags) open() (given, error) {
	log, err := f.log.open()
	if err != nil || f.cluster == "" {
		return given{log: log}, err
	}
	config, err := kube.Config(f.kubeconfig)
	return given{log: log, config: config}, err
}
