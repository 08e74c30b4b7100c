package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Summary is what a render did to a folder, or would do.
type Summary struct {
	// Files counts what is rendered, Changed those of them that are new or
	// differ from what is there, Removed those of before that are no more.
	Files, Changed, Removed int
	// Strays are files of others among the manifests: who applies the folder
	// applies them, too.
	Strays []string
}

// folder is one that is rendered into, as it is before. No path leads out of it,
// whatever links it holds.
type folder struct {
	*os.Root
	before, now manifest
	// changed are files to write, gone those to remove.
	changed, gone []string
	// edited are rendered files with somebody's work in them, foreign are things
	// of others where a rendered file must be. One of either is enough to refuse
	// the whole.
	edited, foreign []string
	// made are the folders that are known to be there.
	made map[string]bool
}

// make makes a folder, and those that it lies in.
func (d *folder) make(name string) error {
	if d.made[name] {
		return nil
	}
	if err := d.MkdirAll(name, 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	d.made[name] = true
	return nil
}

// open opens a folder that is there.
func open(dir string) (*folder, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for the folder: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a file; give a folder", dir)
	}
	before, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder: %w", err)
	}
	return &folder{Root: root, before: before, now: manifest{}, made: map[string]bool{}}, nil
}

// compare notes what a rendered file means for the folder, and gives what is
// there; nil is nothing.
func (d *folder) compare(f File) (there []byte, differs bool, err error) {
	d.now[f.Path] = []string{digest(f.Content)}
	there, err = readRegular(d.OpenFile, f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, errIrregular), errors.Is(err, unix.ENOTDIR):
		d.foreign = append(d.foreign, d.inTheWay(f.Path))
		return nil, true, nil
	case err != nil:
		return nil, false, fmt.Errorf("looking at what is there: %w", err)
	case string(there) == string(f.Content):
		return there, false, nil
	case d.before.wrote(f.Path, there):
	case len(d.before[f.Path]) > 0:
		d.edited = append(d.edited, f.Path)
	default:
		d.foreign = append(d.foreign, f.Path)
	}
	d.changed = append(d.changed, f.Path)
	return there, true, nil
}

// inTheWay is what is where a file or a folder that it is in must be.
func (d *folder) inTheWay(name string) string {
	for ; name != "."; name = path.Dir(name) {
		if _, err := d.Lstat(name); err == nil {
			break
		}
	}
	return name
}

// leave notes which files of before are rendered no more, after all that are
// have been compared.
func (d *folder) leave() error {
	for _, name := range slices.Sorted(maps.Keys(d.before)) {
		if len(d.now[name]) > 0 {
			continue
		}
		there, err := readRegular(d.OpenFile, name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR): // what is gone holds nobody's work
		case errors.Is(err, errIrregular):
			d.edited = append(d.edited, name)
		case err != nil:
			return fmt.Errorf("looking at what is there: %w", err)
		default:
			d.gone = append(d.gone, name)
			if !d.before.wrote(name, there) {
				d.edited = append(d.edited, name)
			}
		}
	}
	return nil
}

// refusal says what must not be overwritten or removed; nil is nothing.
func (d *folder) refusal() error {
	var errs []error
	if len(d.edited) > 0 {
		errs = append(errs, fmt.Errorf("%s was rendered and has been edited since, in %s: make the change where it is rendered from, or delete the file, and render again", d.Name(), some(d.edited)))
	}
	if len(d.foreign) > 0 {
		errs = append(errs, fmt.Errorf("%s holds %s, where something would be rendered, and no earlier render wrote it: move it away, or give another folder", d.Name(), some(d.foreign)))
	}
	return errors.Join(errs...)
}

// strays are files among the manifests that are none of the render's.
func (d *folder) strays() ([]string, error) {
	folders := map[string]bool{}
	for name := range d.now {
		if dir := path.Dir(name); path.Base(dir) == manifests {
			folders[dir] = true
		}
	}
	var all []string
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		entries, err := fs.ReadDir(d.FS(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return nil, fmt.Errorf("looking for files of others: %w", err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if described(e.Name()) && len(d.now[name])+len(d.before[name]) == 0 {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// summary is what there is to do.
func (d *folder) summary() (Summary, error) {
	strays, err := d.strays()
	return Summary{Files: len(d.now), Changed: len(d.changed), Removed: len(d.gone), Strays: strays}, err
}

// some names a few of many.
func some(paths []string) string {
	const few = 5
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	if len(paths) <= few {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(paths[:few], ", "), len(paths)-few)
}
