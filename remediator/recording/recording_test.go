package recording_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/remediator/recording"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// byHand is the snapshot that the reference shows, as at an instant.
func byHand(t *testing.T, at time.Time) snapshot.Snapshot {
	t.Helper()
	f, err := os.Open("../snapshot/testdata/by-hand.yaml")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	s, err := snapshot.Read(f)
	require.NoError(t, err)
	s.Now = at
	return s
}

// recorder records in a folder until the function that it comes with is called.
func recorder(t *testing.T, o recording.Options) (*recording.Recorder, func()) {
	t.Helper()
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	r, err := recording.New(o)
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	stop := func() { end(); <-ended }
	t.Cleanup(stop)
	return r, stop
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// offer offers what is decided of a snapshot, and waits until it is written or never will.
func offer(t *testing.T, r *recording.Recorder, dir string, s snapshot.Snapshot, reason string) {
	t.Helper()
	v := snapshot.VerdictOf(s.Decide(), s.Now)
	v.Withdrawals = append(v.Withdrawals, reason)
	before := len(files(t, dir))
	r.Offer(s, v)
	require.Eventually(t, func() bool { return len(files(t, dir)) != before || before > 1 }, 10*time.Second, time.Millisecond)
}

// Case C32: why something was done can be asked again later.
// Case C43: the same is decided of what was recorded.
func TestTheSameIsDecidedOfWhatWasRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	r, stop := recorder(t, recording.Options{Dir: dir})
	s := byHand(t, start)
	offer(t, r, dir, s, "")
	stop()
	require.Equal(t, []string{"20260301T120000.000Z" + recording.Suffix}, files(t, dir))
	f, err := os.Open(filepath.Join(dir, files(t, dir)[0]))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	read, err := snapshot.Read(f)
	require.NoError(t, err)
	require.Equal(t, snapshot.VerdictOf(s.Decide(), s.Now), snapshot.VerdictOf(read.Decide(), read.Now))
}

// The same verdict in other words, such as with other ages, is recorded every five minutes.
func TestWhatIsDecidedAsBeforeIsRecordedSeldom(t *testing.T) {
	dir := t.TempDir()
	r, stop := recorder(t, recording.Options{Dir: dir})
	offer(t, r, dir, byHand(t, start), "")
	for _, later := range []time.Duration{time.Second, 4 * time.Minute} {
		s := byHand(t, start.Add(later))
		v := snapshot.VerdictOf(byHand(t, start).Decide(), s.Now)
		v.Withdrawals = []string{""}
		for i := range v.Decisions {
			v.Decisions[i].Message = later.String()
		}
		require.Equal(t, "20260301T120000.000Z"+recording.Suffix, r.Offer(s, v), "the same was decided there")
	}
	s := byHand(t, start.Add(recording.DefaultEvery))
	v := snapshot.VerdictOf(byHand(t, start).Decide(), s.Now)
	v.Withdrawals = []string{""}
	require.Equal(t, "20260301T120500.000Z"+recording.Suffix, r.Offer(s, v))
	stop()
	require.Equal(t, []string{"20260301T120000.000Z" + recording.Suffix, "20260301T120500.000Z" + recording.Suffix}, files(t, dir))
}

func TestTheOldestGo(t *testing.T) {
	for name, o := range map[string]recording.Options{
		"too old":  {MaxAge: 90 * time.Minute},
		"too many": {MaxBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o.Dir = t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "notes.txt"), []byte("of the team"), 0o600))
			for hour := range 3 {
				r, stop := recorder(t, o)
				r.Offer(byHand(t, start.Add(time.Duration(hour)*time.Hour)), snapshot.Verdict{})
				stop()
			}
			kept := []string{"20260301T140000.000Z" + recording.Suffix, "notes.txt"}
			if o.MaxAge > 0 {
				kept = append([]string{"20260301T130000.000Z" + recording.Suffix}, kept...)
			}
			require.Equal(t, kept, files(t, o.Dir), "what is not ours stays")
		})
	}
}

func TestWhatIsHalfWrittenGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "asia[1")
	require.NoError(t, os.Mkdir(dir, 0o700))
	half := filepath.Join(dir, "20260301T110000.000Z"+recording.Suffix+".half")
	require.NoError(t, os.WriteFile(half, []byte("half"), 0o600))
	_, stop := recorder(t, recording.Options{Dir: dir})
	stop()
	require.Empty(t, files(t, dir))
}

// A folder that is gone, as one whose disk is full, costs a snapshot and nothing else.
func TestWhatCannotBeWrittenIsCounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	registry := prometheus.NewPedanticRegistry()
	r, stop := recorder(t, recording.Options{Dir: dir, Registry: registry})
	require.NoError(t, os.Remove(dir))
	r.Offer(byHand(t, start), snapshot.Verdict{})
	stop()
	require.Equal(t, 1, testutil.CollectAndCount(registry, "pharos_remediator_snapshots_dropped_total"))
	metrics, err := registry.Gather()
	require.NoError(t, err)
	for _, m := range metrics {
		if m.GetName() == "pharos_remediator_snapshots_dropped_total" {
			require.EqualValues(t, 1, m.GetMetric()[0].GetCounter().GetValue())
		}
	}
}

// Nobody writes, and one waits already: whoever decides goes on.
func TestNobodyWaitsForTheDisk(t *testing.T) {
	registry := prometheus.NewRegistry()
	r, err := recording.New(recording.Options{Dir: t.TempDir(), Registry: registry})
	require.NoError(t, err)
	for minute := range 3 {
		file := r.Offer(byHand(t, start.Add(time.Duration(minute)*time.Hour)), snapshot.Verdict{})
		require.Equal(t, minute > 0, file == "", "what is dropped has no name")
	}
	metrics, err := registry.Gather()
	require.NoError(t, err)
	for _, m := range metrics {
		if m.GetName() == "pharos_remediator_snapshots_dropped_total" {
			require.EqualValues(t, 2, m.GetMetric()[0].GetCounter().GetValue())
		}
	}
}

func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := recording.New(recording.Options{Dir: file, Registry: prometheus.NewRegistry()})
	require.ErrorContains(t, err, "setting up the record of decisions")
	_, err = recording.New(recording.Options{Dir: t.TempDir(), MaxBytes: -1, Registry: prometheus.NewRegistry()})
	require.ErrorContains(t, err, "below zero")
}

func TestBetween(t *testing.T) {
	dir := t.TempDir()
	r, stop := recorder(t, recording.Options{Dir: dir})
	for hour := range 3 {
		offer(t, r, dir, byHand(t, start.Add(time.Duration(hour)*time.Hour)), "")
		require.Eventually(t, func() bool { return len(files(t, dir)) == hour+1 }, 10*time.Second, time.Millisecond)
	}
	stop()
	for _, c := range []struct {
		from, to time.Time
		want     []string
	}{
		{time.Time{}, time.Time{}, files(t, dir)},
		{start.Add(time.Hour), time.Time{}, files(t, dir)[1:]},
		{time.Time{}, start.Add(time.Hour), files(t, dir)[:2]},
		{start.Add(time.Minute), start.Add(time.Hour), files(t, dir)[1:2]},
	} {
		paths, err := recording.Between(dir, c.from, c.to)
		require.NoError(t, err)
		for i := range paths {
			paths[i] = filepath.Base(paths[i])
		}
		require.Equal(t, c.want, paths)
	}
	_, err := recording.Between(dir, start.Add(time.Minute), start.Add(2*time.Minute))
	require.ErrorContains(t, err, "has those of 20260301T120000.000Z to 20260301T140000.000Z, and none in the time that is asked for")
	s, err := recording.Open(filepath.Join(dir, files(t, dir)[1]))
	require.NoError(t, err)
	require.Equal(t, start.Add(time.Hour), s.Now)
	renamed := filepath.Join(dir, "20260301T123000.000Z"+recording.Suffix)
	require.NoError(t, os.Rename(filepath.Join(dir, files(t, dir)[1]), renamed))
	_, err = recording.Open(renamed)
	require.ErrorContains(t, err, "it is of 2026-03-01T13:00:00Z, which is not what its name says")
}
