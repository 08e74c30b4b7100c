package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/binaries"
	"github.com/pharos-fleet/pharos/internal/local/components"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/proc"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
	"github.com/pharos-fleet/pharos/internal/version"
)

// defaultReadyTimeout bounds the start, without the building of binaries.
const defaultReadyTimeout = 5 * time.Minute

// Options of a start.
type Options struct {
	// Binaries say where the servers come from.
	Binaries binaries.Options
	// Progress receives a line for each step; nil drops them.
	Progress io.Writer
	// ReadyTimeout bounds the start, without the building of binaries. Zero means five minutes.
	ReadyTimeout time.Duration
}

// Up starts the fleet and returns when all of it is ready. When it fails or ctx
// ends, everything that it started is ended, and a state folder that it made is
// removed unless its logs explain the failure.
func (f *Fleet) Up(ctx context.Context, o Options) error {
	s := &start{layout: f.Layout, options: o, fleet: f, say: newTeller(o.Progress)}
	return s.run(ctx)
}

var errInterrupted = errors.New("interrupted: the fleet was not started, and nothing is left of it")

// start is one start of a fleet.
type start struct {
	layout  layout.Layout
	options Options
	fleet   *Fleet
	say     *teller
}

func (s *start) run(ctx context.Context) (err error) {
	lock, fresh, err := s.claim()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := s.check(); err != nil {
		return errors.Join(err, s.forget(fresh))
	}
	found, err := binaries.Ensure(ctx, s.options.Binaries)
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if err != nil {
		return errors.Join(err, s.forget(fresh))
	}
	begun := time.Now()
	handle, err := s.launch(lock, found)
	if err == nil {
		err = s.bringUp(ctx, handle)
	}
	if err != nil {
		return s.undo(ctx, handle, fresh, explain(err, s.layout))
	}
	s.say.line("fleet is ready after %.0f s", time.Since(begun).Seconds())
	return nil
}

// claim makes the state folder this start's, and says whether it was nobody's
// before. A folder that is refused stays as it was.
func (s *start) claim() (lock *os.File, fresh bool, err error) {
	if err := checkStateFolder(s.layout); err != nil {
		return nil, false, err
	}
	if err := makeStateFolder(s.layout); err != nil {
		return nil, false, err
	}
	lock, err = takeLock(s.layout)
	if errors.Is(err, errLocked) {
		return nil, false, runningError(s.layout)
	}
	if err != nil {
		return nil, false, err
	}
	if fresh, err = s.mark(); err == nil {
		err = s.clean()
	}
	if err != nil {
		return nil, false, errors.Join(explain(err, s.layout), s.forget(fresh), lock.Close())
	}
	return lock, fresh, nil
}

// mark writes the fleet file before anything else, so that whatever this start
// leaves, however it ends, can be told for a fleet's and removed, and so that an
// end knows whom to tell.
func (s *start) mark() (fresh bool, err error) {
	_, err = readRecord(s.layout)
	fresh = errors.Is(err, errNoFleet)
	if err != nil && !fresh {
		return false, err
	}
	return fresh, newRecord(s.layout, nil).write(s.layout)
}

// clean ends what a fleet that was killed has left.
func (s *start) clean() error {
	killed, err := proc.KillMarked(layout.FleetEnv, s.layout.Dir, time.Now().Add(killTimeout))
	if err == nil && len(killed) > 0 {
		s.say.line("an earlier fleet was not stopped: ended what was left of it, %s", proc.Summary(killed))
	}
	return err
}

func runningError(l layout.Layout) error {
	if pid := supervisorPID(l); pid != 0 {
		return fmt.Errorf("the fleet is already running (supervisor process %d): look with `%s`, stop it with `%s`", pid, statusCommand(l), downCommand(l))
	}
	return fmt.Errorf("another pharos%s is starting or stopping the fleet in %s: wait for it, or stop it with `%s`", holders(l), l.Dir, downCommand(l))
}

// check finds what would make a start fail, before anything is started.
func (s *start) check() error {
	if err := checkSpace(s.layout.Dir); err != nil {
		return err
	}
	return checkPorts(s.layout)
}

// launch writes what the supervisor needs and starts it.
func (s *start) launch(lock *os.File, found map[string]string) (*handle, error) {
	robot, err := s.prepare(found)
	if err != nil {
		return nil, err
	}
	plan := components.Plan(components.Options{
		Layout: s.layout, Binaries: found, PharosImage: version.Image, Robot: robot,
	})
	if err := supervisor.WritePlan(s.layout.PlanFile(), plan); err != nil {
		return nil, err
	}
	return startSupervisor(s.layout, lock)
}

// undo ends what was started. An interrupted start leaves nothing, nor does one
// that filled the disk; another that failed leaves the logs, which its error
// names. What somebody else ended is his to remove.
func (s *start) undo(ctx context.Context, h *handle, fresh bool, cause error) error {
	s.say.line("ending what was started")
	var undone error
	if h != nil {
		undone = h.abandon()
	}
	_, killing := proc.KillMarked(layout.FleetEnv, s.layout.Dir, time.Now().Add(killTimeout))
	undone = errors.Join(undone, killing)
	_, full := errors.AsType[diskFullError](cause)
	switch {
	case errors.Is(cause, errStopped):
		return errors.Join(errStopped, undone)
	case ctx.Err() != nil && fresh:
		return errors.Join(errInterrupted, undone, s.forget(fresh))
	case full && fresh:
		return errors.Join(fmt.Errorf("%w; nothing is left of the start", cause), undone, s.forget(fresh))
	}
	return errors.Join(fmt.Errorf("%w; logs are in %s, and `%s` removes them", cause, s.layout.LogDir(), downCommand(s.layout)), undone)
}

// forget removes a state folder that this start made.
func (s *start) forget(fresh bool) error {
	if !fresh {
		return nil
	}
	return removeState(s.layout)
}
