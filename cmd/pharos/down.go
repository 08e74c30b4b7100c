package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/proc"
)

func newDownCommand() *cobra.Command {
	var fleet fleetFlags
	var keep bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the local fleet, prove that nothing of it is left, and remove its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := fleet.open()
			if err != nil {
				return err
			}
			result, err := f.Down(cmd.Context(), keep)
			if err != nil {
				return err
			}
			printDown(cmd.OutOrStdout(), f, result)
			return nil
		},
	}
	fleet.register(cmd)
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the state folder, so that the next pharos up goes on where this fleet was")
	return cmd
}

func printDown(w io.Writer, f *local.Fleet, r local.DownResult) {
	if !r.Found {
		fmt.Fprintf(w, "no fleet in %s: nothing to end\n", f.Layout.Dir)
		return
	}
	if len(r.Killed) > 0 {
		fmt.Fprintf(w, "the fleet did not end by itself: killed %s\n", proc.Summary(r.Killed))
	}
	state := "its state folder is removed"
	if r.Kept {
		state = "its data are kept in " + f.Layout.Dir
	}
	fmt.Fprintf(w, "the fleet is down after %.1f s: no process and no listening port of it is left, and %s\n", r.Took.Seconds(), state)
}
