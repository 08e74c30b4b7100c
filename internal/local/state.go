package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
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
	// Starter is the process that starts the fleet; zero once it has.
	Starter int `json:"starter,omitempty"`
	// Binaries are the servers that the fleet runs, by name.
	Binaries map[string]string `json:"binaries,omitempty"`
}

func newRecord(l layout.Layout, binaries map[string]string) record {
	return record{
		SchemaVersion: layout.SchemaVersion,
		Instance:      l.Instance,
		Pharos:        version.Version,
		StartedAt:     time.Now(),
		Starter:       os.Getpid(),
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
		return record{}, unusable(l, err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("reading fleet file %s: %w", l.FleetFile(), err)
	}
	if !bearsMark(b) {
		return record{}, fmt.Errorf("reading fleet file %s: it is not one that pharos wrote", l.FleetFile())
	}
	return r, nil
}

// errUnusable means that no fleet can be in the state folder.
var errUnusable = errors.New("the state folder cannot be used")

func unusable(l layout.Layout, err error) error {
	return fmt.Errorf("%w: %w: give another --state-dir than %s", errUnusable, err, l.Dir)
}

// bearsMark says whether a fleet file is ours: each version of it names its
// schema and its instance, be they zero.
func bearsMark(b []byte) bool {
	var mark struct {
		SchemaVersion *int `json:"schemaVersion"`
		Instance      *int `json:"instance"`
	}
	return json.Unmarshal(b, &mark) == nil && mark.SchemaVersion != nil && mark.Instance != nil
}

// errLocked means that a fleet runs, starts or stops in the state folder.
var errLocked = errors.New("locked")

// takeLock locks the state folder, which must be there, for as long as the file,
// or a process that inherited it, is open. Callers make sure first that the
// folder is a fleet's: the lock is a file, and strangers want none of ours.
func takeLock(l layout.Layout) (*os.File, error) {
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

// locked says whether somebody holds the lock. It makes no lock where there is none.
func locked(l layout.Layout) bool {
	f, err := os.Open(l.LockFile())
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
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

// holders names for a sentence the other processes that have the lock; empty
// when none can be seen.
func holders(l layout.Layout) string {
	all, err := proc.Holding(l.LockFile())
	if err != nil || len(all) == 0 {
		return ""
	}
	return ", " + proc.Summary(all) + ","
}

// starterPID is the process id of a pharos that starts the fleet and has its
// lock, or zero when there is none.
func starterPID(l layout.Layout) int {
	r, err := readRecord(l)
	if err != nil || r.Starter == 0 {
		return 0
	}
	all, err := proc.Holding(l.LockFile())
	if err != nil || !slices.ContainsFunc(all, func(p proc.Process) bool { return p.PID == r.Starter }) {
		return 0
	}
	return r.Starter
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
func upCommand(l layout.Layout) string     { return "pharos up" + flags(l) }
