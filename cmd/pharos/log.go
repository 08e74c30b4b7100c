package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/pharos-fleet/pharos/internal/obs"
)

// logFlags are how a program is told what to log. Every line of the process,
// those of libraries included, goes to the one logger.
type logFlags struct{ level, format string }

func (f *logFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&f.format, "log-format", obs.FormatText, "text or json")
}

func (f *logFlags) open() (*slog.Logger, error) {
	level, err := obs.ParseLevel(f.level)
	if err != nil {
		return nil, err
	}
	return processLog(f.format, level), nil
}

// componentLog is the log of a part of the local fleet.
func componentLog() *slog.Logger { return processLog(obs.FormatText, slog.LevelInfo) }

func processLog(format string, level slog.Level) *slog.Logger {
	log := obs.NewLogger(os.Stderr, format, level)
	obs.BridgeKubernetes(log)
	return log
}
