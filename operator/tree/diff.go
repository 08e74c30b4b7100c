package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pmezard/go-difflib/difflib"
)

// Diff writes, as unified diffs, what Write would change in a folder, and tells
// whether that is anything. Files that are neither rendered now nor were by an
// earlier render do not count. Nothing is written to the folder.
func (t *Tree) Diff(ctx context.Context, dir string, out io.Writer) (differs bool, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return false, errors.Join(fmt.Errorf("comparing with %s: it is no folder", dir), err)
	}
	gone, err := readManifest(dir)
	if err != nil {
		return false, err
	}
	err = t.Each(func(f File) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		delete(gone, f.Path)
		changed, err := diffFile(dir, f.Path, f.Content, out)
		differs = differs || changed
		return err
	})
	if err != nil {
		return differs, err
	}
	for _, path := range slices.Sorted(maps.Keys(gone)) {
		changed, err := diffFile(dir, path, nil, out)
		differs = differs || changed
		if err != nil {
			return differs, err
		}
	}
	return differs, nil
}

// diffFile compares one file; nil is one that is not rendered any more.
func diffFile(dir, path string, now []byte, out io.Writer) (bool, error) {
	before, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return false, fmt.Errorf("comparing: %w", err)
	}
	if missing == (now == nil) && bytes.Equal(before, now) {
		return false, nil
	}
	d := difflib.UnifiedDiff{FromFile: "a/" + path, ToFile: "b/" + path, Context: 3, A: split(before), B: split(now)}
	if missing {
		d.FromFile = os.DevNull
	}
	if now == nil {
		d.ToFile = os.DevNull
	}
	if err := difflib.WriteUnifiedDiff(out, d); err != nil {
		return true, fmt.Errorf("writing differences: %w", err)
	}
	return true, nil
}

// split gives lines with their ends. A last line without one says so, as diff does.
func split(content []byte) []string {
	var lines []string
	for line := range bytes.Lines(content) {
		lines = append(lines, string(line))
	}
	if n := len(lines); n > 0 && !bytes.HasSuffix(content, []byte("\n")) {
		lines[n-1] += "\n\\ No newline at end of file\n"
	}
	return lines
}
