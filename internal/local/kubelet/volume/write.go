package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dataLink is the symbolic link whose exchange makes a new set of files visible, as in Kubernetes: each file of the
// volume is a link through it. Programs that watch for it by name go on working.
const dataLink = "..data"

// Write puts a payload into a folder, and reports whether anything changed. Readers see all of the old files or all of
// the new. Other entries of the folder, such as mounts inside of it, are left alone.
func Write(dir string, p Payload) (changed bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("creating volume: %w", err)
	}
	current, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading volume: %w", err)
	}
	if current != "" && holds(filepath.Join(dir, current), p) {
		return false, link(dir, p)
	}
	next, err := writeSet(dir, p)
	if err != nil {
		return false, err
	}
	if err := swap(dir, next); err != nil {
		return false, err
	}
	if err := link(dir, p); err != nil {
		return false, err
	}
	return true, clean(dir, next)
}

// holds says whether a set on disk is exactly the payload.
func holds(set string, p Payload) bool {
	found, differs := 0, false
	err := filepath.WalkDir(set, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(set, path)
		if err != nil {
			return err
		}
		want, ok := p[filepath.ToSlash(rel)]
		if !ok || !holdsFile(path, want) {
			differs = true
			return fs.SkipAll
		}
		found++
		return nil
	})
	return err == nil && !differs && found == len(p)
}

func holdsFile(path string, want File) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != want.Mode.Perm() {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && bytes.Equal(data, want.Data)
}

// writeSet writes the files into a new hidden folder, and returns its name.
func writeSet(dir string, p Payload) (name string, err error) {
	set, err := os.MkdirTemp(dir, "..set-")
	if err != nil {
		return "", fmt.Errorf("writing volume: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(set)
		}
	}()
	if err := os.Chmod(set, 0o700); err != nil {
		return "", fmt.Errorf("writing volume: %w", err)
	}
	for rel, f := range p {
		if err := writeFile(filepath.Join(set, filepath.FromSlash(rel)), f); err != nil {
			return "", fmt.Errorf("writing volume: %w", err)
		}
	}
	return filepath.Base(set), nil
}

func writeFile(path string, f File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, f.Data, 0o600); err != nil {
		return err
	}
	return os.Chmod(path, f.Mode.Perm()) // after the write, and whatever the umask
}

func swap(dir, set string) error {
	tmp := filepath.Join(dir, "..data_tmp")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("exchanging volume: %w", err)
	}
	if err := os.Symlink(set, tmp); err != nil {
		return fmt.Errorf("exchanging volume: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, dataLink)); err != nil {
		return fmt.Errorf("exchanging volume: %w", err)
	}
	return nil
}

// link makes the visible links of a payload: one for each first path element.
func link(dir string, p Payload) error {
	for rel := range p {
		first, _, _ := strings.Cut(rel, "/")
		err := os.Symlink(filepath.Join(dataLink, first), filepath.Join(dir, first))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("linking volume: %w", err)
		}
	}
	return nil
}

// clean removes older sets, and visible links that lead nowhere any more.
func clean(dir, current string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cleaning volume: %w", err)
	}
	for _, e := range entries {
		if !obsolete(dir, e, current) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("cleaning volume: %w", err)
		}
	}
	return nil
}

func obsolete(dir string, e fs.DirEntry, current string) bool {
	if strings.HasPrefix(e.Name(), "..set-") {
		return e.Name() != current
	}
	path := filepath.Join(dir, e.Name())
	target, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(target, dataLink+string(filepath.Separator)) {
		return false
	}
	_, err = os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
