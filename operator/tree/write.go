package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Summary is what a render did to a folder.
type Summary struct {
	// Files counts what is rendered, Changed those of them that are new or
	// differ from before, Removed those of before that are no more.
	Files, Changed, Removed int
}

// Write renders the tree into a folder, whole or not at all: into a new folder
// beside it, which then takes its place at once. Files of others in the folder
// stay as they are. A file of others where one must be written, and a file that
// was rendered before and edited since, are refused and named; then nothing is
// written.
func (t *Tree) Write(ctx context.Context, dir string) (s Summary, err error) {
	dir, err = resolve(dir)
	if err != nil {
		return Summary{}, err
	}
	before, err := readManifest(dir)
	if err != nil {
		return Summary{}, err
	}
	files, folders, err := others(before, dir)
	if err != nil {
		return Summary{}, err
	}
	edited, err := before.edited(dir)
	if err != nil {
		return Summary{}, err
	}
	if len(edited) > 0 {
		return Summary{}, fmt.Errorf("%s was rendered and has been edited since, in %s: make the change where it is rendered from, or delete the file, and render again", dir, some(edited))
	}
	beside, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return Summary{}, fmt.Errorf("making a folder to render into: %w", err)
	}
	defer func() { // what is beside is the new tree if something failed, else the old one
		if failed := os.RemoveAll(beside); failed != nil {
			err = errors.Join(err, fmt.Errorf("removing what is not needed any more: %w", failed))
		}
	}()
	now, err := t.into(ctx, beside)
	if err != nil {
		return Summary{}, err
	}
	if err := carry(dir, beside, files, folders); err != nil {
		return Summary{}, err
	}
	if err := swap(beside, dir); err != nil {
		return Summary{}, err
	}
	return compare(before, now), nil
}

// resolve gives the folder itself where it is a link, and refuses what is none.
func resolve(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding the folder to render into: %w", err)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil
	case err != nil:
		return "", fmt.Errorf("finding the folder to render into: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("%s is a file; give a folder to render into", dir)
	}
	return filepath.EvalSymlinks(dir)
}

// others are what a folder holds beside the tree that was rendered into it.
func others(before manifest, dir string) (files, folders []string, err error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	return before.foreign(dir)
}

// into writes every file under an empty folder.
func (t *Tree) into(ctx context.Context, dir string) (manifest, error) {
	now := manifest{}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	err := t.Each(func(f File) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		now[f.Path] = digest(f.Content)
		return put(filepath.Join(dir, filepath.FromSlash(f.Path)), f.Content)
	})
	if err != nil {
		return nil, err
	}
	return now, put(filepath.Join(dir, ManifestFile), now.bytes())
}

func put(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return fmt.Errorf("writing a rendered file: %w", err)
	}
	return nil
}

// carry brings what is others' into the new tree: the same files under a second
// name, so that nothing is lost whenever the process ends.
func carry(from, to string, files, folders []string) error {
	var taken []string
	for _, folder := range folders {
		if err := carryFolder(from, to, folder); err != nil {
			return err
		}
	}
	for _, file := range files {
		target := filepath.Join(to, file)
		if _, err := os.Lstat(target); err == nil {
			taken = append(taken, file)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("keeping %s: %w", file, err)
		}
		if err := os.Link(filepath.Join(from, file), target); err != nil {
			return fmt.Errorf("keeping %s: %w", file, err)
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("%s holds %s, which would be rendered and was not written by an earlier render: move it away, or give another folder", from, some(taken))
	}
	return nil
}

func carryFolder(from, to, folder string) error {
	info, err := os.Stat(filepath.Join(from, folder))
	if err != nil {
		return fmt.Errorf("keeping %s: %w", folder, err)
	}
	if err := os.MkdirAll(filepath.Join(to, folder), info.Mode().Perm()); err != nil {
		return fmt.Errorf("keeping %s, where there is a rendered file now: %w", folder, err)
	}
	return nil
}

// swap has the new tree take the folder's place in one step.
func swap(beside, dir string) error {
	err := unix.Renameat2(unix.AT_FDCWD, beside, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) { // there is none yet
		err = unix.Renameat2(unix.AT_FDCWD, beside, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return fmt.Errorf("putting the rendered tree in the place of %s, which must be a folder of a local file system and no mount point: %w", dir, err)
	}
	return nil
}

func compare(before, now manifest) Summary {
	s := Summary{Files: len(now)}
	for path, sum := range now {
		if before[path] != sum {
			s.Changed++
		}
	}
	for path := range before {
		if _, still := now[path]; !still {
			s.Removed++
		}
	}
	return s
}

// some names a few of many.
func some(paths []string) string {
	const few = 5
	paths = slices.Sorted(slices.Values(paths))
	if len(paths) <= few {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(paths[:few], ", "), len(paths)-few)
}
