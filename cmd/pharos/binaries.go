package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/local/binaries"
)

func newBinariesCommand() *cobra.Command {
	var opts binaries.Options
	cmd := &cobra.Command{
		Use:   "binaries",
		Short: "Build the server binaries of the local fleet where they are missing, and print their paths",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Progress = cmd.ErrOrStderr()
			set, err := binaries.Ensure(cmd.Context(), opts)
			if err != nil {
				return err
			}
			for _, path := range slices.Sorted(maps.Values(set)) {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.BinDir, "bin-dir", "", "folder of ready binaries to check and use instead of building (default $"+binaries.DirVariable+")")
	cmd.Flags().BoolVar(&opts.ForTests, "for-tests", false, "the servers that only tests run, too")
	return cmd
}
