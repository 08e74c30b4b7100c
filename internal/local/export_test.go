package local

import (
	"context"
	"io"

	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

// For the tests in package local_test.
var (
	CheckPorts       = checkPorts
	CheckStateFolder = checkStateFolder
	CheckSpace       = checkSpace
	TakeLock         = takeLock
	Explain          = explain
	RemoveState      = removeState
	ErrLocked        = errLocked
)

// Claim makes the state folder a fleet's, as a start does first, and returns how
// to let go of it.
func Claim(f *Fleet) (release func(), err error) {
	s := &start{layout: f.Layout, fleet: f, say: newTeller(nil)}
	lock, _, err := s.claim()
	return func() { _ = lock.Close() }, err
}

// Undo ends a start that made its state folder and then failed.
func Undo(ctx context.Context, f *Fleet, cause error) error {
	s := &start{layout: f.Layout, fleet: f, say: newTeller(nil)}
	return s.undo(ctx, nil, true, explain(cause, f.Layout))
}

// BringUp starts the program that stands in f's folder for the supervisor, waits
// until everything is ready, and undoes the start when that fails.
func BringUp(ctx context.Context, f *Fleet, to io.Writer) error {
	s := &start{layout: f.Layout, fleet: f, say: newTeller(to)}
	lock, fresh, err := s.claim()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	h, err := startSupervisor(f.Layout, lock)
	if err != nil {
		return err
	}
	if err := s.bringUp(ctx, h); err != nil {
		return s.undo(ctx, h, fresh, err)
	}
	return nil
}

// Tell says what a start says when the status goes from one to the other.
func Tell(before, now supervisor.Status, to io.Writer) {
	w := &watcher{say: newTeller(to), status: before}
	w.tell(now)
}
