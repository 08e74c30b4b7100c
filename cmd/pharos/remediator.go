package main

import (
	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/remediator/controller"
)

func newRemediatorCommand() *cobra.Command {
	var opts controller.Options
	var kubeconfig string
	var log logFlags
	cmd := &cobra.Command{
		Use:   "remediator",
		Short: "Repair nodes that both centrals and the node itself agree are not ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if opts.Log, err = log.open(); err != nil {
				return err
			}
			if opts.Hub, err = kube.Config(kubeconfig); err != nil {
				return err
			}
			remediator, err := controller.New(opts)
			if err != nil {
				return err
			}
			return remediator.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Listen, "listen", ":8081", "host:port to serve on")
	flags.StringToStringVar(&opts.Centrals, "central", nil,
		"a central Prometheus as name=URL; given at least twice, since two must agree before anything is repaired")
	flags.DurationVar(&opts.Interval, "interval", controller.DefaultInterval, "time between rounds")
	flags.StringVar(&opts.Namespace, "namespace", controller.DefaultNamespace,
		"namespace in the hub of the leader's Lease and the cells' kubeconfig Secrets")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the hub; default $KUBECONFIG, else the pod's own")
	log.register(cmd)
	return cmd
}
