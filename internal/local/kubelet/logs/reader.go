package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// pollInterval is how often a followed log is looked at.
const pollInterval = 100 * time.Millisecond

// Query says which part of a log is wanted. The zero value is the whole of it.
type Query struct {
	// Tail is the number of lines from the end, 0 for all.
	Tail int
	// LimitBytes bounds what is returned, 0 for no bound.
	LimitBytes int
	// Timestamps puts its time before each line.
	Timestamps bool
	// Since drops older lines.
	Since time.Time
	// Follow goes on until the log is complete.
	Follow bool
}

// Open returns the wanted part of the log at a path. With Follow, complete is asked whether more may come. The context
// ends the reading. Errors are fs.ErrNotExist for a log that was never written, or those of the file system.
func Open(ctx context.Context, path string, q Query, complete func() bool) (io.ReadCloser, error) {
	current, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening log: %w", err)
	}
	older, err := openOlder(path, current)
	if err != nil {
		_ = current.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	pr, pw := io.Pipe()
	r := &reader{ctx: ctx, path: path, query: q, complete: complete, current: current, older: older, out: pw, left: q.LimitBytes}
	s := &stream{PipeReader: pr, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer r.close()
		_ = pw.CloseWithError(r.run())
	}()
	return s, nil
}

// openOlder opens the rotated file. The current one is opened first, so that a rotation between the two shows as the
// same file twice, and never as a gap.
func openOlder(path string, current *os.File) (*os.File, error) {
	older, err := os.Open(path + rotated)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening rotated log: %w", err)
	}
	if same(older, current) {
		return nil, older.Close()
	}
	return older, nil
}

func same(a, b *os.File) bool {
	ai, aerr := a.Stat()
	bi, berr := b.Stat()
	return aerr == nil && berr == nil && os.SameFile(ai, bi)
}

type stream struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close ends the reading and waits for it.
func (s *stream) Close() error {
	s.cancel()
	err := s.PipeReader.Close()
	<-s.done
	return err
}

// errEnough ends a reading that reached its byte limit.
var errEnough = errors.New("enough")

type reader struct {
	ctx      context.Context
	path     string
	query    Query
	complete func() bool
	current  *os.File
	older    *os.File
	out      io.Writer
	left     int
	tail     [][]byte
}

func (r *reader) close() {
	_ = r.current.Close()
	if r.older != nil {
		_ = r.older.Close()
	}
}

func (r *reader) run() error {
	err := r.existing()
	if err == nil && r.query.Follow {
		err = r.follow()
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// existing writes what is in the files now.
func (r *reader) existing() error {
	keep := r.write
	if r.query.Tail > 0 {
		keep = r.remember
	}
	if r.older != nil {
		if _, err := lines(bufio.NewReader(r.older), nil, keep); err != nil {
			return err
		}
	}
	in := bufio.NewReader(r.current)
	rest, err := lines(in, nil, keep)
	if err != nil {
		return err
	}
	for _, entry := range r.tail {
		if err := r.write(entry); err != nil {
			return err
		}
	}
	// An entry still being written is read again by follow.
	_, err = r.current.Seek(-int64(len(rest)), io.SeekCurrent)
	return err
}

func (r *reader) remember(entry []byte) error {
	if len(r.tail) == r.query.Tail {
		r.tail = r.tail[1:]
	}
	r.tail = append(r.tail, bytes.Clone(entry))
	return nil
}

func (r *reader) follow() error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var rest []byte
	for {
		complete := r.complete() // asked before reading, so that the last lines are not missed
		var err error
		if rest, err = lines(bufio.NewReader(r.current), rest, r.write); err != nil {
			return err
		}
		if r.reopen() {
			continue
		}
		if complete {
			return nil
		}
		select {
		case <-r.ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// reopen goes on to the younger file after a rotation.
func (r *reader) reopen() bool {
	next, err := os.Open(r.path)
	if err != nil {
		return false
	}
	if same(next, r.current) {
		_ = next.Close()
		return false
	}
	_ = r.current.Close()
	r.current = next
	return true
}

// lines gives each whole entry to f, and returns the start of the entry that has no end yet.
func lines(in *bufio.Reader, rest []byte, f func([]byte) error) ([]byte, error) {
	for {
		part, err := in.ReadBytes('\n')
		rest = append(rest, part...)
		if errors.Is(err, io.EOF) {
			return rest, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading log: %w", err)
		}
		if err := f(rest); err != nil {
			return nil, err
		}
		rest = nil
	}
}

// write gives one entry to the caller, if it is wanted.
func (r *reader) write(entry []byte) error {
	stamp, text, _ := bytes.Cut(entry, []byte{' '})
	if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil && at.Before(r.query.Since) {
		return nil
	}
	if r.query.Timestamps {
		text = entry
	}
	if r.query.LimitBytes > 0 && len(text) >= r.left {
		text = text[:r.left]
	}
	r.left -= len(text)
	if _, err := r.out.Write(text); err != nil {
		return err
	}
	if r.query.LimitBytes > 0 && r.left <= 0 {
		return errEnough
	}
	return nil
}
