package local

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// teller prints progress lines, each with the seconds since the first.
type teller struct {
	mu    sync.Mutex
	to    io.Writer
	begun time.Time
}

func newTeller(to io.Writer) *teller {
	if to == nil {
		to = io.Discard
	}
	return &teller{to: to, begun: time.Now()}
}

func (t *teller) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A terminal that is gone must not fail a start.
	_, _ = fmt.Fprintf(t.to, "%6.1fs  %s\n", time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...))
}
