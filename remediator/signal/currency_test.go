package signal_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

func inventory(t *testing.T, r *signal.Reader) policy.Cell {
	t.Helper()
	cells, err := r.Cells(t.Context())
	require.NoError(t, err)
	require.Len(t, cells, 1)
	return cells[0]
}

func await(t *testing.T, r *signal.Reader, machines int) {
	t.Helper()
	testkit.Await(t, func() error {
		if c := inventory(t, r); c.Err != "" || len(c.Machines) != machines {
			return fmt.Errorf("%d machines, not %d: %s", len(c.Machines), machines, c.Err)
		}
		return nil
	})
}

// Case C17: what was seen last is no inventory.
// A watch that says nothing, or that stands behind what the cell has come to, proves
// nothing. What it left out is listed.
func TestWatchThatProvesNothing(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]func(s *scripted) string{
		"says nothing": func(*scripted) string { return "" },
		"lags behind":  func(s *scripted) string { return s.bookmark("Machine", "10") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scripted{watching: 1200 * time.Millisecond, says: says}
			s.set("10", "a", "b")
			r, _ := s.cells(t, 1, nil)
			require.Len(t, inventory(t, r).Machines, 2)
			s.set("20", "a", "b", "c")
			await(t, r, 3)
			require.Greater(t, s.listed(), 1)
		})
	}
}

// What a watch shows is taken, and nothing is listed again as long as it keeps up.
func TestWatchThatKeepsUp(t *testing.T) {
	t.Parallel()
	event := func(kind, name, version string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"kind":"Machine","apiVersion":"pharos.dev/v1alpha1","metadata":{"namespace":"fleet","name":%q,"resourceVersion":%q},"spec":{"clusterName":"mall"}}}`, kind, name, version)
	}
	var step atomic.Int32
	s := &scripted{watching: 1200 * time.Millisecond, says: func(s *scripted) string {
		if step.Add(1) > 1 {
			return s.bookmark("Machine", "")
		}
		return event("ADDED", "b", "11") + event("MODIFIED", "c", "12") + event("DELETED", "a", "13") + event("DELETED", "never-seen", "14")
	}}
	s.set("10", "a", "c")
	r, _ := s.cells(t, 1, nil)
	require.Len(t, inventory(t, r).Machines, 2)
	s.set("14", "unlisted")
	testkit.Await(t, func() error {
		var got []string
		for _, m := range inventory(t, r).Machines {
			got = append(got, m.Name+" of "+m.Cluster)
		}
		if fmt.Sprint(got) != "[b of mall c of mall]" || step.Load() < 3 {
			return fmt.Errorf("got %v after %d watches", got, step.Load())
		}
		return nil
	})
	require.Equal(t, 1, s.listed())
}

// What is no answer of a sound API server makes the cell unknown, until it has been
// listed anew.
func TestCellsThatCannotBeBelieved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		says    func(s *scripted) string
		version string
		want    string
	}{
		"restored from a backup": {version: "7", want: "the cell went back from resource version 10 to 7, as after a restore from a backup"},
		"an error": {version: "20", want: "watching machines: too old", says: func(*scripted) string {
			return `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}}`
		}},
		"another kind": {version: "20", want: "watching machines: the API server sent a *v1alpha1.Cluster", says: func(s *scripted) string { return s.bookmark("Cluster", "") }},
		"no numbers":   {version: "newest", want: "resource versions are no numbers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bad atomic.Bool
			s := &scripted{watching: 1200 * time.Millisecond}
			s.says = func(s *scripted) string {
				if bad.Load() && tc.says != nil {
					return tc.says(s)
				}
				return s.bookmark("Machine", "")
			}
			s.set("10", "a", "b")
			r, _ := s.cells(t, 1, nil)
			require.Len(t, inventory(t, r).Machines, 2)
			bad.Store(true)
			s.set(tc.version, "a")
			testkit.Await(t, func() error {
				if c := inventory(t, r); c.Err == "" {
					return fmt.Errorf("known, with %d machines", len(c.Machines))
				}
				return nil
			})
			c := inventory(t, r)
			require.Contains(t, c.Err, tc.want)
			require.Empty(t, c.Machines)
			bad.Store(false)
			s.set("30", "a", "b", "c")
			await(t, r, 3)
		})
	}
}

// A machine that slept wakes up with an inventory of the evening before. So does
// one whose clock was set back not know how old anything is.
func TestSleepMakesUnknown(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		var ahead atomic.Int64
		s := &scripted{watching: 1200 * time.Millisecond}
		s.set("10", "a")
		r, _ := s.cells(t, 1, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		require.Len(t, inventory(t, r).Machines, 1)
		ahead.Store(int64(jump))
		require.Contains(t, inventory(t, r).Err, "its watch has not shown for 20s that it is current")
		await(t, r, 1)
	}
}

// Rights that are older than the program are told from a cell that is away.
func TestWatchIsForbidden(t *testing.T) {
	t.Parallel()
	s := &scripted{watching: time.Second, forbids: true}
	s.set("10", "a")
	r, _ := s.cells(t, 1, nil)
	testkit.Await(t, func() error {
		if err := inventory(t, r).Err; !strings.Contains(err, "apply deploy/cell of this version in the cell") {
			return fmt.Errorf("says %q", err)
		}
		return nil
	})
}

// There are three series for each cell, for as long as it is there.
func TestMetricsOfCells(t *testing.T) {
	t.Parallel()
	s := &scripted{watching: 1200 * time.Millisecond}
	s.set("10", "a", "b")
	began := time.Now()
	r, _ := s.cells(t, 2, nil)
	_, err := r.Cells(t.Context())
	require.NoError(t, err)
	s.set("7", "a")
	testkit.Await(t, func() error {
		cells, err := r.Cells(t.Context())
		require.NoError(t, err)
		if dark, err := unknown(cells, 1); err != nil || len(dark) > 0 {
			return fmt.Errorf("unknown are %v: %w", dark, err)
		}
		return nil
	})
	value := func(name string) float64 {
		families, err := s.registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "pharos_remediator_"+name {
				require.Len(t, f.GetMetric(), 2)
				m := f.GetMetric()[0]
				require.Equal(t, cellName(0), m.GetLabel()[0].GetValue())
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return 0
	}
	require.InDelta(t, 1, value("cell_machines"), 0)
	require.InDelta(t, 1, value("cell_watch_failures_total"), 0)
	require.Greater(t, value("cell_current_timestamp_seconds"), float64(began.Unix()))

	for i := range 2 {
		require.NoError(t, s.hub.Delete(t.Context(), &api.Cell{ObjectMeta: metav1.ObjectMeta{Name: cellName(i)}}))
	}
	_, err = r.Cells(t.Context())
	require.NoError(t, err)
	families, err := s.registry.Gather()
	require.NoError(t, err)
	require.Empty(t, families)
}
