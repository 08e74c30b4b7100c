package links_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

const interval = time.Second

// server is one real server, which can be stopped, frozen and started again.
type server struct {
	owner   testing.TB // outlives the subtests that restart the server
	address string
	dir     string
	program string
	args    []string
	process *exec.Cmd
	said    *testkit.Said
}

// prometheus starts a Prometheus with the files, and with flags beside the usual
// ones. It does not wait until the server is ready.
func prometheus(t *testing.T, address string, files promcfg.Files, flags ...string) *server {
	t.Helper()
	require.NoError(t, promcfg.Validate(files))
	s := &server{owner: t, address: address, dir: t.TempDir(), program: "prometheus"}
	promcfgtest.Write(t, s.dir, files)
	s.args = append([]string{
		"--config.file=" + filepath.Join(s.dir, promcfg.ConfigFile), "--storage.tsdb.path=" + filepath.Join(s.dir, "data"),
		"--web.listen-address=" + address, "--web.enable-lifecycle", "--log.level=info",
	}, flags...)
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("%s at %s said:\n%s", s.program, s.address, s.said)
		}
	})
	s.start()
	return s
}

// start runs the process, which ends with the test, and with the test's own
// process if that is killed.
func (s *server) start() {
	s.owner.Helper()
	if s.said == nil {
		s.said = &testkit.Said{}
	}
	s.process = exec.Command(testkit.Binary(s.owner, s.program), s.args...)
	s.process.Stdout, s.process.Stderr = s.said, s.said
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.owner, s.process.Start())
}

func (s *server) kill() {
	_ = s.process.Process.Kill() // it may have ended already
	_ = s.process.Wait()
}

// end has the server shut down in an orderly way, as a roll-out does.
func (s *server) end(t *testing.T) {
	t.Helper()
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	require.NoError(t, s.process.Wait())
}

func (s *server) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, s.process.Process.Signal(sig))
}

func (s *server) waitReady(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		_, err := s.get("/-/ready")
		return err
	})
}

// get asks the server for a page.
func (s *server) get(path string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + s.address + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s: %s: %.200s", s.address, path, resp.Status, body)
	}
	return body, nil
}

// patience is how long anything may take on a machine that is busy with other
// things. What must be quick is looked up in what the servers have stored.
const patience = 90 * time.Second

// eventually polls until check passes.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	testkit.Eventually(t, patience, 100*time.Millisecond, check)
}

func (s *server) api(t testing.TB) promv1.API {
	t.Helper()
	client, err := api.NewClient(api.Config{Address: "http://" + s.address})
	require.NoError(t, err)
	return promv1.NewAPI(client)
}

func (s *server) query(t testing.TB, expr string, at time.Time) model.Value {
	t.Helper()
	var result model.Value
	eventually(t, func() error { // a server that has just started answers with 503
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		var err error
		if result, _, _, err = s.api(t).Query(ctx, expr, at); err != nil {
			return fmt.Errorf("%s: %s: %w", s.address, expr, err)
		}
		return nil
	})
	return result
}

func (s *server) vector(t testing.TB, expr string) model.Vector {
	t.Helper()
	return s.query(t, expr, time.Now()).(model.Vector)
}

// raw is every sample of a selector in the time up to now, as it is stored.
func (s *server) raw(t testing.TB, selector string, since time.Time) model.Matrix {
	t.Helper()
	now := time.Now()
	window := max(1, now.Sub(since).Milliseconds())
	return s.query(t, fmt.Sprintf("%s[%dms]", selector, window), now).(model.Matrix)
}

// gives checks that a query has exactly one result, of the value.
func (s *server) gives(t testing.TB, expr string, want float64) error {
	t.Helper()
	got := s.vector(t, expr)
	if len(got) != 1 || float64(got[0].Value) != want {
		return fmt.Errorf("%s: %s gives %v, want %v", s.address, expr, got, want)
	}
	return nil
}

// waitSamples waits until every series of a selector has some samples since a
// moment: a busy machine makes fewer than one in an interval.
func (s *server) waitSamples(t testing.TB, selector string, since time.Time) {
	t.Helper()
	eventually(t, func() error {
		all := s.raw(t, selector, since)
		for _, series := range all {
			if n := len(series.Values) + len(series.Histograms); n < 4 {
				return fmt.Errorf("%s has %d samples of %s", s.address, n, series.Metric)
			}
		}
		if len(all) == 0 {
			return fmt.Errorf("%s has no sample of %s", s.address, selector)
		}
		return nil
	})
}
