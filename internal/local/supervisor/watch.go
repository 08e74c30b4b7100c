package supervisor

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// defaultHungAfter is how long a process that was ready may not answer. It is
// long, because a machine may be busy, and a restart makes it busier.
const defaultHungAfter = time.Minute

// looks is how often a ready process is asked while that time passes.
const looks = 12

// watch follows whether one process is ready, from its start to its end.
type watch struct {
	// hung is closed when the process has not answered for too long.
	hung chan struct{}
	// end stops the watching and waits for it. It may be called twice.
	end func()
}

func (s *Supervisor) watch(c Component) watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := watch{hung: make(chan struct{})}
	done := make(chan struct{})
	w.end = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		if s.becomesReady(ctx, c) && s.hangs(ctx, c) {
			close(w.hung)
		}
	}()
	return w
}

// becomesReady asks until the process serves, and then says so.
func (s *Supervisor) becomesReady(ctx context.Context, c Component) bool {
	if err := c.Ready.await(ctx); err != nil {
		return false
	}
	s.setReady(c)
	s.ready[c.Name].open()
	return true
}

func (s *Supervisor) setReady(c Component) {
	s.rec.set(c.Name, ReasonReady, "", func(st *ComponentStatus) { st.State = StateReady })
}

// hangs asks a ready process on, and returns true when it has not answered for
// too long. While something that it needs is not ready, nothing is held against
// it: an API server without its store is not mended by a restart.
func (s *Supervisor) hangs(ctx context.Context, c Component) bool {
	client, err := c.Ready.client()
	if c.Ready.URL == "" || err != nil {
		return false
	}
	defer client.CloseIdleConnections()
	var since time.Time
	for sleep(ctx, s.hungAfter/looks) {
		asked := time.Now()
		answered := answers(ctx, client, c.Ready.URL)
		switch {
		case ctx.Err() != nil:
			return false
		case answered:
			if !since.IsZero() {
				s.setReady(c)
			}
			since = time.Time{}
		case since.IsZero() || !s.needsAreReady(c):
			since = asked
			s.setUnready(c)
		case time.Since(since) >= s.hungAfter:
			return true
		}
	}
	return false
}

// sleep returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// answers asks twice: one lost answer says little.
func answers(ctx context.Context, client *http.Client, url string) bool {
	for range 2 {
		if ask(ctx, client, url) {
			return true
		}
	}
	return false
}

func (s *Supervisor) setUnready(c Component) {
	if now, _ := s.Status().Component(c.Name); now.State != StateUnready {
		s.rec.set(c.Name, ReasonUnready, "does not answer", func(st *ComponentStatus) { st.State = StateUnready })
	}
}

func (s *Supervisor) needsAreReady(c Component) bool {
	status := s.Status()
	return !slices.ContainsFunc(c.After, func(name string) bool {
		needed, _ := status.Component(name)
		return needed.State != StateReady
	})
}
