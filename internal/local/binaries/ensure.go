package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/proc"
)

// Options say where the binaries come from. The zero value means the folder of
// PHAROS_BIN_DIR, or the user's cache when the variable is not set.
type Options struct {
	// BinDir is a folder of ready binaries. Nothing is built when it is given.
	BinDir string
	// CacheDir replaces the user's cache, $XDG_CACHE_HOME/pharos/bin.
	CacheDir string
	// ForTests asks for the binaries that only tests run, too.
	ForTests bool
	// Progress receives what is being built and for how long: one line that
	// renews itself on a terminal, plain lines elsewhere. None means silence.
	Progress io.Writer
}

// Set holds the absolute path of each binary by the name of its component.
type Set map[string]string

// Ensure returns the paths of all binaries of the local fleet, having built the
// ones that are missing. It refuses a folder of ready binaries that lacks one
// or has one of another version. Each error is one sentence that says what to
// do. When ctx ends, the compilers end with it, half-built files are removed,
// and what was finished is kept.
func Ensure(ctx context.Context, opts Options) (Set, error) {
	components, err := Components()
	if err != nil {
		return nil, err
	}
	if opts.ForTests {
		components = append(components, ForTests()...)
	}
	return ensure(ctx, opts, components)
}

func ensure(ctx context.Context, opts Options, components []Component) (Set, error) {
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	if opts.BinDir == "" && opts.CacheDir == "" {
		opts.BinDir = os.Getenv(DirVariable)
	}
	if opts.BinDir != "" {
		return ready(ctx, opts.BinDir, components)
	}
	cache, err := cacheDir(opts.CacheDir)
	if err != nil {
		return nil, err
	}
	tidy(cache)
	if len(missing(cache, components)) > 0 {
		if err := fill(ctx, cache, components, newProgress(opts.Progress)); err != nil {
			return nil, err
		}
	}
	return cached(cache, components), nil
}

// ready is the set in a folder of ready binaries, all of which are checked so
// that the user hears of every fault at once.
func ready(ctx context.Context, dir string, components []Component) (Set, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder of server binaries: %w", err)
	}
	set := make(Set, len(components))
	faults := make([]string, len(components))
	var checks sync.WaitGroup
	for i, c := range components {
		path := filepath.Join(dir, c.Name)
		set[c.Name] = path
		checks.Go(func() {
			if err := c.check(ctx, path); err != nil {
				faults[i] = err.Error()
			}
		})
	}
	checks.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("checking the server binaries in %s was interrupted: %w", dir, context.Cause(ctx))
	}
	faults = slices.DeleteFunc(faults, func(fault string) bool { return fault == "" })
	if len(faults) > 0 {
		return nil, fmt.Errorf("using the server binaries in %s: %s; put the right ones there, or leave the folder out to have them built",
			dir, strings.Join(faults, "; "))
	}
	return set, nil
}

func cached(cache string, components []Component) Set {
	set := make(Set, len(components))
	for _, c := range components {
		set[c.Name] = c.path(cache)
	}
	return set
}

func missing(cache string, components []Component) []Component {
	var out []Component
	for _, c := range components {
		if executable(c.path(cache)) != nil {
			out = append(out, c)
		}
	}
	return out
}

// fill builds what the cache lacks, as the only builder in it.
func fill(ctx context.Context, cache string, components []Component, p *progress) (err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return explain(fmt.Errorf("making the cache of server binaries: %w", err), cache)
	}
	unlock, err := lock(ctx, cache, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := sweep(cache); err != nil {
		return err
	}
	// Asked again, because the builder before us may have built them.
	todo := missing(cache, components)
	if len(todo) > 0 {
		if _, err := exec.LookPath("go"); err != nil {
			return fmt.Errorf("building the server binaries: no go command on PATH that can be run: %s: %w", getGo, err)
		}
	}
	p.expect(len(todo), cache)
	for _, c := range todo {
		done := p.begin(fmt.Sprintf("%s %s", c.Name, c.Version))
		err := build(ctx, cache, c)
		done(err)
		if err != nil {
			return err
		}
	}
	return nil
}

// workPrefix begins the names of the folders in which binaries are built.
const workPrefix = ".build-"

// tidy sweeps a cache in which nothing need be built. It is a kindness: while
// another builder is at work, and when it fails, all stays as it is.
func tidy(cache string) {
	if left, err := filepath.Glob(filepath.Join(cache, workPrefix+"*")); err != nil || len(left) == 0 {
		return
	}
	file, err := os.OpenFile(filepath.Join(cache, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	if held, err := tryLock(file); err == nil && held {
		_ = sweep(cache)
	}
}

// sweep ends and removes what builders left that were killed. The lock makes it
// safe: no other builder is alive.
func sweep(cache string) error {
	if _, err := proc.KillMarked(workVariable, cache, time.Now().Add(interruptGrace)); err != nil {
		return fmt.Errorf("ending a left-over build: %w", err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil {
		return fmt.Errorf("looking for left-over builds: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), workPrefix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cache, entry.Name())); err != nil {
			return fmt.Errorf("removing a left-over build: %w", err)
		}
	}
	return nil
}
