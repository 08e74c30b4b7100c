package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"
)

// build makes one binary and puts it into the cache. It works in a folder of
// its own in the cache, so that the last step is a rename on one file system
// and a full disk or an interruption leaves nothing behind.
func build(ctx context.Context, cache string, c Component) (err error) {
	work, err := os.MkdirTemp(cache, workPrefix)
	if err != nil {
		return explain(fmt.Errorf("making the build folder of %s: %w", c.Name, err), cache)
	}
	defer func() {
		if gone := os.RemoveAll(work); gone != nil {
			err = errors.Join(err, fmt.Errorf("removing the build folder of %s: %w", c.Name, gone))
		}
	}()
	built, err := compile(ctx, cache, work, c)
	if err != nil {
		return err
	}
	if err := settle(built, c.path(cache)); err != nil {
		return explain(fmt.Errorf("putting %s into the cache: %w", c.Name, err), cache)
	}
	return nil
}

// compile runs the go command and returns the path of the fresh binary.
func compile(ctx context.Context, cache, work string, c Component) (string, error) {
	src, out, tmp := filepath.Join(work, "src"), filepath.Join(work, "out"), filepath.Join(work, "tmp")
	for _, dir := range []string{src, out, tmp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", explain(fmt.Errorf("making the build folder of %s: %w", c.Name, err), cache)
		}
	}
	if err := unpack(c.source, src); err != nil {
		return "", explain(fmt.Errorf("unpacking the module of %s: %w", c.Name, err), cache)
	}
	built := filepath.Join(out, c.Name)
	log := filepath.Join(cache, "logs", c.Name+"-"+c.Version+".log")
	output, err := runGo(ctx, goRun{args: c.goArgs(built), dir: src, bin: out, tmp: tmp, log: log, mark: cache})
	if err != nil {
		return "", c.diagnose(ctx, failure{err: err, output: output, log: log, cache: cache})
	}
	if err := executable(built); err != nil {
		return "", fmt.Errorf("building %s: the go command on PATH says that it succeeded and made no program: %s; the whole output is in %s: %w",
			c.Name, getGo, log, err)
	}
	return built, nil
}

// goArgs are the arguments of the go command. A binary is built the same
// wherever the cache is, so that Go's own cache serves all of them.
func (c Component) goArgs(built string) []string {
	flags := []string{"-trimpath", "-ldflags", strings.Join(append([]string{"-s", "-w"}, c.linking...), " ")}
	if c.source == nil {
		return append(append([]string{"install"}, flags...), c.pkg+"@"+c.Version)
	}
	return append(append([]string{"build"}, flags...), "-o", built, c.pkg)
}

func unpack(archive []byte, dir string) error {
	for _, file := range txtar.Parse(archive).Files {
		path := filepath.Join(dir, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, file.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// settle moves a finished binary to its place. It is synced first: after a
// power cut, the name must not stand for an empty file.
func settle(built, place string) error {
	if err := syncFile(built); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return err
	}
	return os.Rename(built, place)
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
