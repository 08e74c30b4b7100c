package split_test

import (
	"fmt"
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
	completeness float64
	contributing map[string]bool
	// counted and measured mean that nodes and completeness were said.
	counted, measured bool
}

// whole says whether all that is looked at was evaluated. A server that is told to read its
// files again stops in the middle of its rules, and the newest evaluation may go on still.
func (e *evaluation) whole() bool { return e.counted && e.measured && len(e.contributing) > 0 }

// history is every evaluation of a central since a moment that came to its end, in order.
// There are few others.
func history(t *testing.T, s *promtest.Server, since time.Time) []evaluation {
	t.Helper()
	at := map[model.Time]*evaluation{}
	for _, series := range s.Raw(t, `{__name__=~"fleet:nodes:count|fleet:completeness:ratio|fleet:cell_contributing:bool"}`, since) {
		for _, sample := range series.Values {
			if at[sample.Timestamp] == nil {
				at[sample.Timestamp] = &evaluation{at: sample.Timestamp.Time(), contributing: map[string]bool{}}
			}
			at[sample.Timestamp].add(series.Metric, float64(sample.Value))
		}
	}
	var all []evaluation
	broken := 0
	for _, e := range at {
		switch {
		case e.at.Before(since):
		case e.whole():
			all = append(all, *e)
		default:
			broken++
		}
	}
	require.LessOrEqual(t, broken, len(all)/10, "%s broke off evaluations", s.Address)
	slices.SortFunc(all, func(a, b evaluation) int { return a.at.Compare(b.at) })
	return all
}

func (e *evaluation) add(of model.Metric, value float64) {
	switch of[model.MetricNameLabel] {
	case "fleet:nodes:count":
		e.nodes, e.counted = value, true
	case "fleet:completeness:ratio":
		e.completeness, e.measured = value, true
	case "fleet:cell_contributing:bool":
		e.contributing[string(of["cell"])] = value == 1
	}
}

// requireOnce says that at no evaluation of a central since the whole was there a cell
// was counted twice, and that at each that nothing disturbed everything was counted once.
// A busy machine lets scrapes fail: cells are then said to be missing, or clusters not
// to be known, which has nodes of theirs missing.
func (f *fleet) requireOnce(t *testing.T, central *promtest.Server) {
	t.Helper()
	w, all := f.watched(t, central, f.whole), float64(f.all())
	for _, e := range history(t, central, f.whole) {
		when := fmt.Sprintf("%s at %s: %+v", central.Address, e.at.Format("15:04:05.000"), e)
		require.LessOrEqual(t, e.nodes, all, when)
		missing := 0
		for _, contributes := range e.contributing {
			missing += count(!contributes)
		}
		require.InDelta(t, 1-float64(missing)/float64(len(f.cells)), e.completeness, 1e-9, when)
		if w.disturbed(e.at) {
			continue
		}
		require.InDelta(t, 1, e.completeness, 1e-9, when)
		require.InDelta(t, all, e.nodes, 1e-9, when)
		for _, c := range f.cells {
			require.True(t, e.contributing[c.name], when)
		}
	}
}
