package notify

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/time/rate"
)

const (
	// A robot takes 20 messages a minute. The bucket starts empty, so that in
	// any minute, restarts included, at most sendBurst + sendsPerMinute leave.
	sendsPerMinute = 14
	sendBurst      = 4

	// digestAbove is how many notifications may wait before they are merged.
	digestAbove = 3
	// digestMax bounds one digest to about what maxMessages hold, so that in
	// ordinary times nothing is left out, and a crash in its midst repeats little.
	digestMax = 100

	// minLimit is the smallest body that is tried when the provider finds
	// larger ones too large.
	minLimit = 2_000
	// maxUnknown is how often a message is tried that meets an answer we do not
	// know. It must not block the queue for ever.
	maxUnknown = 8
)

// worker sends one robot's queue, in order.
type worker struct {
	spool   *spool
	sender  sender
	limiter *rate.Limiter
	// wake has room for one: a note that something was added.
	wake    chan struct{}
	pause   time.Duration // how long a robot that was sent too much stays silent
	retry   func() backoff.BackOff
	metrics *robotMetrics
	log     *slog.Logger
}

func newLimiter(now time.Time) *rate.Limiter {
	l := rate.NewLimiter(rate.Limit(sendsPerMinute)/60, sendBurst)
	l.AllowN(now, sendBurst)
	return l
}

// newBackOff never gives up: an alert waits for the network as long as it takes.
func newBackOff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Second),
		backoff.WithMaxInterval(time.Minute),
		backoff.WithMaxElapsedTime(0),
	)
}

// run returns when ctx ends. What it has not sent stays in the spool.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		batch := w.nextBatch()
		if len(batch) > 0 {
			w.deliver(ctx, batch)
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		}
	}
}

// nextBatch takes one notification, or many when many wait. Taking the oldest
// ones keeps the order within every group.
func (w *worker) nextBatch() []entry {
	waiting := w.spool.head(digestMax)
	if len(waiting) > digestAbove {
		return waiting
	}
	return waiting[:min(1, len(waiting))]
}

// deliver sends a batch and takes it from the queue, unless ctx ends first.
func (w *worker) deliver(ctx context.Context, batch []entry) {
	queue := notificationsOf(batch)
	log := w.log.With(about(queue)...)
	o := w.sendAll(ctx, log, queue)
	if !o.done {
		return
	}
	to, code := sentDir, ""
	log = log.With(slog.Int("messages", o.messages))
	if o.refusal != nil {
		to, code = deadDir, errcodeOf(o.refusal)
		w.metrics.refusals[code].Add(float64(len(batch)))
		log.Error("notification refused for good",
			slog.Any("error", o.refusal), slog.String("folder", w.spool.dir),
			slog.String("todo", "mend what the error names, move the files from dead to queue, restart notify"))
	} else {
		log.Info("notification delivered")
		if len(batch) > 1 {
			w.metrics.digests.Inc()
		}
	}
	w.spool.refuses(code)
	if err := w.spool.finish(len(batch), to); err != nil {
		log.Error("spool not updated; a restart would send these notifications again", slog.Any("error", err))
	}
}

// about says in a log of what a batch tells.
func about(queue []notification) []any {
	alerts := firingFirst(lastWords(queue))
	return []any{
		slog.String("status", alerts[0].Status), slog.Int("alerts", len(alerts)), slog.Int("notifications", len(queue)),
	}
}

// outcome is what became of a batch.
type outcome struct {
	done     bool  // all was sent, or was refused for good; not when ctx ended
	refusal  error // why it was refused
	messages int   // of how many it was made
}

// sendAll sends a batch, cut smaller each time the provider finds a part too
// large.
func (w *worker) sendAll(ctx context.Context, log *slog.Logger, queue []notification) outcome {
	for limit := bodyLimit; ; limit /= 2 {
		messages, leftOut := render(queue, limit)
		v, err := w.sendParts(ctx, log.With(slog.Int("messages", len(messages))), messages)
		switch {
		case ctx.Err() != nil && v != verdictSent:
			return outcome{}
		case v == verdictSent:
			w.countLeftOut(leftOut)
			return outcome{done: true, messages: len(messages)}
		case v == verdictTooBig && limit/2 >= minLimit:
			continue
		}
		return outcome{done: true, refusal: err, messages: len(messages)}
	}
}

func (w *worker) countLeftOut(alerts int) {
	if alerts > 0 {
		w.metrics.leftOut.Add(float64(alerts))
		w.log.Warn("too many alerts for the robot; the last message says how many are left out", slog.Int("alerts", alerts))
	}
}

func notificationsOf(batch []entry) []notification {
	out := make([]notification, len(batch))
	for i, e := range batch {
		out[i] = e.notification
	}
	return out
}

// sendParts sends messages in order, and stops at the first that is not sent.
func (w *worker) sendParts(ctx context.Context, log *slog.Logger, parts []message) (verdict, error) {
	for _, part := range parts {
		if v, err := w.sendUntilAnswered(ctx, log, part); v != verdictSent {
			return v, err
		}
	}
	return verdictSent, nil
}

// sendUntilAnswered repeats one message until it is sent, refused or found too
// large, or ctx ends.
func (w *worker) sendUntilAnswered(ctx context.Context, log *slog.Logger, m message) (verdict, error) {
	unknown := 0
	retry := w.retry()
	for {
		if err := w.limiter.Wait(ctx); err != nil {
			return verdictRetry, err
		}
		// A request in flight is let end, lest it be sent again after a restart.
		v, err := w.sender.send(context.WithoutCancel(ctx), m)
		w.metrics.attempts[v].Inc()
		wait := w.pause
		switch v {
		case verdictSent, verdictTooBig, verdictRefused:
			return v, err
		case verdictUnknown:
			if unknown++; unknown >= maxUnknown {
				return verdictRefused, fmt.Errorf("giving up after %d attempts: %w", unknown, err)
			}
			wait = retry.NextBackOff()
		case verdictRetry:
			wait = retry.NextBackOff()
		}
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		logDeferred(log, v, err, wait)
		if !sleep(ctx, wait) {
			return v, ctx.Err()
		}
	}
}

// logDeferred tells of the provider's limit as what it is: nothing is wrong, and
// nothing need be done.
func logDeferred(log *slog.Logger, v verdict, err error, wait time.Duration) {
	attrs := []any{slog.Any("error", err), slog.Duration("retryIn", wait)}
	if v == verdictLimited {
		log.Info("notification deferred, because the robot was sent too much", attrs...)
		return
	}
	log.Warn("message not sent yet", attrs...)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
