package main

import (
	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/operator"
)

func newMachineOperatorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "machine-operator",
		Short: "Answer requests for repair of a cell's machines by running the site's Job",
		Args:  cobra.NoArgs,
	}
	var opts operator.Options
	prepare := operatorFlags(cmd, &opts, ":8082")
	cmd.Flags().StringVar(&opts.JobConfigMap, "job-config-map", "repair-job", "ConfigMap whose key job.yaml is the site's repair Job")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := prepare(); err != nil {
			return err
		}
		o, err := operator.NewMachine(opts)
		if err != nil {
			return err
		}
		return o.Run(cmd.Context())
	}
	return cmd
}
