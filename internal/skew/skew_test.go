package skew_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/skew"
)

// ask asks a server whose answers bear the given Dates, one after another, with
// our own clock at the given time, and returns what was measured.
func ask(t *testing.T, ours time.Time, dates ...string) (time.Duration, error) {
	t.Helper()
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		if dates[next] != "" {
			w.Header().Set("Date", dates[next])
		}
		next++
	}))
	t.Cleanup(server.Close)
	ctx, meter := skew.Measure(t.Context())
	client := http.Client{Transport: skew.Transport{Next: http.DefaultTransport, Now: func() time.Time { return ours }}}
	for range dates {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	return meter.Skew()
}

func TestSkewIsTheWorstOfAllAnswers(t *testing.T) {
	ours := time.Date(2026, 3, 1, 12, 0, 0, 900_000_000, time.UTC)
	at := func(d time.Duration) string { return ours.Add(d).Format(http.TimeFormat) }
	for name, tc := range map[string]struct {
		dates []string
		want  time.Duration
	}{
		"same second":      {[]string{at(0)}, 0},
		"ahead":            {[]string{at(7 * time.Second)}, 7 * time.Second},
		"behind":           {[]string{at(-time.Minute)}, -time.Minute},
		"worst of several": {[]string{at(time.Second), at(-9 * time.Second), at(3 * time.Second)}, -9 * time.Second},
	} {
		got, err := ask(t, ours, tc.dates...)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got, name)
	}
}

func TestWithoutADateNothingIsKnown(t *testing.T) {
	ours := time.Now()
	for name, dates := range map[string][]string{
		"no answer":         {},
		"no Date":           {""},
		"one of two has it": {ours.UTC().Format(http.TimeFormat), ""},
		"no time":           {"yesterday"},
	} {
		_, err := ask(t, ours, dates...)
		require.ErrorIs(t, err, skew.ErrUndated, name)
	}
}
