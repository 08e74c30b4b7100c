// Package notify relays Alertmanager's notifications to DingTalk robots, for
// which Alertmanager has no receiver of its own.
//
// It answers 2xx only once a notification is on disk, tells the same thing
// once however many Alertmanager peers say it, and the end of an alert once
// however long Alertmanager repeats it, keeps inside each robot's rate, and
// merges rather than loses: of a flood the most severe alerts are told, with the
// number of the rest and where to see them. A notification may be sent twice
// after a crash between sending and writing that down; it is never sent zero
// times. Run one relay per spool: two would exceed the robots' rate between
// them.
package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/pharos-fleet/pharos/internal/obs"
)

// maxBodyBytes bounds one webhook call. Alertmanager groups alerts; a group
// beyond this needs max_alerts in its receiver.
const maxBodyBytes = 4 << 20

// DefaultDedupWindow is longer than peers of an Alertmanager may lie apart and
// shorter than any sensible repeat_interval, so that reminders pass.
const DefaultDedupWindow = 10 * time.Minute

// rateLimitPause is how long a robot stays silent, with a margin.
const rateLimitPause = 10*time.Minute + 15*time.Second

// Options of a Relay.
type Options struct {
	// Listen is the host:port to serve on.
	Listen string
	// Config names the robots; see LoadConfig.
	Config Config
	// SpoolDir keeps notifications until they are sent. It is created.
	SpoolDir string
	// DedupWindow is how long the same notification is not told again. Zero
	// means DefaultDedupWindow. It must be below Alertmanager's repeat_interval.
	DedupWindow time.Duration
	// RateLimitPause is how long to leave a robot alone that was sent too much.
	// Zero means what the provider states.
	RateLimitPause time.Duration
	// Log may be nil, which drops every line.
	Log *slog.Logger
}

// Relay takes webhook calls and sends messages. See New.
type Relay struct {
	opts    Options
	now     func() time.Time
	metrics *metrics
	workers map[string]*worker
	server  *obs.Server
	log     *slog.Logger
}

// New validates the options, reads the spool, and listens.
func New(opts Options) (*Relay, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	r := &Relay{opts: opts, now: time.Now, workers: map[string]*worker{}, log: opts.Log}
	registry := obs.NewRegistry()
	r.metrics = newMetrics(registry)
	spools, robots := map[string]*spool{}, map[string]Robot{}
	for _, robot := range opts.Config.Robots {
		s, err := openSpool(filepath.Join(opts.SpoolDir, robot.Name), opts.DedupWindow, r.log)
		if err != nil {
			return nil, fmt.Errorf("opening the spool of robot %s: %w", robot.Name, err)
		}
		if _, _, err := robot.credentials(); err != nil {
			r.log.Error("robot cannot be told anything until its token and secret are there",
				slog.String("robot", robot.Name), slog.Any("error", err))
		}
		spools[robot.Name], robots[robot.Name] = s, robot
		r.workers[robot.Name] = r.newWorker(robot, s)
	}
	registry.MustRegister(spoolCollector{dir: opts.SpoolDir, spools: spools, robots: robots, now: r.now})
	server, err := obs.NewServer(obs.ServerOptions{
		Address: opts.Listen, Registry: registry, Handler: r.handler(), Log: opts.Log,
	})
	if err != nil {
		return nil, err
	}
	r.server = server
	return r, nil
}

func (o *Options) complete() error {
	if o.Listen == "" || o.SpoolDir == "" {
		return errors.New("a listen address and a spool folder are needed")
	}
	if err := o.Config.validate(); err != nil {
		return fmt.Errorf("checking the notify configuration: %w", err)
	}
	if o.DedupWindow == 0 {
		o.DedupWindow = DefaultDedupWindow
	}
	if o.RateLimitPause == 0 {
		o.RateLimitPause = rateLimitPause
	}
	if o.DedupWindow < 0 || o.RateLimitPause < 0 {
		return errors.New("durations must not be negative")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.SpoolDir, 0o700); err != nil {
		return fmt.Errorf("creating the spool folder: %w", err)
	}
	return nil
}

func (r *Relay) newWorker(robot Robot, s *spool) *worker {
	return &worker{
		spool:   s,
		sender:  sender{robot: robot, client: newHTTPClient(), now: r.now},
		limiter: newLimiter(r.now()),
		wake:    make(chan struct{}, 1),
		pause:   r.opts.RateLimitPause,
		retry:   func() backoff.BackOff { return newBackOff() },
		metrics: r.metrics.forRobot(robot.Name),
		log:     r.log.With(slog.String("robot", robot.Name)),
	}
}

// Run serves and sends until ctx ends. It returns once nothing is in flight;
// what was not sent is in the spool.
func (r *Relay) Run(ctx context.Context) error {
	r.log.Info("relaying notifications", slog.String("address", r.server.Addr().String()),
		slog.String("spool", r.opts.SpoolDir), slog.Any("robots", slices.Sorted(maps.Keys(r.workers))))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	for _, w := range r.workers {
		workers.Go(func() {
			w.run(ctx)
			w.sender.client.CloseIdleConnections()
		})
	}
	err := r.server.Run(ctx)
	cancel()
	workers.Wait()
	return err
}

func (r *Relay) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /alertmanager/{robot}", r.serveWebhook)
	return mux
}

func (r *Relay) serveWebhook(w http.ResponseWriter, req *http.Request) {
	name := req.PathValue("robot")
	worker, ok := r.workers[name]
	if !ok {
		name = unknownRobot
	}
	result, status, err := r.accept(worker, http.MaxBytesReader(w, req.Body, maxBodyBytes))
	r.metrics.received.WithLabelValues(name, result).Inc()
	if err != nil {
		r.log.Error("notification not accepted", slog.String("robot", name), slog.Int("status", status), slog.Any("error", err))
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(status)
}

// accept answers with 4xx only what will never be deliverable, because
// Alertmanager does not ask again after 4xx, and with 5xx what may be later.
func (r *Relay) accept(w *worker, body io.Reader) (result string, status int, err error) {
	if w == nil {
		return resultInvalid, http.StatusNotFound, errors.New("no robot of that name is configured")
	}
	data, err := io.ReadAll(body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return resultInvalid, http.StatusRequestEntityTooLarge, fmt.Errorf("a notification is larger than %d bytes; set max_alerts in the receiver", tooLarge.Limit)
	}
	if err != nil {
		return resultFailed, http.StatusServiceUnavailable, fmt.Errorf("reading a webhook call: %w", err)
	}
	n, err := parseWebhook(data, r.now())
	if err != nil {
		return resultInvalid, http.StatusBadRequest, err
	}
	added, err := w.spool.add(n)
	if err != nil {
		return resultFailed, http.StatusServiceUnavailable, fmt.Errorf("queueing a notification: %w", err)
	}
	if !added {
		return resultDuplicate, http.StatusOK, nil
	}
	select {
	case w.wake <- struct{}{}:
	default: // a note is there already
	}
	return resultQueued, http.StatusAccepted, nil
}
