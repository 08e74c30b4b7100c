// Package proc finds processes by a mark in their environment, and listeners
// with their owners. It reads /proc and so runs on Linux only.
package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// pollInterval is how often a wait looks again.
const pollInterval = 20 * time.Millisecond

// Process is one running process.
type Process struct {
	PID, Parent int
	// Program is the name of the program it runs, without folder.
	Program string
	// Command is its command line, elements parted by spaces.
	Command string
	// ResidentBytes is its resident memory; memory shared with others counts in full.
	ResidentBytes int
}

// Marked lists the processes whose environment holds name=value, by process id,
// the calling process left out. Processes of other users cannot be looked into
// and are left out, too. Zombies are not processes any more.
func Marked(name, value string) ([]Process, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	mark := name + "=" + value
	var found []Process
	for _, p := range all {
		if p.PID == os.Getpid() || !bears(p, mark) {
			continue
		}
		if described, ok := describe(p); ok {
			found = append(found, described)
		}
	}
	slices.SortFunc(found, func(a, b Process) int { return a.PID - b.PID })
	return found, nil
}

// IsMarked says whether the process is alive and its environment holds name=value.
func IsMarked(pid int, name, value string) bool {
	p, err := procfs.NewProc(pid)
	return err == nil && bears(p, name+"="+value)
}

func bears(p procfs.Proc, mark string) bool {
	env, err := p.Environ()
	return err == nil && slices.Contains(env, mark)
}

// Holding lists the processes that have the file open, by process id, the calling
// process left out. Processes of other users cannot be looked into.
func Holding(path string) ([]Process, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []Process
	for _, p := range all {
		open, err := p.FileDescriptorTargets()
		if err != nil || p.PID == os.Getpid() || !slices.Contains(open, path) {
			continue
		}
		if described, ok := describe(p); ok {
			found = append(found, described)
		}
	}
	slices.SortFunc(found, func(a, b Process) int { return a.PID - b.PID })
	return found, nil
}

// Zombies lists the children of a process that have ended and were not waited for.
func Zombies(parent int) ([]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []int
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == parent && stat.State == "Z" {
			found = append(found, p.PID)
		}
	}
	return found, nil
}

// describe fails when the process ended meanwhile.
func describe(p procfs.Proc) (Process, bool) {
	stat, err := p.Stat()
	if err != nil || stat.State == "Z" {
		return Process{}, false
	}
	args, err := p.CmdLine()
	if err != nil || len(args) == 0 {
		return Process{}, false
	}
	return Process{
		PID:           p.PID,
		Parent:        stat.PPID,
		Program:       filepath.Base(args[0]),
		Command:       strings.Join(args, " "),
		ResidentBytes: stat.ResidentMemory(),
	}, true
}

// KillMarked kills every process marked with name=value, those started
// meanwhile included, and returns whom it killed. It is an error when some are
// still there at the deadline.
func KillMarked(name, value string, deadline time.Time) ([]Process, error) {
	killed := map[int]Process{}
	for {
		left, err := Marked(name, value)
		if err != nil {
			return nil, err
		}
		if len(left) == 0 {
			return sorted(killed), nil
		}
		if time.Now().After(deadline) {
			return sorted(killed), fmt.Errorf("ending processes: %s did not end", Summary(left))
		}
		for _, p := range left {
			if err := Signal(p.PID, name, value, syscall.SIGKILL); err != nil {
				return sorted(killed), err
			}
			killed[p.PID] = p
		}
		time.Sleep(pollInterval)
	}
}

// Signal sends a signal to a process if it bears the mark: a process id that
// was given to another program meanwhile is left alone. A process that is gone
// is no error.
func Signal(pid int, name, value string, sig syscall.Signal) error {
	// The handle is taken before the mark is read, so that both speak of the same process.
	handle, err := os.FindProcess(pid)
	if err != nil {
		return nil
	}
	defer func() { _ = handle.Release() }()
	if !IsMarked(pid, name, value) {
		return nil
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling process %d: %w", pid, err)
	}
	return nil
}

func sorted(m map[int]Process) []Process {
	all := make([]Process, 0, len(m))
	for _, p := range m {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Process) int { return a.PID - b.PID })
	return all
}

// Summary names processes for a sentence: the first three, and how many more.
func Summary(all []Process) string {
	const most = 3
	var names []string
	for _, p := range all[:min(most, len(all))] {
		names = append(names, fmt.Sprintf("%s (process %d)", p.Program, p.PID))
	}
	s := strings.Join(names, ", ")
	if more := len(all) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
