package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Step is one step of the loop as it was seen.
type Step struct {
	// Name of the step, as in the issue of the loop: "node lost" and so on.
	Name string `json:"name"`
	// Seconds since the fault, or nil when the step has not come.
	Seconds *float64 `json:"seconds"`
	// Detail says what was seen, or the last error met while looking.
	Detail string `json:"detail,omitempty"`
}

// Timeline is one turn of the loop.
type Timeline struct {
	Fault   string    `json:"fault"`
	FaultAt time.Time `json:"faultAt"`
	Steps   []Step    `json:"steps"`
	Closed  bool      `json:"closed"`
}

// Missing names the first step that has not come, in the order of cause and
// effect, or "" when all have.
func (t *Timeline) Missing() string {
	for _, s := range t.Steps {
		if s.Seconds == nil {
			return s.Name
		}
	}
	return ""
}

// Seconds returns when the named step was seen, in seconds since the fault.
func (t *Timeline) Seconds(name string) (float64, bool) {
	for _, s := range t.Steps {
		if s.Name == name && s.Seconds != nil {
			return *s.Seconds, true
		}
	}
	return 0, false
}

// Options say what to watch.
type Options struct {
	World  World
	Target Target
	// Fault in words.
	Fault string
	// Timeout for the whole loop, from the fault on.
	Timeout time.Duration
	// Poll is how often to look. Zero means twice a second.
	Poll time.Duration
	// Seen is called for each step when it is first seen. May be nil.
	Seen func(Step)
}

// ErrNotClosed means that a step of the loop did not come in time.
var ErrNotClosed = errors.New("the loop did not close")

// Watch looks until every step was seen, the timeout has passed or ctx is done.
// The timeline is valid in every case.
func Watch(ctx context.Context, o Options) (*Timeline, error) {
	if o.Poll == 0 {
		o.Poll = 500 * time.Millisecond
	}
	all := steps()
	line := &Timeline{Fault: o.Fault, FaultAt: o.Target.Since, Steps: make([]Step, len(all))}
	for i, s := range all {
		line.Steps[i].Name = s.name
	}
	ctx, cancel := context.WithDeadline(ctx, o.Target.Since.Add(o.Timeout))
	defer cancel()
	tick := time.NewTicker(o.Poll)
	defer tick.Stop()
	for {
		look(ctx, o, all, line)
		if line.Closed = line.Missing() == ""; line.Closed {
			return line, nil
		}
		select {
		case <-ctx.Done():
			return line, notClosed(ctx, o, line)
		case <-tick.C:
		}
	}
}

// look checks the steps not seen yet. A node that is Ready counts as repaired
// only once it was lost, a repair as verified once its check was seen, which the
// record may say between two reads of it, and a resolved alert once one was delivered.
func look(ctx context.Context, o Options, all []step, line *Timeline) {
	for i := range all {
		if line.Steps[i].Seconds != nil || !due(line, all[i].name) {
			continue
		}
		detail, err := all[i].see(ctx, o.World, o.Target)
		switch {
		case err != nil && ctx.Err() == nil:
			line.Steps[i].Detail = err.Error()
		case err == nil && detail != "":
			seconds := time.Since(o.Target.Since).Seconds()
			line.Steps[i].Seconds, line.Steps[i].Detail = &seconds, detail
			if o.Seen != nil {
				o.Seen(line.Steps[i])
			}
		}
	}
}

// due says whether a step can come at all: these two states also hold before
// the fault.
func due(line *Timeline, name string) bool {
	after := map[string]string{"node Ready": "node lost", "verified": "node check passed", "alert resolved": "alert delivered"}
	before, ok := after[name]
	if !ok {
		return true
	}
	_, seen := line.Seconds(before)
	return seen
}

func notClosed(ctx context.Context, o Options, line *Timeline) error {
	name := line.Missing()
	var last string
	for _, s := range line.Steps {
		if s.Name == name && s.Detail != "" {
			last = "; last error: " + strings.TrimSpace(s.Detail)
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: step %q did not come within %s of the fault%s", ErrNotClosed, name, o.Timeout, last)
	}
	return fmt.Errorf("interrupted while waiting for step %q: %w", name, ErrNotClosed)
}
