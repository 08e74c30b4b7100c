package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// strayTimeout bounds the wait for killed strays to be gone.
const strayTimeout = 5 * time.Second

// KillStrays kills every process whose environment has the variable with the value, or with a path below the value, and
// waits until they are gone. It finds what left its process group, and what survived the program that started it. It
// returns the number of processes killed, and an error when some of them would not go.
func KillStrays(variable, value string) (int, error) {
	killed := map[int]bool{}
	deadline := time.Now().Add(strayTimeout)
	for {
		pids := strays(variable, value)
		if len(pids) == 0 {
			return len(killed), nil
		}
		if time.Now().After(deadline) {
			return len(killed), fmt.Errorf("killing stray processes: %v still run after %s", pids, strayTimeout)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed[pid] = true
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// strays lists the processes that carry the mark. Processes of other users cannot be read, and are never ours.
func strays(variable, value string) []int {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is well formed
	var pids []int
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(path)
		if err == nil && marked(environ, variable, value) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func marked(environ []byte, variable, value string) bool {
	mark := []byte(variable + "=" + value)
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		rest, ok := bytes.CutPrefix(entry, mark)
		if ok && (len(rest) == 0 || rest[0] == '/') {
			return true
		}
	}
	return false
}
