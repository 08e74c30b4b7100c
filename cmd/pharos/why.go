package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/remediator/recording"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

func newWhyCommand() *cobra.Command {
	var from, dir, at string
	cmd := &cobra.Command{
		Use:   "why machine/[CELL/]NAME | node/[CELL/]CLUSTER/NODE | cluster/[CELL/]NAME",
		Short: "Say in plain words what the remediator decided of a machine, a node or a cluster, and why",
		Long: `Say what the remediator decided of a machine, of the machine that bears a node, or of those of a cluster, and what it knew: of one
snapshot, or of the newest one in the folder that the remediator records in (--record) and that is no newer than --at. The same code decides.
Nothing is read but the file, and nothing is written.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := snapshot.ParseSubject(args[0])
			if err != nil {
				return err
			}
			path, err := recorded(from, dir, at)
			if err != nil {
				return err
			}
			s, err := readSnapshot(path, nil, "")
			if err != nil {
				return err
			}
			return s.Why(cmd.OutOrStdout(), of)
		},
	}
	cmd.Flags().StringVar(&from, "snapshot", "", "a snapshot, a YAML or JSON file; - for standard input")
	cmd.Flags().StringVar(&dir, "record", "", "the folder that a remediator records in")
	cmd.Flags().StringVar(&at, "at", "", "with --record: the instant that is asked for, such as 2026-01-31T12:00:00Z (default: now)")
	cmd.MarkFlagsMutuallyExclusive("snapshot", "record")
	cmd.MarkFlagsMutuallyExclusive("snapshot", "at")
	cmd.MarkFlagsOneRequired("snapshot", "record")
	return cmd
}

var errNoFolder = errors.New("reading --record: it is empty")

// recorded is the file that is asked for.
func recorded(from, dir, at string) (string, error) {
	if from != "" {
		return from, nil
	}
	if dir == "" {
		return "", errNoFolder
	}
	then, err := instantOr("at", at, time.Now())
	if err != nil {
		return "", err
	}
	return recording.Last(dir, then)
}
