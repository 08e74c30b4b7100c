package main

import (
	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/edge/agent"
)

func newEdgeAgentCommand() *cobra.Command {
	opts := agent.Options{Listen: ":9096"}
	cmd := &cobra.Command{
		Use:   "edge-agent",
		Short: "Give an edge Prometheus the state, targets and metrics of its cell's business clusters",
	}
	cmd.Flags().StringVar(&opts.Advertise, "advertise", "",
		"host:port at which the edge Prometheus reaches the agent; needed when --listen names no host")
	shared := programFlags{listen: &opts.Listen, cluster: "cell"}
	shared.register(cmd, func(g given) (program, error) {
		opts.Log, opts.Cell = g.log, g.config
		return agent.New(opts)
	})
	return cmd
}
