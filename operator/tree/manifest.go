package tree

import (
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

// manifest is the digest of each file, by its path: while a render puts files in
// place, that of before and that of after it, because either may be there.
type manifest map[string][]string

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// bytes are those of the manifest file, the same for the same files.
func (m manifest) bytes() []byte {
	var out bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(m)) {
		for _, sum := range m[path] {
			fmt.Fprintf(&out, "%s  %s\n", sum, path)
		}
	}
	return out.Bytes()
}

// wrote tells whether a render wrote this, as far as is known.
func (m manifest) wrote(path string, content []byte) bool {
	return slices.Contains(m[path], digest(content))
}

// or has what either of two manifests has.
func (m manifest) or(other manifest) manifest {
	both := manifest{}
	for _, one := range []manifest{m, other} {
		for path, sums := range one {
			both[path] = slices.Compact(slices.Sorted(slices.Values(append(both[path], sums...))))
		}
	}
	return both
}

// readManifest reads that of a folder; it is empty where there is none.
func readManifest(dir string) (manifest, error) {
	name := filepath.Join(dir, ManifestFile)
	raw, err := readRegular(os.OpenFile, name)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the last render wrote: %w", err)
	}
	m := manifest{}
	line := 0
	for text := range strings.Lines(string(raw)) {
		line++
		sum, path, ok := strings.Cut(strings.TrimRight(text, "\r\n"), "  ")
		if _, err := hex.DecodeString(sum); err != nil || len(sum) != sha256.Size*2 || !ok || !filepath.IsLocal(path) {
			return nil, fmt.Errorf("%s:%d: %.200q is no digest and path of a file in the folder; restore the file, or render into a new folder", name, line, text)
		}
		m[path] = append(m[path], sum)
	}
	return m, nil
}
