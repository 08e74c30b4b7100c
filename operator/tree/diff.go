package tree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/pmezard/go-difflib/difflib"
)

// Diff writes, as unified diffs, what Write would change in a folder, and gives
// the sum of it. What Write would refuse is an error, after everything has been
// shown. Nothing is written to the folder.
func (t *Tree) Diff(ctx context.Context, dir string, out io.Writer) (s Summary, err error) {
	d, err := open(dir)
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = d.Close() }() // nothing was written
	err = t.Each(func(f File) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		there, differs, err := d.compare(f)
		if err != nil || !differs {
			return err
		}
		return diffFile(f.Path, there, f.Content, out)
	})
	if err != nil {
		return Summary{}, err
	}
	if err := d.leave(); err != nil {
		return Summary{}, err
	}
	for _, name := range d.gone {
		there, err := readRegular(d.OpenFile, name)
		if err != nil {
			return Summary{}, fmt.Errorf("looking at what is there: %w", err)
		}
		if err := diffFile(name, there, nil, out); err != nil {
			return Summary{}, err
		}
	}
	if s, err = d.summary(); err != nil {
		return Summary{}, err
	}
	return s, d.refusal()
}

// diffFile shows how one file changes; nil is one that is not there.
func diffFile(name string, before, now []byte, out io.Writer) error {
	d := difflib.UnifiedDiff{FromFile: "a/" + name, ToFile: "b/" + name, Context: 3, A: split(before), B: split(now)}
	if before == nil {
		d.FromFile = os.DevNull
	}
	if now == nil {
		d.ToFile = os.DevNull
	}
	if err := difflib.WriteUnifiedDiff(out, d); err != nil {
		return fmt.Errorf("writing differences: %w", err)
	}
	return nil
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
