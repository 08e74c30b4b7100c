package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Folders of a spool. A notification is one file that moves between them, so
// that it is in exactly one of them whatever line we crash on.
const (
	queueDir = "queue" // still to be sent
	sentDir  = "sent"  // delivered; the memory of de-duplication
	deadDir  = "dead"  // refused for good, or unreadable; kept for a person
	tempDir  = "tmp"   // not yet answered for
)

// maxPending bounds one robot's queue. Beyond it Alertmanager is told to retry.
const maxPending = 10_000

var errQueueFull = errors.New("the queue of this robot is full")

// entry is a notification in a spool.
type entry struct {
	name string // <sequence number>-<identity>.json
	notification
}

// spool is one robot's durable queue. It is safe for concurrent use.
type spool struct {
	dir    string
	window time.Duration
	log    *slog.Logger

	mu      sync.Mutex
	next    uint64               // sequence number of the next entry
	pending []entry              // the queue folder, oldest first
	seen    map[string]time.Time // identity to when it was received
	sent    map[string]time.Time // names in the sent folder to when they were received
	ends    ends
	dead    int
	// refusing is the code with which the newest notification was refused for good.
	// Empty means that it was taken, or that there was none.
	refusing string
}

// openSpool reads what an earlier run left.
func openSpool(dir string, window time.Duration, log *slog.Logger) (*spool, error) {
	s := &spool{dir: dir, window: window, log: log, seen: map[string]time.Time{}, sent: map[string]time.Time{}, ends: newEnds()}
	// What lies in the temporary folder was never answered for: Alertmanager asks again.
	if err := os.RemoveAll(filepath.Join(dir, tempDir)); err != nil {
		return nil, fmt.Errorf("clearing the spool's temporary folder: %w", err)
	}
	for _, sub := range []string{queueDir, sentDir, deadDir, tempDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("creating the spool: %w", err)
		}
	}
	if err := errors.Join(s.loadTold(), s.loadRefusing()); err != nil {
		return nil, err
	}
	for _, sub := range []string{sentDir, queueDir, deadDir} {
		if err := s.load(sub); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *spool) load(sub string) error {
	files, err := os.ReadDir(filepath.Join(s.dir, sub)) // sorted by name, hence by sequence
	if err != nil {
		return fmt.Errorf("reading the spool: %w", err)
	}
	for _, f := range files {
		number, identity, ok := splitName(f.Name())
		if !ok {
			continue // not ours
		}
		s.next = max(s.next, number+1)
		if sub == deadDir {
			s.dead++
			continue
		}
		if err := s.loadEntry(sub, f.Name(), identity); err != nil {
			return err
		}
	}
	return nil
}

// loadEntry takes one file into memory. An unreadable one is put aside: one
// broken file must not keep every alert from being told.
func (s *spool) loadEntry(sub, name, identity string) error {
	data, err := os.ReadFile(filepath.Join(s.dir, sub, name))
	if err != nil {
		return fmt.Errorf("reading the spool: %w", err)
	}
	e := entry{name: name}
	if err := errors.Join(json.Unmarshal(data, &e.notification), e.validate()); err != nil {
		s.log.Error("unreadable notification put aside", slog.String("file", name), slog.Any("error", err))
		return s.move(name, sub, deadDir)
	}
	s.seen[identity] = later(s.seen[identity], e.ReceivedAt)
	if sub == queueDir {
		s.pending = append(s.pending, e)
		s.ends.queue(e)
	} else {
		s.sent[name] = e.ReceivedAt
		s.ends.finish(e, true)
	}
	return nil
}

func splitName(name string) (number uint64, identity string, ok bool) {
	digits, identity, ok := strings.Cut(strings.TrimSuffix(name, ".json"), "-")
	if !ok || !strings.HasSuffix(name, ".json") {
		return 0, "", false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, identity, err == nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// add makes a notification durable, without the ends that were told before. It
// reports false, and keeps nothing, when the same was received within the window
// or is still waiting, and when nothing is left to be told.
func (s *spool) add(n notification) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(n.ReceivedAt)
	identity := n.identity() // of all that was said, which is what a peer says, too
	if s.known(identity) {
		return false, nil
	}
	n.Alerts = s.ends.news(n)
	if len(n.Alerts) == 0 || s.known(n.identity()) {
		return false, nil
	}
	if len(s.pending) >= maxPending {
		return false, errQueueFull
	}
	e := entry{name: fmt.Sprintf("%020d-%s.json", s.next, identity), notification: n}
	if err := s.write(e); err != nil {
		return false, err
	}
	s.next++
	s.seen[identity] = n.ReceivedAt
	s.pending = append(s.pending, e)
	s.ends.queue(e)
	return true, nil
}

func (s *spool) known(identity string) bool {
	_, ok := s.seen[identity]
	return ok
}

// write follows the only order that survives a power cut: content, then name,
// then the folder that holds the name.
func (s *spool) write(e entry) error {
	data, err := json.Marshal(e.notification)
	if err != nil {
		return fmt.Errorf("encoding a notification: %w", err)
	}
	temp := filepath.Join(s.dir, tempDir, e.name)
	if err := writeSynced(temp, data); err != nil {
		return fmt.Errorf("writing to the spool: %w", errors.Join(err, ignoreMissing(os.Remove(temp))))
	}
	if err := s.move(e.name, tempDir, queueDir); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(temp)))
	}
	return nil
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *spool) move(name, from, to string) error {
	err := os.Rename(filepath.Join(s.dir, from, name), filepath.Join(s.dir, to, name))
	if err != nil {
		return fmt.Errorf("moving an entry of the spool: %w", err)
	}
	return syncDir(filepath.Join(s.dir, to))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening a folder of the spool: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing a folder of the spool: %w", err)
	}
	return nil
}

// head returns up to limit of the oldest entries, which stay in the queue.
func (s *spool) head(limit int) []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pending[:min(limit, len(s.pending))])
}

// finish takes the n oldest entries from the queue to the given folder. An
// entry that cannot be moved has still left the queue of this run: it was
// dealt with, and only a restart may send it a second time.
func (s *spool) finish(n int, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, e := range s.pending[:n] {
		errs = append(errs, s.move(e.name, queueDir, to))
		s.ends.finish(e, to == sentDir)
		if to == deadDir {
			s.dead++
		} else {
			s.sent[e.name] = e.ReceivedAt
		}
	}
	s.pending = slices.Clone(s.pending[n:])
	return errors.Join(errs...)
}

// forget drops what is older than the window, except what still waits.
func (s *spool) forget(now time.Time) {
	s.ends.forget(now)
	s.forgetSent(now)
	waiting := map[string]bool{}
	for _, e := range s.pending {
		_, identity, _ := splitName(e.name)
		waiting[identity] = true
	}
	for identity, at := range s.seen {
		if now.Sub(at) >= s.window && !waiting[identity] {
			delete(s.seen, identity)
		}
	}
}

// forgetSent empties the sent folder from its oldest end only: it is read again
// in order, over the memory of ends that is written before, and a gap would
// bring back what is no longer the last word. What cannot be written or removed
// now is tried again with the next notification.
func (s *spool) forgetSent(now time.Time) {
	var old []string
	for _, name := range slices.Sorted(maps.Keys(s.sent)) {
		// A time far ahead is of a clock that was wrong, and must not stay for ever.
		if now.Sub(s.sent[name]).Abs() < s.window {
			break
		}
		old = append(old, name)
	}
	if len(old) == 0 {
		return
	}
	if err := s.saveTold(); err != nil {
		s.log.Error("sent notifications kept until it can be written which ends they told", slog.Any("error", err))
		return
	}
	for _, name := range old {
		if ignoreMissing(os.Remove(filepath.Join(s.dir, sentDir, name))) != nil {
			return
		}
		delete(s.sent, name)
	}
}

// state is what a spool has to say of itself.
type state struct {
	pending, dead int
	oldest        time.Time // since when the oldest entry has waited
	refusing      string    // the code with which the robot refuses
}

func (s *spool) state() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := state{pending: len(s.pending), dead: s.dead, refusing: s.refusing}
	if len(s.pending) > 0 {
		now.oldest = s.pending[0].ReceivedAt
	}
	return now
}
