package testkit

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for anything: on a machine that is busy with
// other things everything takes long. What must be quick is looked up afterwards,
// in the times that servers have stored.
const Patience = 4 * time.Minute

// Await asks again and again until check passes, and says how long that took. The
// test ends with the last error when it does not pass in time.
func Await(t testing.TB, check func() error) time.Duration {
	t.Helper()
	return AwaitWithin(t, Patience, check)
}

// progress is how often a test that waits says for what.
const progress = 30 * time.Second

// AwaitWithin is Await with another bound, which is of a test that has one for all
// that it waits for together.
func AwaitWithin(t testing.TB, patience time.Duration, check func() error) time.Duration {
	t.Helper()
	begun := time.Now()
	told := begun
	for {
		err := check()
		if err == nil {
			return time.Since(begun)
		}
		if time.Since(begun) > patience {
			t.Fatalf("after %s: %v", time.Since(begun).Round(time.Second), err)
		}
		if time.Since(told) > progress {
			told = time.Now()
			t.Logf("waiting for %s so far: %v", time.Since(begun).Round(time.Second), err)
		}
		time.Sleep(100 * time.Millisecond)
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
