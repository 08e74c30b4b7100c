package kubelet

import (
	"context"
	"fmt"
	"log/slog"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
)

// vkLogger gives what virtual-kubelet says to slog. Its information is debugging for us: the kubelet reports on its own
// what changes. (The library's adapter panics when an error is logged.)
type vkLogger struct{ log *slog.Logger }

func (l vkLogger) say(level slog.Level, text string) {
	l.log.Log(context.Background(), level, "Message from virtual-kubelet", slog.String("text", text))
}

func (l vkLogger) Debug(a ...any)            { l.say(slog.LevelDebug, fmt.Sprint(a...)) }
func (l vkLogger) Debugf(f string, a ...any) { l.say(slog.LevelDebug, fmt.Sprintf(f, a...)) }
func (l vkLogger) Info(a ...any)             { l.say(slog.LevelDebug, fmt.Sprint(a...)) }
func (l vkLogger) Infof(f string, a ...any)  { l.say(slog.LevelDebug, fmt.Sprintf(f, a...)) }
func (l vkLogger) Warn(a ...any)             { l.say(slog.LevelInfo, fmt.Sprint(a...)) }
func (l vkLogger) Warnf(f string, a ...any)  { l.say(slog.LevelInfo, fmt.Sprintf(f, a...)) }
func (l vkLogger) Error(a ...any)            { l.say(slog.LevelWarn, fmt.Sprint(a...)) }
func (l vkLogger) Errorf(f string, a ...any) { l.say(slog.LevelWarn, fmt.Sprintf(f, a...)) }
func (l vkLogger) Fatal(a ...any)            { l.say(slog.LevelError, fmt.Sprint(a...)) }
func (l vkLogger) Fatalf(f string, a ...any) { l.say(slog.LevelError, fmt.Sprintf(f, a...)) }

func (l vkLogger) WithField(key string, value any) vklog.Logger {
	return vkLogger{l.log.With(slog.Any(key, value))}
}

func (l vkLogger) WithFields(fields vklog.Fields) vklog.Logger {
	out := l.log
	for key, value := range fields {
		out = out.With(slog.Any(key, value))
	}
	return vkLogger{out}
}

func (l vkLogger) WithError(err error) vklog.Logger {
	return vkLogger{l.log.With(slog.Any("error", err))}
}
