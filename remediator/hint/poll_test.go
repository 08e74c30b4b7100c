package hint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// alertmanager starts a stock one that tells nobody.
func alertmanager(t *testing.T) *promtest.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	dir := t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	require.NoError(t, os.WriteFile(config, []byte("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"), 0o600))
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return promtest.Program(t, l.Addr().String(), "alertmanager", "--config.file="+config, "--storage.path="+dir,
		"--web.listen-address="+l.Addr().String(), "--cluster.listen-address=", "--web.route-prefix=/am")
}

// raise hands an alert to an Alertmanager.
func raise(t *testing.T, a *promtest.Server, labels map[string]string) {
	t.Helper()
	raw, err := json.Marshal([]any{map[string]any{"labels": labels, "startsAt": time.Now()}})
	require.NoError(t, err)
	resp, err := http.Post("http://"+a.Address+"/am/api/v2/alerts", "application/json", strings.NewReader(string(raw)))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestAStockAlertmanagerGivesHints(t *testing.T) {
	a := alertmanager(t)
	a.Answers(t, "/am/-/ready")
	raise(t, a, map[string]string{"alertname": "Old", "cluster": "shop", "node": "n1"})
	var said testkit.Said
	h := leading(t, Options{
		Alertmanagers: map[string]string{"stock": "http://" + a.Address + "/am/"}, Interval: time.Second,
		Log: slog.New(slog.NewTextHandler(&said, nil)),
	})
	time.Sleep(2500 * time.Millisecond)
	require.Empty(t, h.rung, "what fires already is no news")

	raise(t, a, map[string]string{"alertname": "Elsewhere", "disk": "d1"})
	raise(t, a, nodeDown)
	require.Equal(t, Hint{Source: "api", Alerts: 1, Names: []string{"PharosNodeNotReady"}}, <-h.rung)
	time.Sleep(2500 * time.Millisecond)
	require.Empty(t, h.rung, "what goes on is no news")

	a.Kill()
	testkit.Await(t, func() error {
		if h.counted(sourceAPI, failed) < 2 {
			return errors.New("the questions have not failed twice")
		}
		return nil
	})
	a.Start()
	a.Answers(t, "/am/-/ready")
	testkit.Await(t, func() error {
		if said.Count("gives hints again") == 0 {
			return errors.New("it gives none")
		}
		return nil
	})
	require.Equal(t, 1, said.Count("Alertmanager gives no hints"), "the same trouble is told once")
	raise(t, a, map[string]string{"alertname": "New", "cluster": "shop", "node": "n2"})
	require.Equal(t, []string{"New"}, (<-h.rung).Names)
}

// Whatever a server answers that is none, nothing comes of it but a failure.
func TestAnswersThatAreNoneAreNoHints(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
	}{
		"an error":       {503, `"starting"`},
		"a refusal":      {400, `"bad matcher"`},
		"a page":         {200, "<html>"},
		"an object":      {200, `{"alerts":[]}`},
		"null":           {200, `[null]`},
		"no fingerprint": {200, `[{"labels":{"alertname":"A"},"startsAt":"2026-01-01T00:00:00Z"}]`},
		"no start":       {200, `[{"labels":{"alertname":"A"},"fingerprint":"f"}]`},
		"half":           {200, `[{"labels":{"alertname":"A"},"fingerprint":"f"`},
		"endless":        {200, `["` + strings.Repeat("x", maxAnswerBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			t.Cleanup(server.Close)
			p, err := newPoller("odd", server.URL, time.Second)
			require.NoError(t, err)
			p.seen = map[string]bool{}
			hint, err := p.ask(t.Context())
			require.ErrorContains(t, err, "asking Alertmanager odd for its alerts: ")
			require.Less(t, len(err.Error()), 300)
			require.Zero(t, hint.Alerts)
		})
	}
}

func TestAHostileNameOfAnAlertIsNotTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `[{"labels":{"alertname":"A\nlevel=ERROR"},"fingerprint":"f","startsAt":"2026-01-01T00:00:00Z"}]`)
	}))
	t.Cleanup(server.Close)
	p, err := newPoller("odd", server.URL, time.Second)
	require.NoError(t, err)
	p.seen = map[string]bool{}
	hint, err := p.ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, Hint{Source: "api", Alerts: 1, Names: []string{"unnamed"}}, hint)
}

// A server that says nothing holds up neither the end nor, for long, the next question.
func TestAServerThatSaysNothingIsLeft(t *testing.T) {
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	p, err := newPoller("mute", server.URL, time.Second)
	require.NoError(t, err)
	begun := time.Now()
	_, err = p.ask(t.Context())
	require.ErrorContains(t, err, "deadline exceeded")
	require.GreaterOrEqual(t, time.Since(begun), pollTimeout)

	<-asked
	h := leading(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.run(ctx, h) }()
	<-asked
	cancel()
	<-done
}
