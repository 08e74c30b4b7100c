package testkit

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Eventually asks every so often until check passes, and says how long that
// took. The test ends with the last error when it does not pass in time.
func Eventually(t testing.TB, within, every time.Duration, check func() error) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		err := check()
		if err == nil {
			return time.Since(begun)
		}
		if time.Since(begun) > within {
			t.Fatalf("after %s: %v", within, err)
		}
		time.Sleep(every)
	}
}

// Said keeps what a process or a logger says, which it may do while it is read.
type Said struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (s *Said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

// String is everything that was said.
func (s *Said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// Count is how often a text was said.
func (s *Said) Count(text string) int { return strings.Count(s.String(), text) }

// Tail is the end of what was said, as much as a failed test shows.
func (s *Said) Tail() string {
	all := s.String()
	return all[max(0, len(all)-maxSaid):]
}
