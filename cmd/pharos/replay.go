package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/remediator/recording"
	"github.com/pharos-fleet/pharos/remediator/replay"
)

type replayFlags struct {
	dir, from, to, format string
	policies              []string
}

func newReplayCommand() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Say what the remediator would have decided otherwise by other policies",
		Long: `Decide every snapshot in the folder that the remediator records in (--record) once more: by the policies and budgets that were in force and
by those of the files, and say what differs, of which machine, from when to when and how often. The same code decides. With --policy what the
files have of policies, and of budgets, takes the place of all that were in force. Nothing is read but the files, and nothing is written.
A file that cannot be read is left out with a warning, and the command ends with 1.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&flags.dir, "record", "", "the folder that a remediator records in")
	cmd.Flags().StringVar(&flags.from, "from", "", "the first instant, such as 2026-01-31T12:00:00Z (default: that of the oldest snapshot)")
	cmd.Flags().StringVar(&flags.to, "to", "", "the last instant (default: that of the newest snapshot)")
	cmd.Flags().StringArrayVar(&flags.policies, "policy", nil, policyFlag)
	cmd.Flags().StringVarP(&flags.format, "output", "o", "text", "text, yaml or json")
	cobra.CheckErr(cmd.MarkFlagRequired("record"))
	cobra.CheckErr(cmd.MarkFlagRequired("policy"))
	return cmd
}

// run reads one snapshot at a time: a folder has more than fits into memory.
func (f replayFlags) run(ctx context.Context, out, told io.Writer) error {
	write, err := answerIn(f.format)
	if err != nil {
		return err
	}
	terms, err := readTerms(f.policies)
	if err != nil {
		return err
	}
	paths, err := f.paths()
	if err != nil {
		return err
	}
	r, missed := replay.New(terms), 0
	for _, path := range paths {
		if ctx.Err() != nil {
			return fmt.Errorf("replaying %s: %w", f.dir, ctx.Err())
		}
		s, err := recording.Open(path)
		if err != nil {
			fmt.Fprintf(told, "pharos: %v; it is left out\n", err)
			missed++
			continue
		}
		r.Look(s)
	}
	unread := fmt.Errorf("replaying %s: %d of %d snapshots could not be read, see above", f.dir, missed, len(paths))
	if missed == len(paths) {
		return unread
	}
	result := r.Result()
	result.Unread = missed
	if err := write(out, result); err != nil {
		return err
	}
	if missed > 0 {
		return unread
	}
	return nil
}

// paths are those of the snapshots that are asked for.
func (f replayFlags) paths() ([]string, error) {
	if f.dir == "" {
		return nil, errNoFolder
	}
	from, err := instantOr("from", f.from, time.Time{})
	if err != nil {
		return nil, err
	}
	to, err := instantOr("to", f.to, time.Time{})
	if err != nil {
		return nil, err
	}
	if f.from != "" && f.to != "" && to.Before(from) {
		return nil, errors.New("reading --to: it is before --from")
	}
	return recording.Between(f.dir, from, to)
}
