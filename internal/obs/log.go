// Package obs gives every program of Pharos one way to log and to serve its
// metrics and health. It holds no metrics of its own.
package obs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Log formats that NewLogger knows.
const (
	FormatText = "text"
	FormatJSON = "json"
)

type loggerKey struct{}

// NewLogger returns a logger that writes to w in the given format. Any format
// but FormatJSON is text, for a person's terminal.
func NewLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == FormatJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// ParseLevel reads a log level: debug, info, warn or error.
func ParseLevel(s string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s)); err != nil {
		return 0, fmt.Errorf("reading log level %q: use debug, info, warn or error", s)
	}
	return level, nil
}

// Into returns a context that carries the logger.
func Into(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, log)
}

// From returns the context's logger, or one that drops everything.
func From(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok {
		return log
	}
	return slog.New(slog.DiscardHandler)
}
