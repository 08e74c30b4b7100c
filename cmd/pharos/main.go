// Command pharos is every program of Pharos: one subcommand for each role.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the program the hard way.
	context.AfterFunc(ctx, stop)
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pharos:", err)
		stop()
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "pharos",
		Short:         "Watch and repair a fleet of Kubernetes clusters",
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		newDemoCommand(),
		newUpCommand(),
		newStatusCommand(),
		newDownCommand(),
		newFaultCommand(),
		newLocalCommand(),
		newRemediatorCommand(),
		newOperatorCommand(),
		newMachineOperatorCommand(),
		newEdgeAgentCommand(),
		newNotifyCommand(),
	)
	return root
}
