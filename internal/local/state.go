package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/local/proc"
	"github.com/pharos-fleet/pharos/internal/version"
)

// record is what the fleet file holds.
type record struct {
	SchemaVersion int       `json:"schemaVersion"`
	Instance      int       `json:"instance"`
	Pharos        string    `json:"pharos"`
	StartedAt     time.Time `json:"startedAt"`
	// ReadyAt is when everything had come up; nil while the fleet starts.
	ReadyAt *time.Time `json:"readyAt,omitempty"`
	// Binaries are the servers that the fleet runs, by name.
	Binaries map[string]string `json:"binaries,omitempty"`
}

func newRecord(l layout.Layout, binaries map[string]string) record {
	return record{
		SchemaVersion: layout.SchemaVersion,
		Instance:      l.Instance,
		Pharos:        version.Version,
		StartedAt:     time.Now(),
		Binaries:      binaries,
	}
}

func (r record) write(l layout.Layout) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding fleet file: %w", err)
	}
	return pki.WriteSecret(l.FleetFile(), b)
}

// errNoFleet means that the state folder holds no fleet.
var errNoFleet = errors.New("no fleet")

func readRecord(l layout.Layout) (record, error) {
	b, err := os.ReadFile(l.FleetFile())
	if errors.Is(err, os.ErrNotExist) {
		return record{}, errNoFleet
	}
	if err != nil {
		return record{}, fmt.Errorf("reading fleet file: %w", err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("reading fleet file %s: %w", l.FleetFile(), err)
	}
	return r, nil
}

// checkStateFolder refuses a folder that another version of the program made,
// that belongs to another instance, or that holds something else.
func checkStateFolder(l layout.Layout) error {
	r, err := readRecord(l)
	if errors.Is(err, errNoFleet) {
		return checkForeign(l)
	}
	if err != nil {
		return err
	}
	if r.SchemaVersion != layout.SchemaVersion {
		return fmt.Errorf("the state folder %s has version %d (from pharos %s) and this pharos reads version %d: remove it with `%s`, or use the pharos that made it",
			l.Dir, r.SchemaVersion, r.Pharos, layout.SchemaVersion, downCommand(l))
	}
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
		if e.Name() != lockName(l) {
			return fmt.Errorf("the state folder %s is not empty and holds no fleet: give another --state-dir", l.Dir)
		}
	}
	return nil
}

func lockName(l layout.Layout) string { return strings.TrimPrefix(l.LockFile(), l.Dir+"/") }

// errLocked means that a fleet runs, starts or stops in the state folder.
var errLocked = errors.New("locked")

// takeLock locks the state folder for as long as the file, or a process that
// inherited it, is open.
func takeLock(l layout.Layout) (*os.File, error) {
	if err := os.MkdirAll(l.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making state folder: %w", err)
	}
	f, err := os.OpenFile(l.LockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = stillThere(f, l)
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking %s: %w", l.LockFile(), err)
	}
	return f, nil
}

// stillThere refuses a lock on a file that was removed between opening and
// locking it: another program would lock a new one.
func stillThere(f *os.File, l layout.Layout) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(l.LockFile())
	if err != nil || !os.SameFile(mine, there) {
		return unix.EWOULDBLOCK
	}
	return nil
}

// supervisorPID is the process id of the supervisor, or zero when none is alive.
func supervisorPID(l layout.Layout) int {
	b, err := os.ReadFile(l.PIDFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || !proc.IsMarked(pid, layout.FleetEnv, l.Dir) {
		return 0
	}
	return pid
}

// flags are what a command needs to find the fleet again.
func flags(l layout.Layout) string {
	if def, err := layout.DefaultDir(l.Instance); err != nil || def != l.Dir {
		return fmt.Sprintf(" --instance %d --state-dir %q", l.Instance, l.Dir)
	}
	if l.Instance != 0 {
		return fmt.Sprintf(" --instance %d", l.Instance)
	}
	return ""
}

func downCommand(l layout.Layout) string   { return "pharos down" + flags(l) }
func statusCommand(l layout.Layout) string { return "pharos status" + flags(l) }
