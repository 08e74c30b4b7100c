package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/proc"
)

// ownerOnly is the mode of the state folder. It holds keys, tokens and
// kubeconfigs, and what lies below it need not be closed again.
const ownerOnly = 0o700

// checkStateFolder refuses a folder that another version of the program made,
// that belongs to another instance, or that holds something else. It changes
// nothing there.
func checkStateFolder(l layout.Layout) error {
	_, err := readOwn(l)
	if errors.Is(err, errNoFleet) {
		return checkForeign(l)
	}
	return err
}

// readOwn reads the record of a fleet that is of this instance and of this
// version of the program. Its errors say what to do with another.
func readOwn(l layout.Layout) (record, error) {
	r, err := readRecord(l)
	switch {
	case errors.Is(err, errNoFleet), errors.Is(err, errUnusable):
		return r, err
	case err != nil:
		return r, fmt.Errorf("%w: end what still runs of the fleet with `%s`, and if that refuses, remove the folder or give another --state-dir", err, downCommand(l))
	case r.SchemaVersion != layout.SchemaVersion:
		return r, fmt.Errorf("the state folder %s has version %d (from pharos %s) and this pharos reads version %d: remove it with `%s`, or use the pharos that made it",
			l.Dir, r.SchemaVersion, r.Pharos, layout.SchemaVersion, downCommand(l))
	}
	return r, checkInstance(l, r)
}

func checkInstance(l layout.Layout, r record) error {
	if r.Instance != l.Instance {
		return fmt.Errorf("the state folder %s belongs to instance %d: give --instance %d, or another --state-dir", l.Dir, r.Instance, r.Instance)
	}
	return nil
}

func checkForeign(l layout.Layout) error {
	entries, err := os.ReadDir(l.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading state folder: %w", err)
	}
	for _, e := range entries {
		if !emptyLock(l, e) {
			return fmt.Errorf("the state folder %s is not empty and holds no fleet: give another --state-dir", l.Dir)
		}
	}
	return nil
}

// emptyLock says whether the entry is what a start leaves that was killed before
// it could write its mark.
func emptyLock(l layout.Layout, e os.DirEntry) bool {
	info, err := e.Info()
	return err == nil && e.Name() == filepath.Base(l.LockFile()) && info.Mode().IsRegular() && info.Size() == 0
}

// checkRemovable says whether the folder holds a fleet of this instance, whatever
// its version, and fails when it holds anything else: much of what an end
// removes has names, such as bin and logs, that other people's folders have too.
func checkRemovable(l layout.Layout) (found bool, err error) {
	r, err := readRecord(l)
	if err == nil {
		return true, checkInstance(l, r)
	}
	// A process that bears the folder's name says as surely whose it is.
	if alive, listing := proc.Marked(layout.FleetEnv, l.Dir); listing == nil && len(alive) > 0 {
		return true, nil
	}
	if errors.Is(err, errUnusable) {
		return false, err
	}
	if !errors.Is(err, errNoFleet) {
		return false, fmt.Errorf("nothing runs of a fleet in %s, and nothing is removed there, because it cannot be told whether a fleet made it: %w: if one did, remove the folder yourself",
			l.Dir, err)
	}
	if checkForeign(l) != nil {
		return false, fmt.Errorf("the folder %s holds no fleet, so nothing in it is removed: give the --state-dir that `pharos up` was given", l.Dir)
	}
	return false, nil
}

// makeStateFolder makes the state folder, and closes to others one that was there.
func makeStateFolder(l layout.Layout) error {
	if err := os.MkdirAll(l.Dir, ownerOnly); err != nil {
		return unusable(l, err)
	}
	info, err := os.Stat(l.Dir)
	if err != nil {
		return fmt.Errorf("making state folder: %w", err)
	}
	if info.Mode().Perm()&^ownerOnly == 0 {
		return nil
	}
	if err := os.Chmod(l.Dir, ownerOnly); err != nil {
		return fmt.Errorf("closing the state folder, which will hold keys, to other users (or give another --state-dir): %w", err)
	}
	return nil
}
