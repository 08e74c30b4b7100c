package controller

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// A hub that answers nothing else than that it does not may be down for hours: each
// round counts, and each new trouble is told once.
func TestRoundThatFailsIsCountedAndToldOnce(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusForbidden)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(hub.Close)
	var log bytes.Buffer
	c, err := New(Options{
		Hub: &rest.Config{Host: hub.URL}, Centrals: map[string]string{"central-a": "http://a", "central-b": "http://b"},
		Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	f := &fleet{t: t}
	f.serve(c)
	c.leads(true)
	round := func() {
		start := time.Now()
		_, err := c.round(t.Context())
		require.Error(t, err)
		c.finished(start, err)
	}
	told := func() int { return strings.Count(log.String(), "Round failed") }

	round()
	round()
	require.Equal(t, 1, told(), log.String())
	require.Contains(t, log.String(), "reading the reservations")
	code, body := get(t, "http://"+c.Addr().String()+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "reading the reservations")
	_, metrics := get(t, "http://"+c.Addr().String()+"/metrics")
	require.Contains(t, metrics, `pharos_remediator_rounds_total{result="error"} 2`)
	require.Contains(t, metrics, `pharos_remediator_rounds_total{result="success"} 0`)

	status.Store(http.StatusInternalServerError)
	round()
	round()
	require.Equal(t, 2, told(), "another trouble is told, once")

	for _, port := range []string{"40001", "40002"} {
		c.finished(time.Now(), errors.New("read tcp 127.0.0.1:"+port+"->10.0.0.1:443: connection reset by peer"))
	}
	require.Equal(t, 3, told(), "the port on our side makes no other trouble")

	c.finished(time.Now(), nil)
	require.Contains(t, log.String(), "Round succeeded again")
	require.NoError(t, c.Ready())
}
