package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/remediator/controller"
	"github.com/pharos-fleet/pharos/remediator/hint"
	"github.com/pharos-fleet/pharos/remediator/recording"
)

func newRemediatorCommand() *cobra.Command {
	opts := controller.Options{Listen: ":8081"}
	cmd := &cobra.Command{
		Use:   "remediator",
		Short: "Repair nodes that both centrals and the node itself agree are not ready",
	}
	flags := cmd.Flags()
	flags.StringToStringVar(&opts.Centrals, "central", nil,
		"a central Prometheus as name=URL; given at least twice, since two must agree before anything is repaired")
	flags.DurationVar(&opts.Interval, "interval", controller.DefaultInterval, "time between rounds")
	flags.StringVar(&opts.Namespace, "namespace", controller.DefaultNamespace,
		"namespace in the hub of the leader's Lease and the cells' kubeconfig Secrets")
	flags.StringVar(&opts.Record.Dir, "record", "",
		"a folder to keep snapshots in: what each decision that differs from the one before rested on, for pharos decide")
	flags.Int64Var(&opts.Record.MaxBytes, "record-max-bytes", recording.DefaultMaxBytes, "what the folder of --record holds at most; the oldest snapshots go first")
	flags.DurationVar(&opts.Record.MaxAge, "record-max-age", recording.DefaultMaxAge, "how long a snapshot is kept at most")
	flags.StringVar(&opts.Hints.TokenFile, "hint-token-file", "",
		"a file with the bearer token that Alertmanager's web hook must show at "+hint.Path+", so that a round comes at once; without it there is no web hook")
	flags.StringToStringVar(&opts.Hints.Alertmanagers, "alertmanager", nil,
		"an Alertmanager as name=URL that is asked for its alerts, so that a round comes at once when there is a new one; may be given several times")
	flags.DurationVar(&opts.Hints.Interval, "alertmanager-interval", hint.DefaultInterval, "time between two questions to an Alertmanager")
	days := flags.Int("retain-days", controller.DefaultRetainDays, "how many days a Remediation that has ended is kept; before it goes it is written into the folder of --record, if there is one")
	records := flags.Int("retain-records", controller.DefaultRetainRecords, "how many Remediations that have ended are kept; the oldest go first, but for what decisions still need")
	shared := programFlags{listen: &opts.Listen, cluster: "hub"}
	shared.register(cmd, func(g given) (program, error) {
		opts.Retain.Age, opts.Retain.Records = time.Duration(*days)*24*time.Hour, *records
		if err := opts.Retain.Validate(); err != nil {
			return nil, fmt.Errorf("--retain-days %d, --retain-records %d: %w", *days, *records, err)
		}
		opts.Log, opts.Hub = g.log, g.config
		return controller.New(opts)
	})
	return cmd
}
