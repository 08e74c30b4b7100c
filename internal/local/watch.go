package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

// errStopped is the end of a start whose supervisor ended as it does when it is
// told to, while this program did not tell it.
var errStopped = errors.New("the fleet was stopped while it started")

// watcher follows the supervisor's status during a start.
type watcher struct {
	layout     layout.Layout
	say        *teller
	supervisor *handle
	// installed is set once there is nothing more to do but to wait.
	installed atomic.Bool

	mu     sync.Mutex
	status supervisor.Status
	change chan struct{}
}

// run follows the status until Pharos is installed and every component is ready.
// It fails when the supervisor ends or a component ends again and again.
func (w *watcher) run(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.supervisor.exited:
			return w.ended()
		case <-tick.C:
		}
		status, err := supervisor.ReadStatus(w.layout.StatusFile())
		if err != nil {
			continue // not written yet
		}
		w.tell(status)
		w.set(status)
		if err := w.hopelessness(status); err != nil {
			return err
		}
		if ok, _ := status.Ready(); ok && w.installed.Load() {
			return nil
		}
	}
}

// ended says how the supervisor ended. It has ended already.
func (w *watcher) ended() error {
	if w.supervisor.err == nil {
		return errStopped
	}
	return fmt.Errorf("the supervisor ended: %w%s", w.supervisor.err, tail(w.layout, "supervisor"))
}

// unlessEnded returns err, or how the supervisor ended where that explains it: an
// API server that went away with the fleet is no failure of its own.
func (w *watcher) unlessEnded(err error) error {
	wait := time.Duration(0)
	status, reading := supervisor.ReadStatus(w.layout.StatusFile())
	if reading == nil && slices.ContainsFunc(status.Components, stopped) {
		wait = stopTimeout // it is ending
	}
	select {
	case <-w.supervisor.exited:
		return w.ended()
	case <-time.After(wait):
		return err
	}
}

func (w *watcher) hopelessness(status supervisor.Status) error {
	for _, c := range status.Components {
		if c.Restarts >= hopeless && c.State != supervisor.StateReady {
			return fmt.Errorf("%s ended %d times, last: %s%s", c.Name, c.Restarts, c.Message, tail(w.layout, c.Name))
		}
	}
	return nil
}

// tell prints what became ready, ended, or fell silent since the last look.
func (w *watcher) tell(now supervisor.Status) {
	ready := 0
	for _, c := range now.Components {
		if c.State == supervisor.StateReady {
			ready++
		}
	}
	for _, c := range now.Components {
		before, _ := w.status.Component(c.Name)
		switch {
		case c.Restarts > before.Restarts:
			w.say.line("%s: %s; starting it again", c.Name, c.Message)
		case c.State == supervisor.StateReady && before.State != supervisor.StateReady:
			w.say.line("%s is ready (%d of %d)", c.Name, ready, len(now.Components))
		case c.State == supervisor.StateUnready && before.State != supervisor.StateUnready:
			w.say.line("%s was ready and does not answer any more (%d of %d are ready)", c.Name, ready, len(now.Components))
		}
	}
}

func (w *watcher) set(status supervisor.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
	close(w.change)
	w.change = make(chan struct{})
}

func (w *watcher) get() (supervisor.Status, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status, w.change
}

// await waits until a component is ready.
func (w *watcher) await(ctx context.Context, component string) error {
	for {
		status, change := w.get()
		if c, ok := status.Component(component); ok && c.State == supervisor.StateReady {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", component, ctx.Err())
		case <-change:
		}
	}
}
