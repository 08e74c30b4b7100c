package links_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

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

// fresh is true while a heartbeat of the cell is as fresh as ever. Over a link that
// is pulled it ends with the link; over one that is pushed it grows older than two
// intervals, which it is not otherwise.
func (f *fleet) fresh(cell string) string {
	age := fmt.Sprintf("min(time() - cell:heartbeat:timestamp_seconds{cell=%q})", cell)
	if f.kind == promcfg.Push {
		age += " < 2"
	}
	return age
}

func (f *fleet) heardOf(t *testing.T, s *server, cell string) bool {
	t.Helper()
	return len(s.vector(t, f.fresh(cell))) > 0
}

// outage is one trouble: which server has it, which cell it hides, how many hops
// the centrals are away from it, and since when.
type outage struct {
	*fleet
	broken, missing string
	hops            int
	begun           time.Time
}

// seenWithin waits until a server no longer hears of the cell, and then looks up
// in what the server has stored when that was: a test on a busy machine may look
// late. Of a link that is pulled, two intervals are allowed for each hop, of one
// that is pushed two altogether, because there it is the age that tells. An
// interval is as long as the slowest of the servers made it.
func (o outage) seenWithin(t *testing.T, hops int, s *server) {
	t.Helper()
	eventually(t, func() error {
		if o.heardOf(t, s, o.missing) {
			return fmt.Errorf("%s still hears of %s", s.address, o.missing)
		}
		return nil
	})
	allowed := 2 * interval
	if o.kind == promcfg.Pull {
		allowed = time.Duration(hops) * 2 * o.slowest(t)
	}
	took := s.firstWithout(t, o.fresh(o.missing), o.begun)
	t.Logf("seen at %s after %s", s.address, took.Round(tick))
	require.LessOrEqual(t, took, allowed+tick, s.address)
}

// tick is how fine a time is that is looked up.
const tick = 100 * time.Millisecond

// firstWithout is how long after a moment an expression first had no result, as
// told by the samples that are stored now.
func (s *server) firstWithout(t *testing.T, expr string, moment time.Time) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	moment = moment.Truncate(tick)
	result, _, _, err := s.api(t).QueryRange(ctx, expr, promv1.Range{Start: moment, End: time.Now(), Step: tick})
	require.NoError(t, err)
	has := map[model.Time]bool{}
	for _, series := range result.(model.Matrix) {
		for _, v := range series.Values {
			has[v.Timestamp] = true
		}
	}
	at := model.TimeFromUnixNano(moment.UnixNano())
	for has[at] {
		at = at.Add(tick)
	}
	return at.Time().Sub(moment)
}

// slowest is the longest time between two scrapes of one job, at any cascade or
// central that runs, since shortly before the outage.
func (o outage) slowest(t *testing.T) time.Duration {
	t.Helper()
	longest := interval
	for _, name := range slices.Concat(cascadeNames(), centralNames()) {
		if name == o.broken {
			continue
		}
		s := o.servers[name]
		for _, series := range s.raw(t, fmt.Sprintf("up{instance=%q}", s.address), o.begun.Add(-3*interval)) {
			for i := range len(series.Values) - 1 {
				longest = max(longest, series.Values[i+1].Timestamp.Sub(series.Values[i].Timestamp))
			}
		}
	}
	return longest
}

// troubleWithAnEdge breaks the one edge of a cell that both shards read.
func (f *fleet) troubleWithAnEdge(t *testing.T) {
	f.eachTrouble(t, "moving", movingCell, 2, func(t *testing.T, o outage) {
		for _, name := range cascadeNames() {
			o.seenWithin(t, 1, f.servers[name])
		}
		o.partial(t)
		if f.kind == promcfg.Pull {
			for _, name := range cascadeNames() {
				require.NoError(t, f.servers[name].gives(t, `up{job="federate-edge", cell="asia-2"}`, 0), "and it is told which edge it is")
			}
		}
	})
}

// troubleWithACascade breaks the shard that alone reads the third cell. The
// second is heard of over the other one.
func (f *fleet) troubleWithACascade(t *testing.T) {
	f.eachTrouble(t, "cascade-1", stockCell, 1, func(t *testing.T, o outage) {
		o.partial(t)
		for _, name := range centralNames() {
			eventually(t, func() error {
				if !f.heardOf(t, f.servers[name], movingCell) {
					return fmt.Errorf("%s does not hear of %s, of which the other shard tells", name, movingCell)
				}
				return nil
			})
		}
	})
}

func (f *fleet) eachTrouble(t *testing.T, broken, missing string, hops int, check func(*testing.T, outage)) {
	for _, trouble := range f.troubles(broken) {
		t.Run(trouble.name, func(t *testing.T) {
			f.waitWhole(t)
			trouble.begin(t)
			defer trouble.end(t)
			check(t, outage{f, broken, missing, hops, time.Now()})
		})
	}
	f.waitWhole(t)
}

// whatACutLeaves looks back on a cut of some intervals. A link that is pulled has
// a hole there, and one that is pushed has everything.
func (f *fleet) whatACutLeaves(t *testing.T) {
	f.waitWhole(t)
	f.sever("moving")
	severed := time.Now()
	time.Sleep(7 * interval)
	mending := time.Now()
	f.mend("moving")
	f.waitWhole(t)
	const heartbeats = `cell:heartbeat:timestamp_seconds{cell="asia-2"}`
	within := func(s *server, selector string) map[model.Time]bool {
		out := map[model.Time]bool{}
		for _, series := range s.raw(t, selector, severed) {
			for _, v := range series.Values {
				// What was made just before the cut may have been on its way.
				if at := v.Timestamp.Time(); at.After(severed.Add(interval)) && at.Before(mending.Add(-2*interval)) {
					out[v.Timestamp] = true
				}
			}
		}
		return out
	}
	made := within(f.servers["moving"], "cell:heartbeat:timestamp_seconds")
	require.NotEmpty(t, made)
	for _, name := range centralNames() {
		if f.kind == promcfg.Pull {
			require.Empty(t, within(f.servers[name], heartbeats), name)
			continue
		}
		eventually(t, func() error {
			if got := within(f.servers[name], heartbeats); !maps.Equal(made, got) {
				return fmt.Errorf("%s has %d heartbeats from within the cut, and %d were made", name, len(got), len(made))
			}
			return nil
		})
	}
}

// partial waits until both centrals say that a cell is missing: they see that its
// heartbeat is gone or old, and count it out. Over a link that is pushed a
// heartbeat counts for six intervals. Either way it is the next evaluation but one
// at the latest that tells.
func (o outage) partial(t *testing.T) {
	t.Helper()
	for _, name := range centralNames() {
		s := o.servers[name]
		o.seenWithin(t, o.hops, s)
		eventually(t, func() error { return s.gives(t, "fleet:cells_contributing:count", cells-1) })
		slowest := o.slowest(t)
		allowed := time.Duration(o.hops)*2*slowest + 2*slowest
		if o.kind == promcfg.Push {
			allowed = 6*interval + 2*slowest
		}
		took := s.firstWithout(t, fmt.Sprintf("fleet:cells_contributing:count == %d", cells), o.begun)
		t.Logf("%s says 2 of 3 after %s", name, took.Round(tick))
		require.LessOrEqual(t, took, allowed+tick, name)
	}
}

// waitWhole waits until every cell has been heard of everywhere for some time.
func (f *fleet) waitWhole(t *testing.T) {
	t.Helper()
	f.atCentrals(t, func(s *server) error {
		return s.gives(t, "min_over_time(fleet:cells_contributing:count[3s])", cells)
	})
	for _, p := range paths() {
		eventually(t, func() error {
			if !f.heardOf(t, f.servers[p.cascade], p.cell) {
				return fmt.Errorf("%s does not hear of %s", p.cascade, p.cell)
			}
			return nil
		})
	}
}
