package main

import (
	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
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
	var kubeconfig string
	var log logFlags
	log.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&opts.Listen, "listen", listen, "host:port to serve metrics and health on")
	flags.StringVar(&opts.Namespace, "namespace", deploy.Namespace, "namespace of the parts, of their Secrets and of the Lease")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; default $KUBECONFIG, else the pod's own")
	return func() (err error) {
		if opts.Log, err = log.open(); err != nil {
			return err
		}
		opts.Config, err = kube.Config(kubeconfig)
		return err
	}
}
