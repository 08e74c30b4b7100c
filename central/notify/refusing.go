package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
)

// refusingFile is there while a robot refuses what it is sent, and has the provider's
// code in it. That nobody tries does not mend a token, and neither does a restart, so
// only a message that is taken removes it.
const refusingFile = "refusing"

// loadRefusing reads what an earlier run wrote. A code that it could not have written
// is told as another one, because the file's being there is what counts.
func (s *spool) loadRefusing() error {
	data, err := os.ReadFile(filepath.Join(s.dir, refusingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading whether the robot refuses: %w", err)
	}
	s.refusing = otherCode
	if code := string(data); slices.Contains(errcodes(), code) {
		s.refusing = code
	}
	return nil
}

// refuses notes with which code the provider refused the newest notification for good,
// or with none that it took it. What cannot be written holds until a restart.
func (s *spool) refuses(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing == code {
		return
	}
	s.refusing = code
	if err := s.saveRefusing(code); err != nil {
		s.log.Error("not written whether the robot refuses; after a restart it would be told wrong until the next message",
			slog.String("folder", s.dir), slog.Any("error", err))
	}
}

func (s *spool) saveRefusing(code string) error {
	path := filepath.Join(s.dir, refusingFile)
	if code == "" {
		if err := ignoreMissing(os.Remove(path)); err != nil {
			return err
		}
		return syncDir(s.dir)
	}
	temp := filepath.Join(s.dir, tempDir, refusingFile)
	if err := writeSynced(temp, []byte(code)); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(s.dir)
}
