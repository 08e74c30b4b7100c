package obs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/obs"
)

func TestLoggerTravelsInContext(t *testing.T) {
	var out bytes.Buffer
	ctx := obs.Into(t.Context(), obs.NewLogger(&out, obs.FormatJSON, slog.LevelInfo))
	obs.From(ctx).Info("patched machine", slog.String("machine", "m-1"))
	obs.From(ctx).Debug("not shown")
	require.Contains(t, out.String(), `"machine":"m-1"`)
	require.NotContains(t, out.String(), "not shown")
	obs.From(t.Context()).Info("dropped without harm")
}

func TestParseLevel(t *testing.T) {
	level, err := obs.ParseLevel("warn")
	require.NoError(t, err)
	require.Equal(t, slog.LevelWarn, level)
	_, err = obs.ParseLevel("loud")
	require.ErrorContains(t, err, "use debug, info, warn or error")
}

func TestServer(t *testing.T) {
	var ready atomic.Bool
	s, err := obs.NewServer(obs.ServerOptions{
		Address:  "127.0.0.1:0",
		Registry: obs.NewRegistry(),
		Ready: func() error {
			if !ready.Load() {
				return errors.New("cache is not filled yet")
			}
			return nil
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "other")
		}),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	base := "http://" + s.Addr().String()

	requireAnswer(t, base+"/healthz", http.StatusOK, "ok")
	requireAnswer(t, base+"/readyz", http.StatusServiceUnavailable, "cache is not filled yet")
	ready.Store(true)
	requireAnswer(t, base+"/readyz", http.StatusOK, "ok")
	requireAnswer(t, base+"/metrics", http.StatusOK, "go_goroutines")
	requireAnswer(t, base+"/else", http.StatusOK, "other")

	_, err = obs.NewServer(obs.ServerOptions{Address: s.Addr().String(), Registry: obs.NewRegistry()})
	require.ErrorContains(t, err, "listening on "+s.Addr().String())

	cancel()
	require.NoError(t, <-done)
	_, err = http.Get(base + "/healthz")
	require.Error(t, err, "the port is free again")
}

func TestServerNeedsRegistry(t *testing.T) {
	_, err := obs.NewServer(obs.ServerOptions{Address: "127.0.0.1:0"})
	require.ErrorContains(t, err, "no registry")
}

func requireAnswer(t *testing.T, url string, status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, url)
	require.Contains(t, string(b), body)
}
