package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/binaries"
)

func newUpCommand() *cobra.Command {
	var fleet fleetFlags
	var output outputFlag
	var binDir string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a whole fleet on this machine, and return when it is ready",
		Long: `Start a whole fleet on this machine: a hub, two cells and two business clusters
of twenty nodes each, with real API servers, and all of Pharos in them. Servers
that are missing are built from source first. End it with pharos down.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return fmt.Errorf("reading --timeout %s: give more than zero", timeout)
			}
			f, err := fleet.open()
			if err != nil {
				return err
			}
			err = f.Up(cmd.Context(), local.Options{
				Binaries:     binaries.Options{BinDir: binDir, Progress: cmd.ErrOrStderr()},
				Progress:     cmd.ErrOrStderr(),
				ReadyTimeout: timeout,
			})
			if err != nil {
				return err
			}
			return showReport(cmd, f, output, printAddresses)
		},
	}
	fleet.register(cmd)
	output.register(cmd)
	cmd.Flags().StringVar(&binDir, "bin-dir", "", "folder of ready server binaries to use instead of building them")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long the start may take, without the building of servers")
	return cmd
}
