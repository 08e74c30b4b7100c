// Package promtest runs stock servers of the fleet for tests of the whole, breaks
// and mends them, and asks them what they know. What a server is configured with
// is the test's to say.
package promtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// Server is one real server, which can be stopped, frozen and started again.
type Server struct {
	Address string

	owner   testing.TB // outlives the subtests that restart the server
	dir     string
	program string
	args    []string
	process *exec.Cmd
}

// Reloads is how often a Prometheus of these tests looks whether it has found other
// targets. Stock servers do so every five seconds, a third of a usual interval; tests
// have an interval of a second.
const Reloads = 300 * time.Millisecond

// Prometheus starts one with the files, and with flags beside the usual ones. It
// does not wait until the server is ready. The files lie as in a pod, so that the
// account's may be among them under the names by which a configuration has them.
func Prometheus(t testing.TB, address string, files promcfg.Files, flags ...string) *Server {
	t.Helper()
	return Stock(t, address, files, append([]string{"--scrape.discovery-reload-interval=" + Reloads.String()}, flags...)...)
}

// Stock starts one that looks for targets as slowly as a user's does.
func Stock(t testing.TB, address string, files promcfg.Files, flags ...string) *Server {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "etc", "prometheus")
	s := &Server{Address: address, owner: t, dir: dir, program: "prometheus", args: append([]string{
		"--config.file=" + filepath.Join(dir, promcfg.ConfigFile), "--storage.tsdb.path=" + filepath.Join(root, "data"),
		"--web.listen-address=" + address, "--log.level=error",
	}, flags...)}
	s.write(files)
	s.Start()
	return s
}

// Program starts another server than Prometheus that answers by HTTP.
func Program(t testing.TB, address, program string, args ...string) *Server {
	t.Helper()
	s := &Server{Address: address, owner: t, program: program, args: args}
	s.Start()
	return s
}

// Elsewhere is a server that somebody else runs. It can only be asked.
func Elsewhere(address string) *Server { return &Server{Address: address} }

func (s *Server) write(files promcfg.Files) {
	s.owner.Helper()
	for name, content := range files {
		path := filepath.Join(s.dir, name)
		require.NoError(s.owner, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(s.owner, os.WriteFile(path, content, 0o600))
	}
}

// Start runs the process, anew if it has ended.
func (s *Server) Start() {
	s.owner.Helper()
	s.process = testkit.Spawn(s.owner, s.program, s.args...)
}

// Follow has a Prometheus that runs go over to other files, which it must accept.
func (s *Server) Follow(files promcfg.Files) {
	s.owner.Helper()
	require.NoError(s.owner, promcfg.Validate(files))
	s.write(files)
	s.Signal(syscall.SIGHUP)
}

// Kill ends the process as a machine that loses power does.
func (s *Server) Kill() { testkit.End(s.process) }

// Stop has the server shut down in an orderly way, as a roll-out does.
func (s *Server) Stop() {
	s.owner.Helper()
	s.Signal(syscall.SIGTERM)
	require.NoError(s.owner, s.process.Wait())
}

// Signal is sent to the process, which must be there.
func (s *Server) Signal(sig syscall.Signal) {
	s.owner.Helper()
	require.NoError(s.owner, s.process.Process.Signal(sig))
}

// Ready waits until the server is, and returns it.
func (s *Server) Ready(t testing.TB) *Server {
	t.Helper()
	s.Answers(t, "/-/ready")
	return s
}

// Answers waits until the server has a page to give.
func (s *Server) Answers(t testing.TB, path string) {
	t.Helper()
	testkit.Await(t, func() error {
		_, err := s.Get(path)
		return err
	})
}

// Get asks the server for a page.
func (s *Server) Get(path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s: %s: %.200s", s.Address, path, resp.Status, body)
	}
	return body, nil
}
