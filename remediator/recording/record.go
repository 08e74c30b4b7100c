// Package recording keeps in a folder what the remediator's decisions rested on, so that
// they can be looked at, and made again, later.
//
// Nothing waits for it: what cannot be written in time is dropped, counted and told of.
package recording

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

// Defaults of Options.
const (
	DefaultEvery    = 5 * time.Minute
	DefaultMaxBytes = 4 << 30
	DefaultMaxAge   = 30 * 24 * time.Hour
)

// Options are where and how much is kept.
type Options struct {
	// Dir is the folder, which is made if it is not there. Required.
	Dir string
	// Every is how long nothing is recorded at most, while nothing is decided otherwise
	// than before. Zero means DefaultEvery.
	Every time.Duration
	// MaxBytes and MaxAge bound the folder; the oldest files go, and the newest stays.
	// Zero means the defaults.
	MaxBytes int64
	MaxAge   time.Duration
	// Registry is where it is counted what was recorded and what was not. Required.
	Registry prometheus.Registerer
	// Log unset drops everything.
	Log *slog.Logger
}

// Recorder writes snapshots, one at a time.
type Recorder struct {
	options Options
	queue   chan snapshot.Snapshot
	// digest and at are those of what was offered last and taken.
	digest [sha256.Size]byte
	at     time.Time

	written, dropped prometheus.Counter
	bytes            prometheus.Gauge
}

// New makes the folder, and takes away what a process that crashed left half written.
func New(o Options) (*Recorder, error) {
	o.Every, o.MaxBytes, o.MaxAge = cmp.Or(o.Every, DefaultEvery), cmp.Or(o.MaxBytes, DefaultMaxBytes), cmp.Or(o.MaxAge, DefaultMaxAge)
	if o.Every < 0 || o.MaxBytes < 0 || o.MaxAge < 0 {
		return nil, errors.New("setting up the record of decisions: a time or a size is below zero")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("setting up the record of decisions: %w", err)
	}
	if err := clean(o.Dir); err != nil {
		return nil, fmt.Errorf("setting up the record of decisions: %w", err)
	}
	r := &Recorder{
		options: o, queue: make(chan snapshot.Snapshot, 1),
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pharos_remediator_snapshots_recorded_total", Help: "Snapshots that were written into the folder of --record.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pharos_remediator_snapshots_dropped_total", Help: "Snapshots that should have been recorded and were not, because the disk was full or slow.",
		}),
		bytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pharos_remediator_record_bytes", Help: "What the folder of --record holds.",
		}),
	}
	o.Registry.MustRegister(r.written, r.dropped, r.bytes)
	return r, nil
}

// Offer takes a snapshot if something else was decided of it than of the last one, or
// that was long enough ago. It never waits. The snapshot must not be changed afterwards.
// It returns the name of the file in which the decision will be, if all goes well: that of
// the last one where the same was decided. It is empty for a snapshot that is dropped.
func (r *Recorder) Offer(s snapshot.Snapshot, v snapshot.Verdict) string {
	digest, err := decided(v)
	if err != nil {
		r.drop(s.Now, err)
		return ""
	}
	if digest == r.digest && s.Now.Sub(r.at).Abs() < r.options.Every {
		return name(r.at)
	}
	select {
	case r.queue <- s:
		r.digest, r.at = digest, s.Now
		return name(s.Now)
	default:
		r.drop(s.Now, errors.New("the one before is still being written: the disk is slow"))
		return ""
	}
}

// Run writes what is offered until the context ends, and then what waits.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case s := <-r.queue:
			r.keep(s)
		case <-ctx.Done():
			select {
			case s := <-r.queue:
				r.keep(s)
			default:
			}
			return
		}
	}
}

func (r *Recorder) keep(s snapshot.Snapshot) {
	if err := write(r.options.Dir, s); err != nil {
		r.drop(s.Now, err)
	} else {
		r.written.Inc()
	}
	total, err := prune(r.options.Dir, r.options.MaxBytes, s.Now.Add(-r.options.MaxAge))
	if err != nil {
		r.options.Log.Warn("the record of decisions may grow beyond its bounds", slog.String("folder", r.options.Dir), slog.Any("error", err))
		return
	}
	r.bytes.Set(float64(total))
}

func (r *Recorder) drop(at time.Time, why error) {
	r.dropped.Inc()
	r.options.Log.Warn("a snapshot is not recorded; repairs go on", slog.Time("of", at), slog.String("folder", r.options.Dir), slog.Any("error", why))
}

// decided is what tells one verdict from another: who is to get what and why, not in which
// words, which have ages in them, and not when.
func decided(v snapshot.Verdict) ([sha256.Size]byte, error) {
	v.Now, v.NextCheck = time.Time{}, nil
	v.Decisions, v.Repairs = slices.Clone(v.Decisions), slices.Clone(v.Repairs)
	v.Policies, v.Budgets, v.Incidents = slices.Clone(v.Policies), slices.Clone(v.Budgets), slices.Clone(v.Incidents)
	for i := range v.Decisions {
		v.Decisions[i].Message = ""
	}
	for i := range v.Repairs {
		v.Repairs[i].Message = ""
	}
	for i := range v.Policies {
		v.Policies[i].Message = ""
	}
	for i := range v.Budgets {
		v.Budgets[i].Message, v.Budgets[i].Tightest = "", nil
	}
	for i := range v.Incidents {
		v.Incidents[i].Message = ""
	}
	raw, err := json.Marshal(v)
	return sha256.Sum256(raw), err
}
