package links_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// trouble is something that happens to a sender, and its end.
type trouble struct {
	name       string
	begin, end func()
}

func (f *fleet) troubles(name string) []trouble {
	s := f.servers[name]
	return []trouble{
		{"it dies", s.Kill, s.Start},
		{"it hangs", func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) }},
		{"it restarts", s.Stop, s.Start},
		{"it is cut off", func() { f.sever(name) }, func() { f.mend(name) }},
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

// outage is one trouble: which server has it, which cell it hides, how many hops
// the centrals are away from it, and since when.
type outage struct {
	*fleet
	broken, missing string
	hops            int
	begun           time.Time
}

// troubleWithAnEdge breaks the one edge of a cell that both shards read.
func (f *fleet) troubleWithAnEdge(t *testing.T) {
	f.eachTrouble(t, outage{broken: "moving", missing: movingCell, hops: 2}, func(t *testing.T, o outage) error {
		var errs []error
		known := o.begun
		for _, name := range cascadeNames() {
			at, err := o.missed(t, f.servers[name], `up{job="federate-edge", cell="asia-2"}`, o.begun)
			if at.After(known) {
				known = at
			}
			errs = append(errs, err)
			if f.kind == promcfg.Pull {
				firstSeen(t, f.servers[name], `up{job="federate-edge", cell="asia-2"} == 0`, true, o.begun) // it is told which edge it is
			}
		}
		return errors.Join(append(errs, o.partial(t, known))...)
	})
}

// troubleWithACascade breaks the shard that alone reads the third cell. The
// second is heard of over the other one.
func (f *fleet) troubleWithACascade(t *testing.T) {
	f.eachTrouble(t, outage{broken: "cascade-1", missing: stockCell, hops: 1}, func(t *testing.T, o outage) error {
		err := o.partial(t, o.begun)
		f.atCentrals(t, func(s *promtest.Server) error { return hears(s, f.fresh(movingCell)) })
		return err
	})
}

// tries is how often a trouble is made anew if the machine was too busy to tell how
// long its servers take.
const tries = 4

func (f *fleet) eachTrouble(t *testing.T, o outage, check func(*testing.T, outage) error) {
	o.fleet = f
	for _, trouble := range f.troubles(o.broken) {
		t.Run(trouble.name, func(t *testing.T) {
			for try := 1; ; try++ {
				f.waitWhole(t)
				trouble.begin()
				o.begun = time.Now()
				slow := check(t, o)
				trouble.end()
				slow = errors.Join(slow, o.comesBack(t, f.servers[o.broken].Ready(t)))
				switch busy := o.slowest(t) > 3*interval/2; {
				case slow == nil:
					return
				case !busy || try == tries:
					t.Fatal(slow)
				}
				t.Logf("once more, for the machine is busy: %v", slow)
			}
		})
	}
}

// missed waits until a server is without the cell, and says since when it has been.
// Over a link that is pushed it is the age of what was heard last that tells, in
// every tier at the same time.
func (o outage) missed(t *testing.T, s *promtest.Server, scrapes string, since time.Time) (time.Time, error) {
	t.Helper()
	at := firstSeen(t, s, o.fresh(o.missing), false, o.begun)
	if o.kind == promcfg.Pull {
		return at, inTime(t, "the cell is missed", s, scrapes, 1, since, at)
	}
	if took := at.Sub(o.begun); took > 2*interval+promtest.Tick {
		return at, fmt.Errorf("%s hears of %s for %s", s.Address, o.missing, took)
	}
	return at, nil
}

// partial waits until both centrals say that a cell is missing: they see that its
// heartbeat is gone or old, and count it out. Over a link that is pushed a
// heartbeat counts for six intervals.
func (o outage) partial(t *testing.T, known time.Time) error {
	t.Helper()
	var errs []error
	for _, name := range centralNames() {
		s := o.servers[name]
		since, err := o.missed(t, s, `up{job="federate-cascade"}`, known)
		if o.kind == promcfg.Push {
			since = o.begun.Add(6 * interval)
		}
		at := firstSeen(t, s, fmt.Sprintf("fleet:cells_contributing:count == %d", cells-1), true, o.begun)
		errs = append(errs, err, inTime(t, "2 of 3", s, "fleet:cells_contributing:count", 1, since, at))
	}
	return errors.Join(errs...)
}

// comesBack waits until both centrals say that all is there again, from when the
// server that had the trouble knows of the cell. What is pushed comes after what was
// kept meanwhile, and at a sender's pace.
func (o outage) comesBack(t *testing.T, s *promtest.Server) error {
	t.Helper()
	ended := time.Now()
	cell := fmt.Sprintf("cell:state_known:bool{cell=~\"|%s\"}", o.missing)
	again := fmt.Sprintf("%s == 1 and timestamp(%s) > %.3f", cell, cell, float64(ended.UnixMilli())/1000)
	known := firstSeen(t, s, again, true, ended)
	var errs []error
	for _, name := range centralNames() {
		at := firstSeen(t, o.servers[name], fmt.Sprintf("fleet:cells_contributing:count == %d", cells), true, known)
		if o.kind == promcfg.Pull {
			errs = append(errs, inTime(t, "3 of 3", o.servers[name], "fleet:cells_contributing:count", o.hops+1, known, at))
		}
	}
	return errors.Join(errs...)
}

// firstSeen waits until an expression has a result at a server, or has none, and
// looks up in what is stored when that was first so after a moment: it may have
// been so for a short time only.
func firstSeen(t *testing.T, s *promtest.Server, expr string, has bool, after time.Time) time.Time {
	t.Helper()
	var first time.Time
	testkit.Await(t, func() error {
		there := map[int64]bool{}
		for _, series := range s.Over(t, expr, after) {
			for _, v := range series.Values {
				there[int64(v.Timestamp)] = true
			}
		}
		// The last tick may be older than the answer.
		until := time.Now().Add(-2 * promtest.Tick)
		for first = after.Truncate(promtest.Tick); there[first.UnixMilli()] != has; first = first.Add(promtest.Tick) {
			if first.After(until) {
				return fmt.Errorf("%s: %s has not changed since %s", s.Address, expr, after.Format(time.TimeOnly))
			}
		}
		return nil
	})
	return first
}

// A hop may take two of the reader's own rounds: one that was under way, and the
// next. They are counted by what the reader has stored of each, because on a busy
// machine they come late. But no hop may take longer than longest, however busy.
const (
	rounds  = 2
	longest = 5 * interval
)

// inTime checks that what was so since a moment was known to a reader so many hops
// away soon enough. Of each of its rounds the reader has a sample of the selector.
func inTime(t *testing.T, what string, reader *promtest.Server, selector string, hops int, since, known time.Time) error {
	t.Helper()
	count := 0
	for _, series := range reader.Raw(t, selector, since) {
		n := 0
		for _, v := range series.Values {
			if !v.Timestamp.Time().After(known) {
				n++
			}
		}
		count = max(count, n)
	}
	took := max(0, known.Sub(since)).Round(promtest.Tick)
	t.Logf("%s: %s after %d rounds, %s", reader.Address, what, count, took)
	if count > hops*rounds || took > time.Duration(hops)*longest {
		return fmt.Errorf("%s: %s after %d rounds and %s, over %d hops", reader.Address, what, count, took, hops)
	}
	return nil
}

// slowest is the longest time between two scrapes of one job, at any cascade or
// central that was not broken, since shortly before the outage.
func (o outage) slowest(t *testing.T) time.Duration {
	t.Helper()
	longest := interval
	for _, name := range slices.Concat(cascadeNames(), centralNames()) {
		if name == o.broken {
			continue
		}
		s := o.servers[name]
		for _, series := range s.Raw(t, fmt.Sprintf("up{instance=%q}", s.Address), o.begun.Add(-3*interval)) {
			for i := range len(series.Values) - 1 {
				longest = max(longest, series.Values[i+1].Timestamp.Sub(series.Values[i].Timestamp))
			}
		}
	}
	return longest
}

// oneOfAPairIsMissed kills one server of each pair, one that the fleet's link is of and
// one that is read in any case. The other makes the cell whole, so that an alert says it.
func (f *fleet) oneOfAPairIsMissed(t *testing.T) {
	alerts := func(cells float64) {
		t.Helper()
		f.atCentrals(t, func(s *promtest.Server) error {
			return s.Gives(`count(ALERTS{alertname="PharosEdgeDown", cell=~"asia-1|asia-3"}) or vector(0)`, cells)
		})
	}
	alerts(0)
	f.servers["pair-b"].Kill()
	f.servers["stock-b"].Kill()
	alerts(2)
	f.atCentrals(t, func(s *promtest.Server) error {
		return s.Gives(`sum(fleet:cell_contributing:bool{cell=~"asia-1|asia-3"})`, 2)
	})
	f.servers["pair-b"].Start()
	f.servers["stock-b"].Start()
	alerts(0)
}

// whatACutLeaves looks back on a cut of some intervals. A link that is pulled has
// a hole there, and one that is pushed has everything.
func (f *fleet) whatACutLeaves(t *testing.T) {
	f.waitWhole(t)
	f.sever("moving")
	severed := time.Now()
	t.Run("one of a pair is missed meanwhile", f.oneOfAPairIsMissed)
	time.Sleep(time.Until(severed.Add(7 * interval)))
	mending := time.Now()
	f.mend("moving")
	f.waitWhole(t)
	const heartbeats = `cell:heartbeat:timestamp_seconds{cell="asia-2"}`
	within := func(s *promtest.Server, selector string) map[model.Time]bool {
		out := map[model.Time]bool{}
		for _, series := range s.Raw(t, selector, severed) {
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
		testkit.Await(t, func() error {
			if got := within(f.servers[name], heartbeats); !maps.Equal(made, got) {
				return fmt.Errorf("%s has %d heartbeats from within the cut, and %d were made", name, len(got), len(made))
			}
			return nil
		})
	}
}

// waitWhole waits until every cell has been heard of everywhere for some time.
func (f *fleet) waitWhole(t *testing.T) {
	t.Helper()
	f.atCentrals(t, func(s *promtest.Server) error {
		return s.Gives("min_over_time(fleet:cells_contributing:count[3s])", cells)
	})
	for _, p := range paths() {
		testkit.Await(t, func() error { return hears(f.servers[p.cascade], f.fresh(p.cell)) })
	}
}

// hears refuses a server that has nothing of an expression.
func hears(s *promtest.Server, expr string) error {
	got, err := s.Now(expr)
	if err == nil && len(got) == 0 {
		err = fmt.Errorf("%s hears nothing of %s", s.Address, expr)
	}
	return err
}
