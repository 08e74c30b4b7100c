package local

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/proc"
)

// spaceNeeded is what a fleet may write in its first hours, in bytes: etcd's log
// is allocated ahead, and each Prometheus keeps its samples.
const spaceNeeded = 1 << 30

// mostPorts is how many taken ports are named.
const mostPorts = 3

// checkPorts says which ports of the fleet are taken, and by whom where that can
// be seen.
func checkPorts(l layout.Layout) error {
	var taken []string
	for _, at := range l.Listeners() {
		if err := proc.Free(at.Address); err != nil {
			taken = append(taken, describeTaken(at, err))
		}
	}
	if len(taken) == 0 {
		return nil
	}
	if more := len(taken) - mostPorts; more > 0 {
		taken = append(taken[:mostPorts], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s: end what listens there, or use other ports with --instance", strings.Join(taken, "; "))
}

func describeTaken(at layout.Listener, err error) string {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s, which %s needs, cannot be listened on: %v", at.Address, at.Component, err)
	}
	owner := "by a program that cannot be seen from here"
	if p, ok := proc.Owner(netip.MustParseAddrPort(at.Address)); ok {
		owner = "by " + proc.Summary([]proc.Process{p})
	}
	return fmt.Sprintf("port %s, which %s needs, is taken %s", at.Address, at.Component, owner)
}

func checkSpace(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("looking for free space in %s: %w", dir, err)
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if free < spaceNeeded {
		return fmt.Errorf("the disk of %s has %d MiB free and a fleet needs %d MiB: make room, or give --state-dir on another disk",
			dir, free>>20, spaceNeeded>>20)
	}
	return nil
}

// spaceLeft is below what a disk counts as full, in bytes: the servers that
// failed to write to it say so in words of their own.
const spaceLeft = 4 << 20

// explain says that the disk is full where a failure comes from that.
func explain(err error, l layout.Layout) error {
	if !full(err, l.Dir) {
		return err
	}
	return diskFullError{dir: l.Dir, cause: err}
}

func full(err error, dir string) bool {
	if err == nil || errors.Is(err, syscall.ENOSPC) {
		return err != nil
	}
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) < spaceLeft
}

// diskFullError is a failure that comes from a full disk. Logs explain nothing
// more then, and removing what the start wrote is a kindness.
type diskFullError struct {
	dir   string
	cause error
}

func (e diskFullError) Error() string {
	return fmt.Sprintf("the disk is full: make room, or give --state-dir on another disk than %s (%v)", e.dir, e.cause)
}

func (e diskFullError) Unwrap() error { return e.cause }
