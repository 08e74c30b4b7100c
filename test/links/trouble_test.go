package links_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// slack is what a busy machine may add to a time that is measured here.
const slack = 1500 * time.Millisecond

// trouble is something that happens to a sender, and its end.
type trouble struct {
	name       string
	begin, end func(*testing.T)
}

func (f *fleet) troubles(name string) []trouble {
	s := f.servers[name]
	return []trouble{
		{"it dies", func(*testing.T) { s.kill() }, func(*testing.T) { s.start() }},
		{"it hangs", func(t *testing.T) { s.signal(t, syscall.SIGSTOP) }, func(t *testing.T) { s.signal(t, syscall.SIGCONT) }},
		{"it is shut down", s.end, func(*testing.T) { s.start() }},
		{"it is cut off", func(*testing.T) { f.sever(name) }, func(*testing.T) { f.mend(name) }},
	}
}

func (f *fleet) sever(lower string) {
	for way, w := range f.wires {
		if way[0] == lower {
			w.sever()
		}
	}
}

func (f *fleet) mend(lower string) {
	for way, w := range f.wires {
		if way[0] == lower {
			w.mend()
		}
	}
}

// heardOf tells whether a server has a heartbeat of the cell that is as fresh as
// ever: over a link that is pulled it ends with the link, over one that is pushed
// it grows older than two intervals, which it never is otherwise.
func (f *fleet) heardOf(t *testing.T, s *server, cell string) bool {
	t.Helper()
	age := fmt.Sprintf("min(time() - cell:heartbeat:timestamp_seconds{cell=%q})", cell)
	if f.kind == promcfg.Push {
		age += " < 2"
	}
	return len(s.vector(t, age)) > 0
}

// seen waits until a server no longer hears of a cell, and says how long after
// the given moment that is.
func (f *fleet) seen(t *testing.T, s *server, cell string, since time.Time) time.Duration {
	t.Helper()
	eventually(t, 15*time.Second, func() error {
		if f.heardOf(t, s, cell) {
			return fmt.Errorf("%s still hears of %s", s.address, cell)
		}
		return nil
	})
	return time.Since(since)
}

// troubleWithAnEdge breaks the one edge of a cell that both shards read.
func (f *fleet) troubleWithAnEdge(t *testing.T) {
	for _, trouble := range f.troubles("moving") {
		t.Run(trouble.name, func(t *testing.T) {
			f.waitWhole(t)
			begun := time.Now()
			trouble.begin(t)
			for _, name := range cascadeNames() {
				took := f.seen(t, f.servers[name], movingCell, begun)
				t.Logf("seen at %s after %s", name, took.Round(10*time.Millisecond))
				require.Less(t, took, f.within(1))
			}
			f.partialWithin(t, begun, 2)
			if f.kind == promcfg.Pull {
				for _, name := range cascadeNames() {
					require.NoError(t, f.servers[name].gives(t, `up{job="federate-edge", cell="asia-2"}`, 0), "and it is told which edge it is")
				}
			}
			trouble.end(t)
			f.waitWhole(t)
		})
	}
}

// troubleWithACascade breaks the shard that alone reads the third cell. The
// second is heard of over the other one.
func (f *fleet) troubleWithACascade(t *testing.T) {
	for _, trouble := range f.troubles("cascade-1") {
		t.Run(trouble.name, func(t *testing.T) {
			f.waitWhole(t)
			begun := time.Now()
			trouble.begin(t)
			f.partialWithin(t, begun, 1)
			for _, name := range centralNames() {
				eventually(t, 5*time.Second, func() error {
					if !f.heardOf(t, f.servers[name], movingCell) {
						return fmt.Errorf("%s does not hear of %s, of which the other shard tells", name, movingCell)
					}
					return nil
				})
			}
			trouble.end(t)
			f.waitWhole(t)
		})
	}
}

// within is how long it may take until trouble is seen so many hops above: two
// intervals for each hop that is pulled, and two altogether over those that are
// pushed, because there it is the heartbeat's age that tells.
func (f *fleet) within(hops int) time.Duration {
	if f.kind == promcfg.Push {
		hops = 1
	}
	return time.Duration(hops)*2*interval + slack
}

// partialWithin waits until both centrals say that a cell is missing: they see
// that its heartbeat is gone or old, and count it out.
func (f *fleet) partialWithin(t *testing.T, begun time.Time, hops int) {
	t.Helper()
	missing := movingCell
	if hops == 1 {
		missing = stockCell
	}
	for _, name := range centralNames() {
		took := f.seen(t, f.servers[name], missing, begun)
		t.Logf("seen at %s after %s", name, took.Round(10*time.Millisecond))
		require.Less(t, took, f.within(hops))
	}
	for _, name := range centralNames() {
		eventually(t, 15*time.Second, func() error { return f.servers[name].gives(t, "fleet:cells_contributing:count", cells-1) })
		t.Logf("%s says 2 of 3 after %s", name, time.Since(begun).Round(10*time.Millisecond))
	}
	// A heartbeat counts for six intervals, and the next evaluation tells.
	require.Less(t, time.Since(begun), 8*interval+2*slack)
}

func (f *fleet) waitWhole(t *testing.T) {
	t.Helper()
	f.atCentrals(t, 30*time.Second, func(s *server) error { return s.gives(t, "fleet:cells_contributing:count", cells) })
	for _, p := range paths() {
		eventually(t, 20*time.Second, func() error {
			if !f.heardOf(t, f.servers[p.cascade], p.cell) {
				return fmt.Errorf("%s does not hear of %s", p.cascade, p.cell)
			}
			return nil
		})
	}
}
