package split_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/operator/workload"
)

const (
	// settled is for how long what a central says may be due to a server that was late.
	settled = 10 * interval
	// Fewer evaluations than these, of all and of those at which two shards read a
	// cell, show little: what comes of a move is seen for as long as both read.
	leastWatched, leastDuringAMove = 10, 3
)

// Hops on the way of a number from a cell to a central. Centrals look at each other as
// well, of which one hangs, and at Alertmanagers. An edge starts what it scrapes anew
// when it is divided, which leaves out a scrape and is to disturb nothing.
const (
	atEdges  = `{job=~"state|kube-apiserver"}`
	upToHere = `{job!~"state|kube-apiserver|central|federate-central|alertmanager.*"}`
)

// watched are the evaluations of a central that tell of the fleet, and not of a
// machine which has too much to do and lets scrapes come late or fail.
type watched struct {
	central string
	late    []time.Time
	// all are the evaluations, undisturbed those shortly before which nothing was late,
	// moving and movingUndisturbed those of them at which two shards read a cell.
	all, undisturbed, moving, movingUndisturbed int
}

// watched is what there was to be seen at a central since a moment. It ends the test
// with words when that is too little to say anything by.
func (f *fleet) watched(t *testing.T, c *promtest.Server, since time.Time) watched {
	t.Helper()
	w := f.watch(t, c, since)
	t.Log(w)
	require.GreaterOrEqual(t, w.undisturbed, leastWatched, "%s: what the others say shows little: run the test beside less", w)
	require.GreaterOrEqual(t, w.movingUndisturbed, leastDuringAMove, "%s: what the others say shows little of a move: run the test beside less", w)
	return w
}

// watchedDuringAMove waits until enough was to be seen while two shards read a cell. The
// move must be one that is held meanwhile.
func (f *fleet) watchedDuringAMove(t *testing.T, c *promtest.Server, since time.Time) {
	t.Helper()
	took := f.eventually(t, func() error {
		w := f.watch(t, c, since)
		if w.movingUndisturbed >= leastDuringAMove && w.undisturbed >= leastWatched {
			return nil
		}
		time.Sleep(interval)
		return fmt.Errorf("%s, which is too little", w)
	})
	t.Logf("enough was seen of %s during a move after %s", c.Address, took.Round(100*time.Millisecond))
}

func (w watched) String() string {
	return fmt.Sprintf("%s was undisturbed at %d evaluations of %d, and at %d of the %d at which two shards read a cell",
		w.central, w.undisturbed, w.all, w.movingUndisturbed, w.moving)
}

// disturbed says of a moment whether something was late shortly before it.
func (w watched) disturbed(at time.Time) bool {
	return slices.ContainsFunc(w.late, func(late time.Time) bool {
		return !at.Before(late.Add(-2*interval)) && at.Before(late.Add(settled))
	})
}

func (f *fleet) watch(t *testing.T, c *promtest.Server, since time.Time) watched {
	t.Helper()
	w := watched{central: c.Address, late: f.lateness(t, c, since)}
	twice := map[time.Time]bool{}
	for _, series := range c.Over(t, "max(count by (cell) (count by (cell, cascade_shard) (cell:heartbeat:timestamp_seconds))) > 1", since) {
		for _, tick := range series.Values {
			twice[tick.Timestamp.Time()] = true
		}
	}
	for _, series := range c.Raw(t, "fleet:interval:seconds", since) {
		for _, sample := range series.Values {
			at := sample.Timestamp.Time()
			moving, undisturbed := twice[at.Truncate(promtest.Tick)], !w.disturbed(at)
			w.all++
			w.undisturbed += count(undisturbed)
			w.moving += count(moving)
			w.movingUndisturbed += count(moving && undisturbed)
		}
	}
	return w
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// lateness is when one of the servers, or what a central hears of them, came late. What
// was not scraped for longer than settled was not to be scraped; a central that did not
// evaluate was late however long that was.
func (f *fleet) lateness(t *testing.T, c *promtest.Server, since time.Time) []time.Time {
	t.Helper()
	servers := []*promtest.Server{c}
	for _, shard := range f.plan(t).Shards {
		servers = append(servers, f.at(t, workload.CascadeName(asia, int(shard))))
	}
	for _, cell := range f.cells {
		servers = append(servers, cell.edges...)
	}
	since = since.Add(-settled)
	var late []time.Time
	failed := func(is float64) bool { return is == 0 }
	slow := func(seconds float64) bool { return seconds > 0.75*interval.Seconds() }
	for _, s := range servers {
		scraped, up := s.Raw(t, "up"+atEdges, since), s.Raw(t, "up"+upToHere, since)
		late = append(late, gaps(scraped, 5*interval/2, settled)...)
		late = append(late, gaps(up, 3*interval/2, settled)...)
		late = append(late, where(append(scraped, up...), failed)...)
		late = append(late, where(s.Raw(t, "scrape_duration_seconds"+upToHere, since), slow)...)
	}
	// Of servers that are gone the heartbeats tell that came by them. One is left out
	// where the moments of two hops lie side by side.
	late = append(late, gaps(c.Raw(t, "cell:heartbeat:timestamp_seconds", since), 5*interval/2, settled)...)
	return append(late, gaps(c.Raw(t, "fleet:interval:seconds", since), 3*interval/2, enough)...)
}

// gaps are the moments that come later after the one before of their series than a
// time, and less than another.
func gaps(of model.Matrix, from, to time.Duration) []time.Time {
	var all []time.Time
	for _, series := range of {
		for i := 1; i < len(series.Values); i++ {
			if gap := series.Values[i].Timestamp.Sub(series.Values[i-1].Timestamp); gap > from && gap < to {
				all = append(all, series.Values[i].Timestamp.Time())
			}
		}
	}
	return all
}

// where are the moments whose value is so.
func where(of model.Matrix, is func(float64) bool) []time.Time {
	var all []time.Time
	for _, series := range of {
		for _, sample := range series.Values {
			if is(float64(sample.Value)) {
				all = append(all, sample.Timestamp.Time())
			}
		}
	}
	return all
}
