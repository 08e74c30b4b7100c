package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile is the lock's name in the cache.
const lockFile = ".lock"

// lockPoll is how often a waiting builder asks for the lock.
const lockPoll = 200 * time.Millisecond

// lock makes the caller the only builder in the cache and returns how to end
// that. It waits for another builder, saying so, until ctx ends. The kernel
// drops the lock of a process that dies.
func lock(ctx context.Context, cache string, p *progress) (unlock func() error, err error) {
	file, err := os.OpenFile(filepath.Join(cache, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, explain(fmt.Errorf("locking the cache of server binaries: %w", err), cache)
	}
	held, err := tryLock(file)
	if err == nil && !held {
		err = waitLock(ctx, file, p)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the cache of server binaries: %w", err), file.Close())
	}
	writeHolder(file)
	return file.Close, nil
}

func waitLock(ctx context.Context, file *os.File, p *progress) error {
	done := p.wait("waiting for another build of the server binaries" + holder(file))
	defer done()
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if held, err := tryLock(file); err != nil || held {
				return err
			}
		}
	}
}

func tryLock(file *os.File) (held bool, err error) {
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// writeHolder leaves our process id for those who wait. It is only a hint, so
// that a full disk does not stop a build that would have freed nothing.
func writeHolder(file *os.File) {
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
}

func holder(file *os.File) string {
	pid, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	if err != nil || len(pid) == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %s)", strings.TrimSpace(string(pid)))
}
