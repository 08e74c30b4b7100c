package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

const (
	// stamp makes names that sort by time.
	stamp = "20060102T150405.000Z"
	// Suffix is how the name of each file ends, and half how it does until it is whole.
	Suffix = ".snapshot.json.zst"
	half   = ".half"
)

// name is how the file of a snapshot as at an instant is called.
func name(at time.Time) string { return at.UTC().Format(stamp) + Suffix }

// write writes a snapshot so that whoever lists the folder finds it whole or not at all.
func write(dir string, s snapshot.Snapshot) (err error) {
	path := filepath.Join(dir, name(s.Now))
	f, err := os.OpenFile(path+half, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path+half))
		}
	}()
	if err := errors.Join(compress(f, s), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+half, path)
}

func compress(f *os.File, s snapshot.Snapshot) error {
	z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return errors.Join(snapshot.Write(z, s), z.Close())
}

// Last is the path of the newest snapshot in a folder that is no newer than an instant.
func Last(dir string, at time.Time) (string, error) {
	paths, err := Between(dir, time.Time{}, at)
	if err != nil {
		return "", err
	}
	return paths[len(paths)-1], nil
}

// Between are the paths of the snapshots in a folder that are no older than one instant
// and no newer than another, the oldest first. Zero is no bound. It fails if there is none.
func Between(dir string, from, to time.Time) ([]string, error) {
	all, err := list(dir, Suffix)
	if err != nil {
		return nil, fmt.Errorf("looking for a snapshot: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("looking for a snapshot: there is none in %s: is it the folder of the remediator's --record?", dir)
	}
	var paths []string
	for _, entry := range all {
		if (from.IsZero() || entry.Name() >= name(from)) && (to.IsZero() || entry.Name() <= name(to)) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	if len(paths) > 0 {
		return paths, nil
	}
	oldest, newest := strings.TrimSuffix(all[0].Name(), Suffix), strings.TrimSuffix(all[len(all)-1].Name(), Suffix)
	if from.IsZero() {
		return nil, fmt.Errorf("looking for a snapshot: the oldest in %s is of %s, after %s", dir, oldest, to.UTC().Format(time.RFC3339))
	}
	return nil, fmt.Errorf("looking for a snapshot: %s has those of %s to %s, and none in the time that is asked for", dir, oldest, newest)
}

// Open reads a snapshot that was recorded. It refuses one that is not of the instant in
// its name, by which it would be taken out of turn.
func Open(path string) (s snapshot.Snapshot, err error) {
	// Whoever opens a pipe waits for what may never come.
	if info, err := os.Stat(path); err != nil {
		return s, fmt.Errorf("reading a snapshot: %w", err)
	} else if !info.Mode().IsRegular() {
		return s, fmt.Errorf("%s: reading a snapshot: it is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return s, fmt.Errorf("reading a snapshot: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	if s, err = snapshot.Read(f); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if filepath.Base(path) != name(s.Now) {
		return s, fmt.Errorf("%s: reading a snapshot: it is of %s, which is not what its name says: was it renamed?", path, s.Now.UTC().Format(time.RFC3339Nano))
	}
	return s, nil
}

// list gives what is in a folder and called in a way, sorted by name, and so by time.
func list(dir, suffix string) ([]os.DirEntry, error) {
	all, err := os.ReadDir(dir)
	return slices.DeleteFunc(all, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), suffix) }), err
}

// clean removes what was not written to its end.
func clean(dir string) error {
	left, err := list(dir, Suffix+half)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range left {
		errs = append(errs, os.Remove(filepath.Join(dir, entry.Name())))
	}
	return errors.Join(errs...)
}

// prune removes the oldest files until what is left has no more bytes than may be, and
// none from before an instant; the newest stays. It returns how many bytes are left.
func prune(dir string, most int64, before time.Time) (int64, error) {
	all, err := list(dir, Suffix)
	if err != nil {
		return 0, err
	}
	type file struct {
		name string
		size int64
	}
	var files []file
	var total int64
	for _, entry := range all {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody else took it away
		}
		if err != nil {
			return 0, err
		}
		files = append(files, file{entry.Name(), info.Size()})
		total += info.Size()
	}
	for len(files) > 1 && (total > most || files[0].name < name(before)) {
		if err := os.Remove(filepath.Join(dir, files[0].name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return total, err
		}
		total -= files[0].size
		files = files[1:]
	}
	return total, nil
}
