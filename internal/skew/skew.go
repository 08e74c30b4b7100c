// Package skew tells how far another server's clock is from ours, by the Date
// that its answers bear. Whoever believes the ages of what a server serves must
// know that: a clock of ours that is behind makes old samples look fresh.
package skew

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// ErrUndated means that the clocks cannot be compared.
var ErrUndated = errors.New("the answer bears no Date, so its server's clock cannot be compared with ours")

// Meter keeps the worst difference among the answers to one question.
type Meter struct {
	mu      sync.Mutex
	worst   time.Duration
	dated   int
	undated int
}

type key struct{}

// Measure returns a context whose requests, when they go through a Transport,
// are measured by the Meter.
func Measure(ctx context.Context) (context.Context, *Meter) {
	m := &Meter{}
	return context.WithValue(ctx, key{}, m), m
}

// Skew is how far the server's clock is ahead of ours, exact to about a second.
// Without a single answer, or after one without a Date, it is ErrUndated.
func (m *Meter) Skew() (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dated == 0 || m.undated > 0 {
		return 0, ErrUndated
	}
	return m.worst, nil
}

// note takes the moment at which the answer's head arrived for that at which it
// was dated: what lies between is the way of a few bytes.
func (m *Meter) note(date string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := http.ParseTime(date)
	if err != nil {
		m.undated++
		return
	}
	m.dated++
	m.worst = Worse(m.worst, at.Sub(now.Truncate(time.Second)))
}

// Worse is the greater of two differences, whichever way they point.
func Worse(a, b time.Duration) time.Duration {
	if b.Abs() > a.Abs() {
		return b
	}
	return a
}

// Transport measures the answers to requests that carry a Meter.
type Transport struct {
	Next http.RoundTripper
	Now  func() time.Time
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Next.RoundTrip(req)
	if m, ok := req.Context().Value(key{}).(*Meter); ok && err == nil {
		m.note(resp.Header.Get("Date"), t.Now())
	}
	return resp, err
}

// WrappedRoundTripper lets Kubernetes' libraries find the connections below.
func (t Transport) WrappedRoundTripper() http.RoundTripper { return t.Next }
