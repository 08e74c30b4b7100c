package local

import "context"

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
