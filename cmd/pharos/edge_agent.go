package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/edge/agent"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/obs"
)

func newEdgeAgentCommand() *cobra.Command {
	var opts agent.Options
	var kubeconfig, logLevel, logFormat string
	cmd := &cobra.Command{
		Use:   "edge-agent",
		Short: "Export the object state of a cell's business clusters to its edge Prometheus",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level, err := obs.ParseLevel(logLevel)
			if err != nil {
				return err
			}
			opts.Log = obs.NewLogger(os.Stderr, logFormat, level)
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
	flags.StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&logFormat, "log-format", obs.FormatText, "text or json")
	return cmd
}
