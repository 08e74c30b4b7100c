package logs_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/logs"
)

func newLog(t *testing.T, limit int64) (*logs.Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c", "0.log")
	w, err := logs.NewWriter(path, limit, func(err error) { t.Error(err) })
	require.NoError(t, err)
	return w, path
}

func readAll(t *testing.T, path string, q logs.Query) string {
	t.Helper()
	in, err := logs.Open(t.Context(), path, q, func() bool { return true })
	require.NoError(t, err)
	data, err := io.ReadAll(in)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	return string(data)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	w, path := newLog(t, 1<<20)
	_, err := io.WriteString(w, "one\ntw")
	require.NoError(t, err)
	_, err = io.WriteString(w, "o\n\nlast")
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n\n", readAll(t, path, logs.Query{}))
	require.NoError(t, w.Close())
	require.Equal(t, "one\ntwo\n\nlast\n", readAll(t, path, logs.Query{}))
	require.Equal(t, "\nlast\n", readAll(t, path, logs.Query{Tail: 2}))
	require.Equal(t, "one\ntwo\n\nlast\n", readAll(t, path, logs.Query{Tail: 9}))
	require.Equal(t, "one\nt", readAll(t, path, logs.Query{LimitBytes: 5}))
	require.Empty(t, readAll(t, path, logs.Query{Since: time.Now().Add(time.Minute)}))
	require.Equal(t, "one\ntwo\n\nlast\n", readAll(t, path, logs.Query{Since: time.Now().Add(-time.Minute)}))
	require.Regexp(t, `(?m)^\S+Z two$`, readAll(t, path, logs.Query{Timestamps: true}))
}

func TestLongLinesAreBroken(t *testing.T) {
	w, path := newLog(t, 1<<20)
	_, err := io.WriteString(w, strings.Repeat("x", 40_000)+"\n")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(readAll(t, path, logs.Query{})), "\n")
	require.Len(t, lines, 3)
	require.Len(t, strings.Join(lines, ""), 40_000)
}

func TestSizeIsBounded(t *testing.T) {
	const limit = 20_000
	w, path := newLog(t, limit)
	for i := range 5_000 {
		_, err := fmt.Fprintln(w, "line", i)
		require.NoError(t, err)
	}
	var size int64
	for _, p := range []string{path, path + ".1"} {
		info, err := os.Stat(p)
		require.NoError(t, err)
		size += info.Size()
	}
	require.LessOrEqual(t, size, int64(limit))
	require.Equal(t, "line 4998\nline 4999\n", readAll(t, path, logs.Query{Tail: 2}))
	text := readAll(t, path, logs.Query{})
	require.Greater(t, strings.Count(text, "\n"), 200, "the rotated file is read, too")
	require.True(t, strings.HasSuffix(text, "line 4999\n"))
}

func TestFollowLosesNothing(t *testing.T) {
	w, path := newLog(t, 40_000)
	_, err := io.WriteString(w, "before\nhal")
	require.NoError(t, err)
	var complete atomic.Bool
	in, err := logs.Open(t.Context(), path, logs.Query{Follow: true}, complete.Load)
	require.NoError(t, err)
	defer in.Close()
	go func() {
		_, _ = io.WriteString(w, "f\n")
		for i := range 900 { // more than one file
			_, _ = fmt.Fprintln(w, "line", i)
			if i%100 == 0 {
				time.Sleep(30 * time.Millisecond)
			}
		}
		_ = w.Close()
		complete.Store(true)
	}()
	data, err := io.ReadAll(in)
	require.NoError(t, err)
	var want strings.Builder
	want.WriteString("before\nhalf\n")
	for i := range 900 {
		fmt.Fprintln(&want, "line", i)
	}
	require.Equal(t, want.String(), string(data))
}

func TestFollowEndsWithItsReader(t *testing.T) {
	w, path := newLog(t, 1<<20)
	_, err := io.WriteString(w, "one\n")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	in, err := logs.Open(ctx, path, logs.Query{Follow: true}, func() bool { return false })
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(in)
	require.NoError(t, err)
	require.NoError(t, in.Close())

	in, err = logs.Open(t.Context(), path, logs.Query{Follow: true}, func() bool { return false })
	require.NoError(t, err)
	require.NoError(t, in.Close(), "closing waits for the reading to end, and it does")
}

func TestNoLog(t *testing.T) {
	_, err := logs.Open(t.Context(), filepath.Join(t.TempDir(), "none"), logs.Query{}, func() bool { return true })
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestFailedWritesDoNotReachTheContainer(t *testing.T) {
	dir := t.TempDir()
	failures := 0
	w, err := logs.NewWriter(filepath.Join(dir, "c", "0.log"), 100, func(error) { failures++ })
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "c"))) // rotation fails now
	for range 10 {
		n, err := io.WriteString(w, strings.Repeat("x", 60)+"\n")
		require.NoError(t, err)
		require.Equal(t, 61, n)
	}
	require.Positive(t, failures)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "c"), 0o755)) // and works again
	_, err = io.WriteString(w, "back\n")
	require.NoError(t, err)
	require.Equal(t, "back\n", readAll(t, filepath.Join(dir, "c", "0.log"), logs.Query{}))
}
