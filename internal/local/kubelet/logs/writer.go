// Package logs keeps the output of containers in files of bounded size, one line an entry with its time, and reads them
// back the way `kubectl logs` asks.
package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxLine is the length in bytes at which a line is broken, as container runtimes do.
const maxLine = 16 * 1024

// rotated is the suffix of the older of the two files of a log.
const rotated = ".1"

// Writer writes one log. The log takes at most its limit on disk, as two files of half of it; the older is dropped when
// the younger is full.
type Writer struct {
	mu      sync.Mutex
	path    string
	limit   int64
	now     func() time.Time
	file    *os.File
	size    int64
	partial []byte
	failed  func(error)
}

// NewWriter opens the log at a path, and creates the folder above it. The limit is in bytes. A write that fails, as on a
// full disk, is given to failed and otherwise dropped, because a container must not die of its log.
func NewWriter(path string, limit int64, failed func(error)) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating log folder: %w", err)
	}
	w := &Writer{path: path, limit: limit, now: time.Now, failed: failed}
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

// Write appends output. It never returns an error.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partial = append(w.partial, p...)
	for {
		i := bytes.IndexByte(w.partial, '\n')
		if i < 0 && len(w.partial) < maxLine {
			return len(p), nil
		}
		if i < 0 || i > maxLine {
			w.writeLine(w.partial[:maxLine])
			w.partial = w.partial[maxLine:]
			continue
		}
		w.writeLine(w.partial[:i])
		w.partial = w.partial[i+1:]
	}
}

// Close writes the last line, if it has no end, and closes the file.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.partial) > 0 {
		w.writeLine(w.partial)
		w.partial = nil
	}
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

func (w *Writer) open() error {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("opening log: %w", err)
	}
	w.file, w.size = f, info.Size()
	return nil
}

func (w *Writer) writeLine(line []byte) {
	entry := w.now().UTC().AppendFormat(nil, time.RFC3339Nano)
	entry = append(append(append(entry, ' '), line...), '\n')
	if err := w.rotate(int64(len(entry))); err != nil {
		w.failed(err)
		return
	}
	n, err := w.file.Write(entry)
	w.size += int64(n)
	if err != nil {
		w.failed(err)
	}
}

// rotate makes room for an entry, and opens the file again when an earlier rotation could not.
func (w *Writer) rotate(entry int64) error {
	if w.file != nil && (w.size == 0 || w.size+entry <= w.limit/2) {
		return nil
	}
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
		if err := os.Rename(w.path, w.path+rotated); err != nil {
			return fmt.Errorf("rotating log: %w", err)
		}
	}
	return w.open()
}
