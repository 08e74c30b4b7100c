package hint

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// leading are hints of a process that leads until the test ends.
func leading(t *testing.T, o Options) *Hints {
	t.Helper()
	o.Registry = prometheus.NewRegistry()
	h, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Lead(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for !h.leading.Load() {
		time.Sleep(time.Millisecond)
	}
	return h
}

// counted is how many hints of a source came to an outcome.
func (h *Hints) counted(source string, o outcome) float64 {
	return testutil.ToFloat64(h.metrics.hints.WithLabelValues(source, string(o)))
}

var aHint = Hint{Source: sourceWebhook, Alerts: 1, Names: []string{"NodeDown"}}

func TestARoundComesAtItsPeriodWithoutHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := leading(t, Options{}), time.Now()
		_, early := h.Wait(t.Context(), time.Hour)
		require.False(t, early)
		require.Equal(t, time.Hour, time.Since(begun))
	})
}

func TestAHintHasARoundComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := leading(t, Options{}), time.Now()
		time.AfterFunc(20*time.Minute, func() { require.Equal(t, taken, h.ring(aHint)) })
		hint, early := h.Wait(t.Context(), time.Hour)
		require.True(t, early)
		require.Equal(t, aHint, hint)
		require.Equal(t, 20*time.Minute, time.Since(begun))
	})
}

// A round may have read before the hint came, so that it counts; but it rests first.
func TestAHintDuringARoundHasAnotherOneCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := leading(t, Options{}), time.Now()
		require.Equal(t, taken, h.ring(aHint))
		_, early := h.Wait(t.Context(), time.Hour)
		require.True(t, early)
		require.Equal(t, Rest, time.Since(begun))
	})
}

func TestAStormGivesOneRoundInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := leading(t, Options{})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		storm := make(chan int)
		go func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				h.ring(aHint)
				time.Sleep(time.Millisecond)
			}
			storm <- n
		}()
		rounds := 0
		for ctx.Err() == nil {
			if _, early := h.Wait(ctx, time.Hour); early {
				rounds++
			}
		}
		require.Greater(t, <-storm, 50_000)
		require.InDelta(t, time.Minute/Rest, rounds, 1)
	})
}

// The period is not made longer by a storm either, however short it is.
func TestAHintNeverDelaysARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := leading(t, Options{})
		for range 5 {
			begun := time.Now()
			h.ring(aHint)
			_, early := h.Wait(t.Context(), Rest/4)
			require.False(t, early, "it would have come anyway")
			require.Equal(t, Rest/4, time.Since(begun))
		}
	})
}

// The round that begins at its period has seen what the hint was about.
func TestAHintAtTheEndOfAPauseIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := leading(t, Options{})
		h.Wait(t.Context(), Rest)
		h.ring(aHint)
		h.Wait(t.Context(), Rest)
		begun := time.Now()
		_, early := h.Wait(t.Context(), time.Hour)
		require.False(t, early)
		require.Equal(t, time.Hour, time.Since(begun))
	})
}

func TestWhoDoesNotLeadTakesNoHints(t *testing.T) {
	h, err := New(Options{Registry: prometheus.NewRegistry()})
	require.NoError(t, err)
	require.Equal(t, standby, h.ring(aHint))
	require.Empty(t, h.rung)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h, err := New(Options{Registry: prometheus.NewRegistry()})
	require.NoError(t, err)
	_, early := h.Wait(ctx, time.Hour)
	require.False(t, early)
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		err     string
	}{
		"no registry": {Options{}, "a registry is needed"},
		"too often":   {Options{Registry: prometheus.NewRegistry(), Interval: time.Millisecond}, "every 1ms: give 1s or more"},
		"no URL":      {Options{Registry: prometheus.NewRegistry(), Alertmanagers: map[string]string{"a": "alertmanager:9093"}}, `URL of Alertmanager "a" is not usable: want http://host:port`},
		"a password":  {Options{Registry: prometheus.NewRegistry(), Alertmanagers: map[string]string{"a": "http://u:s3cret@a"}}, "without a user"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(tc.options)
			require.ErrorContains(t, err, tc.err)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}
