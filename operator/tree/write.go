package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// staging is where a render writes what is to be put in place. Its name is
// always the same, so that the next render removes what one that was killed left.
const staging = ".pharos-rendering"

// Write renders the tree into a folder. Nothing in it changes before everything
// has been rendered and is known to be in nobody's way: a file of others where
// one must be, and a file that was rendered before and edited since, are refused
// and named. Then one file after the other takes its place. If that is ended
// between two of them, the next render knows both kinds for its own, and goes on.
// Files and folders of others stay as they are.
func (t *Tree) Write(ctx context.Context, dir string) (s Summary, err error) {
	made, err := makeFolder(dir)
	if err != nil {
		return Summary{}, err
	}
	d, err := open(dir)
	if err != nil {
		return Summary{}, err
	}
	lock, err := d.lock()
	if err != nil {
		return Summary{}, errors.Join(err, d.Close())
	}
	defer func() {
		if failed := d.RemoveAll(staging); failed != nil {
			err = errors.Join(err, fmt.Errorf("removing what is not needed any more: %w", failed))
		}
		_, _ = lock.Close(), d.Close() // nothing was written to either
		if made && err != nil {
			_ = os.Remove(dir) // if it is empty
		}
	}()
	if err := d.stage(ctx, t); err != nil {
		return Summary{}, err
	}
	if s, err = d.summary(); err != nil {
		return Summary{}, err
	}
	return s, d.put()
}

// makeFolder makes a folder, and those that it lies in, and says whether it was not
// there before.
func makeFolder(dir string) (made bool, err error) {
	if err = os.MkdirAll(filepath.Dir(dir), 0o755); err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("making the folder to render into: %w", err)
	}
	return err == nil, nil
}

// lock keeps two renders from working in one folder. It ends with the process.
func (d *folder) lock() (*os.File, error) {
	f, err := d.Open(".")
	if err != nil {
		return nil, fmt.Errorf("opening the folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another render is at work in %s; let it end, and render again", d.Name())
		}
		return nil, fmt.Errorf("locking %s against other renders: %w", d.Name(), err)
	}
	return f, nil
}

// stage renders everything and keeps what differs from what is there.
func (d *folder) stage(ctx context.Context, t *Tree) error {
	if err := d.RemoveAll(staging); err != nil {
		return fmt.Errorf("removing what a render that was ended has left: %w", err)
	}
	err := t.Each(func(f File) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, differs, err := d.compare(f)
		if err != nil || !differs {
			return err
		}
		return d.write(path.Join(staging, f.Path), f.Content)
	})
	if err != nil {
		return err
	}
	if err := d.leave(); err != nil {
		return err
	}
	return d.refusal()
}

func (d *folder) write(name string, content []byte) error {
	if err := d.make(path.Dir(name)); err != nil {
		return err
	}
	if err := d.WriteFile(name, content, 0o644); err != nil {
		return fmt.Errorf("writing a rendered file: %w", err)
	}
	return nil
}

// put has every file take its place. What the manifest says is true all the
// while.
func (d *folder) put() error {
	if len(d.changed)+len(d.gone) > 0 {
		if err := d.tell(d.before.or(d.now)); err != nil {
			return err
		}
	}
	for _, name := range d.changed {
		if err := d.take(name); err != nil {
			return err
		}
	}
	for _, name := range d.gone {
		if err := d.remove(name); err != nil {
			return err
		}
	}
	if maps.EqualFunc(d.before, d.now, slices.Equal) && len(d.changed) == 0 {
		return nil
	}
	return d.tell(d.now)
}

// tell writes the manifest.
func (d *folder) tell(m manifest) error {
	if err := d.write(path.Join(staging, ManifestFile), m.bytes()); err != nil {
		return err
	}
	return d.take(ManifestFile)
}

// take puts a file that is ready in its place.
func (d *folder) take(name string) error {
	if err := d.make(path.Dir(name)); err != nil {
		return err
	}
	if err := d.Rename(path.Join(staging, name), name); err != nil {
		return fmt.Errorf("putting a rendered file in its place: %w", err)
	}
	return nil
}

// remove removes a file, and the folders that it was the last one in.
func (d *folder) remove(name string) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what is rendered no more: %w", err)
	}
	for name = path.Dir(name); name != "."; name = path.Dir(name) {
		err := d.Remove(name)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a folder that is empty now: %w", err)
		}
	}
	return nil
}
