package tree

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ManifestFile lists what a render wrote, in the format of sha256sum, so that
// the next one knows its own files from those of others.
const ManifestFile = ".pharos-rendered.sha256"

// manifest is the digest of each file, by its path.
type manifest map[string]string

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// bytes are those of the manifest file, the same for the same files.
func (m manifest) bytes() []byte {
	var out bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&out, "%s  %s\n", m[path], path)
	}
	return out.Bytes()
}

// readManifest reads that of a folder; it is empty where there is none.
func readManifest(dir string) (manifest, error) {
	name := filepath.Join(dir, ManifestFile)
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the last render wrote: %w", err)
	}
	m := manifest{}
	scanner := bufio.NewScanner(bytes.NewReader(raw))
	for line := 1; scanner.Scan(); line++ {
		sum, path, ok := strings.Cut(scanner.Text(), "  ")
		if _, err := hex.DecodeString(sum); err != nil || len(sum) != sha256.Size*2 || !ok || !filepath.IsLocal(path) {
			return nil, fmt.Errorf("%s:%d: %q is no digest and path of a file in the folder; restore the file, or render into a new folder", name, line, scanner.Text())
		}
		m[path] = sum
	}
	return m, scanner.Err()
}

// foreign lists what is in a folder and is not the render's own, as relative
// paths: files, links, and folders that hold nothing of ours. The first error
// wins, because a folder that cannot be read might hold anything.
func (m manifest) foreign(dir string) (files, folders []string, err error) {
	ours := map[string]bool{".": true, ManifestFile: true}
	for path := range m {
		for p := filepath.FromSlash(path); p != "."; p = filepath.Dir(p) {
			ours[p] = true
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case ours[relative]:
		case d.IsDir():
			folders = append(folders, relative)
		default:
			files = append(files, relative)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("looking through %s: %w", dir, err)
	}
	return files, folders, nil
}

// edited lists the render's own files that somebody has changed since.
func (m manifest) edited(dir string) ([]string, error) {
	var changed []string
	for _, path := range slices.Sorted(maps.Keys(m)) {
		raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // what is gone holds nobody's work
		}
		if err != nil {
			return nil, fmt.Errorf("looking for edits: %w", err)
		}
		if digest(raw) != m[path] {
			changed = append(changed, path)
		}
	}
	return changed, nil
}
