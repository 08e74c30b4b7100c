package binaries

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// DirVariable is the environment variable that names a folder of ready
// binaries, which then stands in for the cache.
const DirVariable = "PHAROS_BIN_DIR"

// Find returns the path of one binary: in the folder that PHAROS_BIN_DIR names,
// when it is set, and in the cache otherwise. It builds nothing; its error says
// how to get what is missing.
func Find(name string) (string, error) {
	components, err := Components()
	if err != nil {
		return "", err
	}
	for _, c := range append(components, ForTests()...) {
		if c.Name == name {
			return find(c)
		}
	}
	return "", fmt.Errorf("finding %s: the local fleet has no such binary", name)
}

func find(c Component) (string, error) {
	if dir := os.Getenv(DirVariable); dir != "" {
		path := filepath.Join(dir, c.Name)
		if err := executable(path); err != nil {
			return "", fmt.Errorf("finding %s in %s=%s: %w; put it there, or unset the variable and run `pharos local binaries`",
				c.Name, DirVariable, dir, err)
		}
		return path, nil
	}
	cache, err := cacheDir("")
	if err != nil {
		return "", err
	}
	path := c.path(cache)
	if err := executable(path); err != nil {
		return "", fmt.Errorf("finding %s %s: %w; run `pharos local binaries%s` to build it, or set %s to a folder that has it",
			c.Name, c.Version, err, flagFor(c), DirVariable)
	}
	return path, nil
}

// flagFor is what the command that builds a component needs to be told.
func flagFor(c Component) string {
	if slices.ContainsFunc(ForTests(), func(t Component) bool { return t.Name == c.Name }) {
		return " --for-tests"
	}
	return ""
}

// path is where the cache keeps the component.
func (c Component) path(cache string) string {
	return filepath.Join(cache, c.Name+"-"+c.Version, c.Name)
}

// cacheDir is dir, or the user's own cache of binaries when dir is empty.
func cacheDir(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache of server binaries (set XDG_CACHE_HOME or HOME to an absolute path): %w", err)
	}
	return filepath.Join(user, "pharos", "bin"), nil
}

// executable tells why path cannot be run; nil means that it can.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("no file at %s", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable", path)
	}
	return nil
}
