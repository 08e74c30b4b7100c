package main

import (
	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/central/notify"
)

func newNotifyCommand() *cobra.Command {
	opts := notify.Options{Listen: ":9095"}
	var config string
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Relay Alertmanager's notifications to DingTalk robots",
	}
	flags := cmd.Flags()
	flags.StringVar(&config, "config", "/etc/notify/notify.yaml", "file that lists the robots")
	flags.StringVar(&opts.SpoolDir, "spool", "/notify", "folder that keeps notifications until they are sent")
	flags.DurationVar(&opts.DedupWindow, "dedup-window", notify.DefaultDedupWindow,
		"how long the same notification is not told again; must be below Alertmanager's repeat_interval")
	shared := programFlags{listen: &opts.Listen}
	shared.register(cmd, func(g given) (_ program, err error) {
		opts.Log = g.log
		if opts.Config, err = notify.LoadConfig(config); err != nil {
			return nil, err
		}
		return notify.New(opts)
	})
	return cmd
}
