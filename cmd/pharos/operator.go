package main

import (
	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/operator"
)

func newOperatorCommand() *cobra.Command {
	opts := operator.Options{Listen: ":8080"}
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run in the hub and in every cell what the Federation and the Cells describe",
	}
	registerOperator(cmd, &opts, "hub", func() (program, error) { return operator.NewHub(opts) })
	return cmd
}

func newMachineOperatorCommand() *cobra.Command {
	opts := operator.Options{Listen: ":8082"}
	cmd := &cobra.Command{
		Use:   "machine-operator",
		Short: "Answer requests for repair of a cell's machines by running the site's Job",
	}
	cmd.Flags().StringVar(&opts.JobConfigMap, "job-config-map", "repair-job", "ConfigMap whose key job.yaml is the site's repair Job")
	registerOperator(cmd, &opts, "cell", func() (program, error) { return operator.NewMachine(opts) })
	return cmd
}

// registerOperator adds the flags that both operators have.
func registerOperator(cmd *cobra.Command, opts *operator.Options, cluster string, build func() (program, error)) {
	cmd.Flags().StringVar(&opts.Namespace, "namespace", deploy.Namespace, "namespace of the parts, of their Secrets and of the Lease")
	shared := programFlags{listen: &opts.Listen, cluster: cluster}
	shared.register(cmd, func(g given) (program, error) {
		opts.Log, opts.Config = g.log, g.config
		return build()
	})
}
