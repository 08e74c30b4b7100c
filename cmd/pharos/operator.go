package main

import (
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/obs"
	"github.com/pharos-fleet/pharos/operator"
)

func newOperatorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run in the hub and in every cell what the Federation and the Cells describe",
		Args:  cobra.NoArgs,
	}
	var opts operator.Options
	prepare := operatorFlags(cmd, &opts, ":8080")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := prepare(); err != nil {
			return err
		}
		o, err := operator.NewHub(opts)
		if err != nil {
			return err
		}
		return o.Run(cmd.Context())
	}
	return cmd
}

// operatorFlags adds the flags that both operators have. The function it
// returns fills in what needs more than a flag's value.
func operatorFlags(cmd *cobra.Command, opts *operator.Options, listen string) func() error {
	var kubeconfig, logLevel, logFormat string
	flags := cmd.Flags()
	flags.StringVar(&opts.Listen, "listen", listen, "host:port to serve metrics and health on")
	flags.StringVar(&opts.Namespace, "namespace", deploy.Namespace, "namespace of the parts, of their Secrets and of the Lease")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; default $KUBECONFIG, else the pod's own")
	flags.StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&logFormat, "log-format", obs.FormatText, "text or json")
	return func() error {
		level, err := obs.ParseLevel(logLevel)
		if err != nil {
			return err
		}
		opts.Log = obs.NewLogger(os.Stderr, logFormat, level)
		ctrllog.SetLogger(logr.FromSlogHandler(opts.Log.Handler()))
		klog.SetSlogLogger(opts.Log)
		opts.Config, err = kube.Config(kubeconfig)
		return err
	}
}
