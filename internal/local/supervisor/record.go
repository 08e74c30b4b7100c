package supervisor

import (
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// recorder keeps the status and writes each change to the status file and the
// events file. A full disk must not end the fleet: what cannot be written is
// logged, and the next change writes all of it again.
type recorder struct {
	statusFile, eventsFile string
	log                    *slog.Logger

	mu     sync.Mutex
	status Status
}

func newRecorder(o Options, plan Plan) *recorder {
	now := time.Now()
	r := &recorder{
		statusFile: o.StatusFile,
		eventsFile: o.EventsFile,
		log:        o.Log,
		status:     Status{PID: os.Getpid(), StartedAt: now},
	}
	for _, c := range plan.Components {
		r.status.Components = append(r.status.Components, ComponentStatus{Name: c.Name, State: StateWaiting, Since: now})
	}
	return r
}

func (r *recorder) write() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return writeStatus(r.statusFile, r.status)
}

func (r *recorder) snapshot() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Components = slices.Clone(s.Components)
	return s
}

// set changes one component's status and records the event that goes with it.
func (r *recorder) set(name string, reason Reason, message string, change func(*ComponentStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	i := slices.IndexFunc(r.status.Components, func(c ComponentStatus) bool { return c.Name == name })
	change(&r.status.Components[i])
	r.status.Components[i].Since = now
	r.log.Info("component changed", slog.String("component", name),
		slog.String("reason", string(reason)), slog.String("message", message))
	if err := writeStatus(r.statusFile, r.status); err != nil {
		r.log.Error("status not written", slog.Any("error", err))
	}
	if err := appendEvent(r.eventsFile, Event{Time: now, Component: name, Reason: reason, Message: message}); err != nil {
		r.log.Error("event not written", slog.Any("error", err))
	}
}

func appendEvent(path string, e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}
