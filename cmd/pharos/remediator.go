package main

import (
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/obs"
	"github.com/pharos-fleet/pharos/remediator/controller"
)

func newRemediatorCommand() *cobra.Command {
	var opts controller.Options
	var kubeconfig, logLevel, logFormat string
	cmd := &cobra.Command{
		Use:   "remediator",
		Short: "Repair nodes that both centrals and the node itself agree are not ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level, err := obs.ParseLevel(logLevel)
			if err != nil {
				return err
			}
			opts.Log = obs.NewLogger(os.Stderr, logFormat, level)
			ctrllog.SetLogger(logr.FromSlogHandler(opts.Log.Handler()))
			klog.SetSlogLogger(opts.Log)
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
	flags.StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&logFormat, "log-format", obs.FormatText, "text or json")
	return cmd
}
