package notify

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/pharos-fleet/pharos/rules"
)

// Every series is there before anything has happened, or an increase from nothing
// to one would be none.
func TestMetricsBeginAtNought(t *testing.T) {
	r := startRelay(t, optionsFor(t, "http://"+loopback+":1"), nil)
	for name, want := range map[string]string{
		"pharos_notify_refusals_total":   `{errcode="300001",robot="ops"} 0`,
		"pharos_notify_dead_letters":     `{robot="ops"} 0`,
		"pharos_notify_refusing":         `{errcode="300001",robot="ops"} 0`,
		"pharos_notify_queue_fill_ratio": `{robot="ops"} 0`,
		"pharos_notify_queue_age_sec":    `{robot="ops"} 0`,
	} {
		require.Contains(t, r.metric(name), want)
	}
	contract, err := rules.Load()
	require.NoError(t, err)
	for _, name := range contract.RawFrom("pharos") {
		if strings.HasPrefix(name, "pharos_notify_") {
			require.NotEmpty(t, r.metric(name), name)
		}
	}
	require.Equal(t, len(errcodes()), strings.Count(r.metric("pharos_notify_refusals_total"), `robot="ops"`))
	require.Positive(t, freeBytes(t.TempDir()))
	require.Zero(t, freeBytes("/nowhere/at/all"))
}

// Messages that wait say since when, and how much room they leave.
func TestWhatWaitsIsMeasured(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	r := startRelay(t, opts, func(w *worker) {
		w.limiter = rate.NewLimiter(rate.Every(time.Hour), 1)
		w.limiter.Allow()
	})
	for i := range 50 {
		require.Equal(t, http.StatusAccepted, r.tell(numbered(i)))
	}
	require.Contains(t, r.metric("pharos_notify_queue_fill_ratio"), `{robot="ops"} 0.005`)
	time.Sleep(10 * time.Millisecond)
	require.NotRegexp(t, `{robot="ops"} 0(\n|$)`, r.metric("pharos_notify_queue_age_seconds"))
}

// A provider that knows no such token says so by a code, which an alert tells.
func TestARefusalIsCountedByItsCode(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	require.NoError(t, os.WriteFile(opts.Config.Robots[0].AccessTokenFile, []byte("another"), 0o600))
	r := startRelay(t, opts, nil)
	require.Equal(t, http.StatusAccepted, r.tell(numbered(1)))
	eventually(t, "put aside", func() bool { return r.pending() == 0 })
	require.Contains(t, r.metric("pharos_notify_refusals_total"), `{errcode="300001",robot="ops"} 1`)
	require.Contains(t, r.metric("pharos_notify_dead_letters"), `{robot="ops"} 1`)
}

// A robot whose token is gone refuses until it has taken something: that nobody tries
// mends nothing, and a restart neither.
func TestARobotRefusesUntilItTakesAMessage(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	token := opts.Config.Robots[0].AccessTokenFile
	r := startRelay(t, opts, nil)
	tell := func(i int, refuses string) {
		t.Helper()
		require.Equal(t, http.StatusAccepted, r.tell(numbered(i)))
		eventually(t, "answered", func() bool { return r.pending() == 0 })
		require.Contains(t, r.metric("pharos_notify_refusing"), `{errcode="300001",robot="ops"} `+refuses)
		require.Contains(t, r.metric("pharos_notify_refusing"), `{errcode="310000",robot="ops"} 0`)
	}
	tell(1, "0")
	require.NoError(t, os.Remove(token))
	require.Contains(t, r.metric("pharos_notify_refusing"), `{errcode="credentials",robot="ops"} 1`, "nothing need be tried to know it")
	require.NoError(t, os.WriteFile(token, []byte("another"), 0o600))
	tell(2, "1")

	r.stop()
	r = startRelay(t, opts, nil)
	require.Contains(t, r.metric("pharos_notify_refusing"), `{errcode="300001",robot="ops"} 1`)
	require.NoError(t, os.WriteFile(token, []byte(testToken), 0o600))
	tell(3, "0")
	r.stop()
	r = startRelay(t, opts, nil)
	require.NotContains(t, r.metric("pharos_notify_refusing"), "} 1")
	require.Contains(t, r.metric("pharos_notify_dead_letters"), `{robot="ops"} 1`, "what was refused waits for a person")
}

func TestCodesOfTheMetricAreBounded(t *testing.T) {
	refusal := func(code int) error { return fmt.Errorf("giving up: %w", codeError(code, "why")) }
	require.Equal(t, "310000", errcodeOf(refusal(codeForbidden)))
	require.Equal(t, otherCode, errcodeOf(refusal(424242)))
	require.Equal(t, otherCode, errcodeOf(errors.New("encoding a message")))
}
