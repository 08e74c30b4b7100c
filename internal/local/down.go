package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/proc"
)

// DownResult is what an end of a fleet came to.
type DownResult struct {
	// Found says whether there was anything to end or remove.
	Found bool
	// Killed are processes that had to be killed because the supervisor did not
	// end them, or was itself gone.
	Killed []proc.Process
	// Kept says that the state folder is still there.
	Kept bool
	// Took is how long it took.
	Took time.Duration
}

// Down ends the fleet, proves that no process and no listening port of it is
// left, and removes the state folder, or with keep only its run-time files. It
// touches nothing in a folder that is not a fleet's.
func (f *Fleet) Down(ctx context.Context, keep bool) (DownResult, error) {
	begun := time.Now()
	l := f.Layout
	if found, err := checkRemovable(l); err != nil || !found {
		return DownResult{}, err
	}
	result := DownResult{Found: true, Kept: keep}
	lock, forced, err := endSupervisor(ctx, l)
	if err != nil {
		return result, err
	}
	defer func() { _ = lock.Close() }() // there is none when somebody else removed the folder
	left, err := proc.KillMarked(layout.FleetEnv, l.Dir, time.Now().Add(killTimeout))
	result.Killed = append(forced, left...)
	if err != nil {
		return result, err
	}
	if err := awaitSilence(ctx, l); err != nil {
		return result, err
	}
	if keep {
		err = removeRuntime(l)
		result.Kept = exists(l.Dir)
	} else {
		err = removeState(l)
	}
	result.Took = time.Since(begun)
	return result, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// endSupervisor ends the supervisor, or the program that is about to start one,
// with force when it does not follow, and returns with the state folder locked
// and those whom it killed. A folder that somebody else removed meanwhile needs
// no lock, and gets none.
func endSupervisor(ctx context.Context, l layout.Layout) (*os.File, []proc.Process, error) {
	told := 0
	lock, err := awaitLock(ctx, l, stopTimeout, func() (err error) {
		told, err = tellToEnd(l, told)
		return err
	})
	if !errors.Is(err, errLocked) {
		return lock, nil, err
	}
	killed, err := proc.KillMarked(layout.FleetEnv, l.Dir, time.Now().Add(killTimeout))
	if err != nil {
		return nil, killed, err
	}
	// The kernel lets go of the lock a moment after it has killed the holder.
	lock, err = awaitLock(ctx, l, unlockTimeout, func() error { return nil })
	if errors.Is(err, errLocked) {
		err = fmt.Errorf("another pharos%s is starting or stopping the fleet in %s and does not end: end that process, and run this again", holders(l), l.Dir)
	}
	return lock, killed, err
}

// awaitLock asks for the lock until the time is over, and calls each before it
// asks again.
func awaitLock(ctx context.Context, l layout.Layout, timeout time.Duration, each func() error) (*os.File, error) {
	deadline := time.Now().Add(timeout)
	for {
		lock, err := takeLock(l)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if !errors.Is(err, errLocked) || time.Now().After(deadline) {
			return lock, err
		}
		if err := each(); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("ending the fleet: %w", ctx.Err())
		case <-time.After(lookInterval):
		}
	}
}

// tellToEnd tells the supervisor to end, once, and returns whom it told. Where
// there is none yet, it tells the program that starts the fleet; a start whose
// supervisor ends gives up by itself.
func tellToEnd(l layout.Layout, told int) (int, error) {
	if pid := supervisorPID(l); pid != 0 && pid != told {
		return pid, proc.Signal(pid, layout.FleetEnv, l.Dir, syscall.SIGTERM)
	}
	if told != 0 {
		return told, nil
	}
	pid := starterPID(l)
	if pid == 0 {
		return 0, nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return 0, fmt.Errorf("ending the start of the fleet, process %d: %w", pid, err)
	}
	return pid, nil
}

// awaitSilence proves that nothing listens on the fleet's addresses. A process
// that was killed a moment ago is no longer known as the fleet's while the
// kernel still takes down its sockets, so the first answers do not count.
func awaitSilence(ctx context.Context, l layout.Layout) error {
	deadline := time.Now().Add(silenceTimeout)
	for {
		err := proveSilence(l)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(lookInterval):
		}
	}
}

// proveSilence fails when something listens on an address of the fleet.
func proveSilence(l layout.Layout) error {
	all, err := proc.Listeners()
	if err != nil {
		return err
	}
	var loud []string
	for _, at := range all {
		if !ours(l, at.Address) {
			continue
		}
		who := "a program that cannot be seen from here"
		if p, ok := proc.Owner(at.Address); ok {
			who = proc.Summary([]proc.Process{p})
		}
		loud = append(loud, fmt.Sprintf("%s listens on %s", who, at.Address))
	}
	if len(loud) > 0 {
		return fmt.Errorf("the fleet's processes are gone, but addresses of it are in use by others: %s", strings.Join(loud, "; "))
	}
	return nil
}

func ours(l layout.Layout, at netip.AddrPort) bool {
	for _, listener := range l.Listeners() {
		if listener.Address == at.String() {
			return true
		}
	}
	for _, c := range layout.Clusters() {
		if l.ServiceCIDR(c).Contains(at.Addr()) || (c.Role != layout.RoleBusiness && l.PodCIDR(c).Contains(at.Addr())) {
			return true
		}
	}
	return false
}

// removeRuntime removes what means nothing once the fleet is down.
func removeRuntime(l layout.Layout) error {
	var all error
	for _, path := range l.RuntimeFiles() {
		all = errors.Join(all, os.RemoveAll(path))
	}
	if all != nil {
		return fmt.Errorf("removing run-time files: %w", all)
	}
	return nil
}

// removeState removes the state folder, but only what a fleet writes there: a
// folder given by mistake keeps what else is in it.
func removeState(l layout.Layout) error {
	var all error
	for _, path := range append(l.RuntimeFiles(), l.StateFiles()...) {
		all = errors.Join(all, os.RemoveAll(path))
	}
	if all != nil {
		return fmt.Errorf("removing state folder: %w", all)
	}
	if err := os.Remove(l.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		if entries, reading := os.ReadDir(l.Dir); reading == nil && len(entries) == 0 {
			return nil // a mount point, or in a folder of somebody else's: empty is as good
		}
		return fmt.Errorf("removing state folder: it holds files that are not the fleet's: %w", err)
	}
	// The folder above is ours as well when it is the default and empty.
	if filepath.Base(filepath.Dir(l.Dir)) == "pharos" {
		_ = os.Remove(filepath.Dir(l.Dir))
	}
	return nil
}
