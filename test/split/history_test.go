package split_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// evaluation is what a central said of the whole at one of its evaluations.
type evaluation struct {
	at           time.Time
	nodes        float64
	clusters     float64
	completeness float64
	contributing map[string]bool
	// heard are the cells that were heard when the evaluation began. One that was not
	// any more at its end does not contribute.
	heard map[string]bool
}

// torn says whether a cell was no longer heard at the end of an evaluation: on a busy
// machine one takes seconds, and of what is summed first and last not the same is known.
func (e evaluation) torn() bool { return !maps.Equal(e.heard, e.contributing) }

// history is every evaluation of a central since a moment, in order.
func history(t *testing.T, s *promtest.Server, since time.Time) []evaluation {
	t.Helper()
	at := map[model.Time]*evaluation{}
	for _, series := range s.Raw(t, `{__name__=~"fleet:nodes:count|fleet:clusters_known:count|fleet:completeness:ratio|fleet:cell_contributing:bool|fleet:cell_heard:bool"}`, since) {
		for _, sample := range series.Values {
			if at[sample.Timestamp] == nil {
				at[sample.Timestamp] = &evaluation{at: sample.Timestamp.Time(), contributing: map[string]bool{}, heard: map[string]bool{}}
			}
			at[sample.Timestamp].add(series.Metric, float64(sample.Value))
		}
	}
	var all []evaluation
	for _, e := range at {
		if !e.at.Before(since) {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b evaluation) int { return a.at.Compare(b.at) })
	return all
}

func (e *evaluation) add(of model.Metric, value float64) {
	switch of[model.MetricNameLabel] {
	case "fleet:nodes:count":
		e.nodes = value
	case "fleet:clusters_known:count":
		e.clusters = value
	case "fleet:completeness:ratio":
		e.completeness = value
	case "fleet:cell_contributing:bool":
		e.contributing[string(of["cell"])] = value == 1
	case "fleet:cell_heard:bool":
		e.heard[string(of["cell"])] = value == 1
	}
}

// requireOnce says that at each evaluation of a central since the whole was there
// no cell was counted twice, and none was missing from a sum beside a completeness
// that has it. A busy machine lets scrapes fail: cells are then said to be missing,
// or clusters not to be known, which has nodes of theirs missing.
func (f *fleet) requireOnce(t *testing.T, central *promtest.Server) {
	t.Helper()
	evaluations, whole := history(t, central, f.whole), 0
	for i, e := range evaluations {
		when := fmt.Sprintf("%s at %s: %+v", central.Address, e.at.Format("15:04:05.000"), e)
		told, missing := f.told(e)
		require.InDelta(t, 1-float64(len(missing))/float64(len(f.cells)), e.completeness, 1e-9, when)
		require.LessOrEqual(t, e.nodes, float64(f.all()), when)
		if e.torn() {
			require.Less(t, e.completeness, 1.0, "%s: whoever was lost meanwhile is missing", when)
			continue
		}
		if f.lacksClusters(evaluations[max(0, i-1):min(len(evaluations), i+2)]) {
			continue
		}
		require.Contains(t, sums(told, missing), e.nodes, "%s: nodes of every cell that contributes, each once", when)
		if len(missing) == 0 {
			whole++
		}
	}
	require.Greater(t, 2*whole, len(evaluations), "%s was incomplete most of the time, which shows little", central.Address)
	t.Logf("%s counted every cell once at %d evaluations of %d", central.Address, whole, len(evaluations))
}

// told are the nodes of the cells that contribute, together, and those of each that
// does not.
func (f *fleet) told(e evaluation) (told float64, missing []float64) {
	for _, c := range f.cells {
		if e.contributing[c.name] {
			told += float64(c.all())
		} else {
			missing = append(missing, float64(c.all()))
		}
	}
	return told, missing
}

// lacksClusters says whether a cluster of a cell that contributes was not known at one
// of some evaluations.
func (f *fleet) lacksClusters(evaluations []evaluation) bool {
	return slices.ContainsFunc(evaluations, func(e evaluation) bool {
		n := 0
		for _, c := range f.cells {
			if e.contributing[c.name] {
				n += len(c.clusters)
			}
		}
		return e.clusters < float64(n)
	})
}

// sums are what comes of a number and any of the others. No two sums of the cells
// are the same, nor is one with a cell twice.
func sums(of float64, others []float64) []float64 {
	all := []float64{of}
	for _, o := range others {
		for _, sum := range all {
			all = append(all, sum+o)
		}
	}
	return all
}
