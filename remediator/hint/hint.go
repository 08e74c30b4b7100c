// Package hint hears from Alertmanagers that something fires, and has the next round
// of the remediator come at once instead of at its period. That is all it does: what
// an alert says is evidence of nothing, is in no snapshot, and no decision rests on it.
// So a hint may be lost without harm, and a false one costs a round.
package hint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

const (
	// DefaultInterval is how often Alertmanagers are asked, unless Options say otherwise.
	DefaultInterval = 10 * time.Second
	// Rest is what lies between two rounds at least, however many hints come.
	Rest = 2 * time.Second
	// maxNames is how many names of alerts are told of one hint.
	maxNames = 5
)

// Sources of hints.
const (
	sourceWebhook = "webhook"
	sourceAPI     = "api"
)

// Hint is what somebody reason to look now has told.
type Hint struct {
	// Source is "webhook" or "api".
	Source string
	// Alerts is how many there were.
	Alerts int
	// Names are some of their names, sorted.
	Names []string
}

// Options say where hints come from. Without any there are none.
type Options struct {
	// TokenFile holds the token that who calls the web hook must show. It is read at
	// each call. Unset means that there is no web hook.
	TokenFile string
	// Alertmanagers are the URLs of those that are asked for alerts, by name.
	Alertmanagers map[string]string
	// Interval from one question to the next. Unset means DefaultInterval.
	Interval time.Duration
	// Registry is given the metrics. Required.
	Registry prometheus.Registerer
	// Log unset drops everything.
	Log *slog.Logger
}

// Hints hands over hints from where they come in to the loop that waits for them.
type Hints struct {
	tokenFile string
	pollers   []*poller
	metrics   *metrics
	log       *slog.Logger

	// rung holds the one hint that the loop has not seen yet.
	rung    chan Hint
	leading atomic.Bool
	// calls has room for each call of the web hook that is being read.
	calls chan struct{}
	// refusals are told once in a while: whoever has no token must not fill the log.
	refusals rate.Sometimes
}

// New checks the options; nobody is reached out to.
func New(o Options) (*Hints, error) {
	if o.Registry == nil {
		return nil, errors.New("setting up hints: a registry is needed")
	}
	if o.Interval < 0 || o.Interval > 0 && o.Interval < time.Second {
		return nil, fmt.Errorf("setting up hints: Alertmanagers cannot be asked every %s: give 1s or more", o.Interval)
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Hints{
		tokenFile: o.TokenFile, metrics: newMetrics(o.Registry), log: o.Log,
		rung: make(chan Hint, 1), calls: make(chan struct{}, maxCalls), refusals: rate.Sometimes{Interval: tellAgain},
	}
	for _, name := range slices.Sorted(maps.Keys(o.Alertmanagers)) {
		p, err := newPoller(name, o.Alertmanagers[name], o.Interval)
		if err != nil {
			return nil, fmt.Errorf("setting up hints: %w", err)
		}
		h.pollers = append(h.pollers, p)
	}
	if o.TokenFile != "" {
		if _, err := readToken(o.TokenFile); err != nil {
			o.Log.Error("Nobody can give hints by the web hook until its token is there", slog.Any("error", err))
		}
	}
	return h, nil
}

// Handler serves the web hook. It is nil where there is none.
func (h *Hints) Handler() http.Handler {
	if h.tokenFile == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, h.serve)
	return mux
}

// Lead asks the Alertmanagers, and takes hints, until the context ends: who does not
// lead has no rounds.
func (h *Hints) Lead(ctx context.Context) {
	h.leading.Store(true)
	defer h.leading.Store(false)
	var asking sync.WaitGroup
	for _, p := range h.pollers {
		asking.Go(func() { p.run(ctx, h) })
	}
	asking.Wait()
	<-ctx.Done()
}

// ring leaves a hint for the loop. Beside one that it has not seen yet another says
// nothing new.
func (h *Hints) ring(hint Hint) outcome {
	if !h.leading.Load() {
		return standby
	}
	select {
	case h.rung <- hint:
		return taken
	default:
		return merged
	}
}

// Wait returns after the pause, or, true, sooner with a hint: those that come while a
// round runs count, since it may have read before, and Rest lies after each round in
// any case. What has come when the pause is over is forgotten: the round that begins
// then is as good.
func (h *Hints) Wait(ctx context.Context, pause time.Duration) (Hint, bool) {
	over := time.NewTimer(pause)
	defer over.Stop()
	rested := time.NewTimer(min(Rest, pause))
	defer rested.Stop()
	select {
	case <-ctx.Done():
		return Hint{}, false
	case <-rested.C:
	}
	select {
	case <-ctx.Done():
	case hint := <-h.rung:
		return hint, pause > Rest
	case <-over.C:
		select {
		case <-h.rung:
		default:
		}
	}
	return Hint{}, false
}

// some are a few of the names, each once.
func some(names []string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNames)]
}
