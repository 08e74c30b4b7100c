package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Place is where something is written.
type Place struct {
	File string
	Line int
}

// String gives file:line, which editors open.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Cell is a Cell and where it is written.
type Cell struct {
	v1alpha1.Cell
	At Place
}

// Fleet is what is to be rendered.
type Fleet struct {
	Federation v1alpha1.Federation
	At         Place
	// Cells in the order of their files.
	Cells []Cell
}

// at is where a cell is written.
func (f Fleet) at(name string) Place {
	i := slices.IndexFunc(f.Cells, func(c Cell) bool { return c.Name == name })
	if i < 0 {
		return f.At
	}
	return f.Cells[i].At
}

// Read reads one Federation from a file, and Cells from a file or from all YAML
// and JSON files under a folder. With no cells given, they are read from the
// file of the Federation. Each file may hold several documents, and lists as
// kubectl prints them. Everything that an API server would refuse is refused,
// all of it at once, each with file and line. What is not understood is refused,
// too: a cell that is passed over would be removed.
func Read(federation, cells string) (Fleet, error) {
	var r reader
	if err := r.file(federation); err != nil {
		return Fleet{}, err
	}
	found := len(r.federations) > 0
	if cells != "" {
		if err := r.cells(cells, federation); err != nil {
			return Fleet{}, err
		}
	}
	switch err := errors.Join(r.errs...); {
	case err != nil:
		return Fleet{}, err
	case !found:
		return Fleet{}, fmt.Errorf("%s: there is no Federation in it", federation)
	case len(r.federations) > 1:
		return Fleet{}, fmt.Errorf("%s and %s: there are several Federations; a hub has one", r.federations[0], r.federations[1])
	}
	return r.fleet, nil
}

// cells reads the Cells at a path. Those beside the Federation count only where
// its file is among them.
func (r *reader) cells(at, federation string) error {
	files, err := filesOf(at)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(files, func(f string) bool { return same(f, federation) }) {
		r.fleet.Cells = nil
	}
	for _, file := range files {
		if same(file, federation) {
			continue
		}
		if err := r.file(file); err != nil {
			return err
		}
	}
	return nil
}

// filesOf lists the files with descriptions, by path. A folder may itself be a
// link; one within it is refused, because whether it is a part of the fleet
// cannot be known, and a fleet that is read in part would remove the rest.
func filesOf(at string) ([]string, error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, fmt.Errorf("looking for cells: %w", err)
	}
	if !info.IsDir() {
		return []string{at}, nil
	}
	var files []string
	err = fs.WalkDir(os.DirFS(at), ".", func(name string, d fs.DirEntry, err error) error {
		path := filepath.Join(at, filepath.FromSlash(name))
		switch {
		case err != nil || d.IsDir():
			return err
		case d.Type() == fs.ModeSymlink:
			if target, err := os.Stat(path); err != nil {
				return err
			} else if target.IsDir() {
				return fmt.Errorf("%s is a link to a folder, and links are not followed: give that folder with --cells, or put the files here", path)
			}
		}
		if described(d.Name()) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for cells in %s: %w", at, err)
	}
	return files, nil
}

// described tells whether a file of a folder is for descriptions, by its name.
// Those that kustomize has among its resources are not, and need not say what
// they are.
func described(name string) bool {
	name = strings.ToLower(name)
	extension := filepath.Ext(name)
	return slices.Contains([]string{".yaml", ".yml", ".json"}, extension) && name != "kustomization"+extension
}

// same tells whether two paths lead to one file.
func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}
