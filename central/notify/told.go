package notify

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/alertmanager/template"
)

// toldFile keeps which ends were told for longer than the sent folder does.
const toldFile = "told.json"

// toldFor is how long the end of an alert is not told again. Prometheus repeats
// it for 15 minutes, and Alertmanager tells it up to a group_interval later:
// this is far beyond both. An alert that comes back is not held up by it.
const toldFor = 24 * time.Hour

// maxTold bounds the memory. What is forgotten may be told twice, never lost.
const maxTold = 10_000

// ends remembers of which episodes the end needs no telling any more, because it
// was told or is about to be. An episode that is told as firing again is
// forgotten, because its next end is news. The number of a flood's rest tells
// of the ends among them, too.
type ends struct {
	told   map[string]time.Time // episodes to when the call that told of the end was received
	queued map[string]word      // what waits to be said of an episode, and goes before told
	dirty  bool                 // told has what the file has not
}

// word is the last one that waits to be said of an episode.
type word struct {
	entry    string
	resolved bool
}

func newEnds() ends {
	return ends{told: map[string]time.Time{}, queued: map[string]word{}}
}

// news leaves out the ends that need no telling. What Alertmanager itself has
// left out may be news, so that nothing at all is then no answer.
func (e *ends) news(n notification) template.Alerts {
	var news template.Alerts
	for _, a := range n.Alerts {
		if a.Status != statusResolved || !e.known(episode(a)) {
			news = append(news, a)
		}
	}
	if len(news) == 0 && n.Truncated > 0 {
		return n.Alerts
	}
	return news
}

func (e *ends) known(episode string) bool {
	if w, waits := e.queued[episode]; waits {
		return w.resolved
	}
	_, told := e.told[episode]
	return told
}

// queue notes what an entry of the queue will say.
func (e *ends) queue(in entry) {
	for _, a := range in.Alerts {
		e.queued[episode(a)] = word{entry: in.name, resolved: a.Status == statusResolved}
	}
}

// finish notes that an entry has left the queue. What was refused was not told.
func (e *ends) finish(in entry, told bool) {
	for _, a := range in.Alerts {
		key := episode(a)
		if e.queued[key].entry == in.name {
			delete(e.queued, key)
		}
		if told {
			e.tell(key, a.Status, in.ReceivedAt)
		}
	}
}

func (e *ends) tell(key, status string, at time.Time) {
	if status == statusResolved {
		e.told[key] = at
		e.dirty = true
	} else if _, ended := e.told[key]; ended {
		delete(e.told, key)
		e.dirty = true
	}
}

// forget keeps the memory within its bounds, the newest first.
func (e *ends) forget(now time.Time) {
	maps.DeleteFunc(e.told, func(_ string, at time.Time) bool { return now.Sub(at) >= toldFor })
	if len(e.told) <= maxTold {
		return
	}
	oldestFirst := slices.SortedFunc(maps.Keys(e.told), func(a, b string) int {
		return cmp.Or(e.told[a].Compare(e.told[b]), cmp.Compare(a, b))
	})
	for _, key := range oldestFirst[:len(oldestFirst)-maxTold] {
		delete(e.told, key)
	}
}

// loadTold reads the file. One that cannot be understood is no reason to tell of
// no alert: some ends are then told twice.
func (s *spool) loadTold() error {
	data, err := os.ReadFile(filepath.Join(s.dir, toldFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading which ends were told: %w", err)
	}
	told := map[string]time.Time{}
	if err := json.Unmarshal(data, &told); err != nil {
		s.log.Error("unreadable memory of ends dropped; some may be told twice", slog.String("file", toldFile), slog.Any("error", err))
		return nil
	}
	maps.Copy(s.ends.told, told)
	return nil
}

// saveTold replaces the file. It must be called before a file of the sent folder
// is removed, and needs to be at no other time: that folder is read, too.
func (s *spool) saveTold() error {
	if !s.ends.dirty {
		return nil
	}
	data, err := json.Marshal(s.ends.told)
	if err != nil {
		return fmt.Errorf("encoding which ends were told: %w", err)
	}
	temp := filepath.Join(s.dir, tempDir, toldFile)
	if err := writeSynced(temp, data); err != nil {
		return fmt.Errorf("writing which ends were told: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(s.dir, toldFile)); err != nil {
		return fmt.Errorf("replacing which ends were told: %w", err)
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	s.ends.dirty = false
	return nil
}
