package main

import (
	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/edge/agent"
	"github.com/pharos-fleet/pharos/internal/kube"
)

func newEdgeAgentCommand() *cobra.Command {
	var opts agent.Options
	var kubeconfig string
	var log logFlags
	cmd := &cobra.Command{
		Use:   "edge-agent",
		Short: "Export the object state of a cell's business clusters to its edge Prometheus",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if opts.Log, err = log.open(); err != nil {
				return err
			}
			if opts.Cell, err = kube.Config(kubeconfig); err != nil {
				return err
			}
			a, err := agent.New(opts)
			if err != nil {
				return err
			}
			return a.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Listen, "listen", ":9096", "host:port to serve on")
	flags.StringVar(&opts.Advertise, "advertise", "",
		"host:port at which the edge Prometheus reaches the agent; needed when --listen names no host")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cell; default $KUBECONFIG, else the pod's own")
	log.register(cmd)
	return cmd
}
