package main

import (
	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/central/notify"
)

func newNotifyCommand() *cobra.Command {
	var opts notify.Options
	var config string
	var log logFlags
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Relay Alertmanager's notifications to DingTalk robots",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if opts.Log, err = log.open(); err != nil {
				return err
			}
			if opts.Config, err = notify.LoadConfig(config); err != nil {
				return err
			}
			relay, err := notify.New(opts)
			if err != nil {
				return err
			}
			return relay.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Listen, "listen", ":9095", "host:port to serve on")
	flags.StringVar(&config, "config", "/etc/notify/notify.yaml", "file that lists the robots")
	flags.StringVar(&opts.SpoolDir, "spool", "/notify", "folder that keeps notifications until they are sent")
	flags.DurationVar(&opts.DedupWindow, "dedup-window", notify.DefaultDedupWindow,
		"how long the same notification is not told again; must be below Alertmanager's repeat_interval")
	log.register(cmd)
	return cmd
}
