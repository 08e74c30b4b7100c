package tiers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amtemplate "github.com/prometheus/alertmanager/template"
	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

const interval = time.Second

// server is one real Prometheus.
type server struct {
	address, dir string
	owner        testing.TB // outlives the subtests that restart the server
	process      *exec.Cmd
}

// start runs Prometheus with the files and waits until it is ready.
func start(t *testing.T, address string, files promcfg.Files) *server {
	t.Helper()
	require.NoError(t, promcfg.Validate(files))
	s := &server{address: address, dir: t.TempDir(), owner: t}
	promcfgtest.Write(t, s.dir, files)
	s.run(t)
	return s
}

func (s *server) run(t *testing.T) {
	t.Helper()
	s.process = testkit.Spawn(s.owner, "prometheus",
		"--config.file="+filepath.Join(s.dir, promcfg.ConfigFile), "--storage.tsdb.path="+filepath.Join(s.dir, "data"),
		"--web.listen-address="+s.address, "--log.level=warn")
	eventually(t, 30*time.Second, func() error { return ready("http://" + s.address + "/-/ready") })
}

func ready(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// eventually polls until check passes, and says how long that took.
func eventually(t *testing.T, within time.Duration, check func() error) time.Duration {
	t.Helper()
	return testkit.Eventually(t, within, 100*time.Millisecond, check)
}

func (s *server) api(t *testing.T) promv1.API {
	t.Helper()
	client, err := api.NewClient(api.Config{Address: "http://" + s.address})
	require.NoError(t, err)
	return promv1.NewAPI(client)
}

func (s *server) query(t *testing.T, expr string) model.Vector {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	result, warnings, _, err := s.api(t).Query(ctx, expr, time.Now())
	require.NoError(t, err, expr)
	require.Empty(t, warnings, expr)
	return result.(model.Vector)
}

// wants checks that a query has exactly one result of the value.
func (s *server) wants(t *testing.T, expr string, value float64) error {
	t.Helper()
	got := s.query(t, expr)
	if len(got) != 1 || float64(got[0].Value) != value {
		return fmt.Errorf("%s: %s gives %v, want %v", s.address, expr, got, value)
	}
	return nil
}

// absent checks that a query has no result.
func (s *server) absent(t *testing.T, expr string) error {
	t.Helper()
	if got := s.query(t, expr); len(got) > 0 {
		return fmt.Errorf("%s: %s gives %v, want nothing", s.address, expr, got)
	}
	return nil
}

// cell is what an edge scrapes: object state of one business cluster.
type cell struct {
	mu      sync.Mutex
	cluster string
	status  []string // of each node's Ready condition
}

func newCell(t *testing.T, address, cluster string, nodes int) *cell {
	t.Helper()
	c := &cell{cluster: cluster}
	for range nodes {
		c.status = append(c.status, "true")
	}
	serve(t, address, c)
	return c
}

func serve(t *testing.T, address string, handler http.Handler) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
}

func (c *cell) set(node int, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status[node] = status
}

func (c *cell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !strings.HasPrefix(r.URL.Path, "/state/") {
		fmt.Fprintln(w, `apiserver_request_total{verb="GET"} 1`)
		return
	}
	fmt.Fprintf(w, "pharos_cluster_up{cluster=%q} 1\n", c.cluster)
	for i, status := range c.status {
		node := fmt.Sprintf("cluster=%q,node=\"n%d\"", c.cluster, i)
		fmt.Fprintf(w, "kube_node_info{%s} 1\n", node)
		fmt.Fprintf(w, "kube_node_labels{%s,label_topology_kubernetes_io_zone=\"z\",label_topology_pharos_dev_rack=\"r%d\",label_pharos_dev_pool=\"p\"} 1\n", node, i/5)
		for _, s := range []string{"true", "false", "unknown"} {
			fmt.Fprintf(w, "kube_node_status_condition{%s,condition=\"Ready\",status=%q} %d\n", node, s, map[bool]int{true: 1}[s == status])
		}
	}
}

// relay stands where notify does, and keeps what Alertmanager sends.
type relay struct {
	mu       sync.Mutex
	messages []amtemplate.Data
}

func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var message amtemplate.Data
	if err := json.NewDecoder(req.Body).Decode(&message); err != nil || req.URL.Path != "/alertmanager/oncall" {
		http.Error(w, "no message of a known robot", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, message)
}

// told lists the alerts of a name and status that came, one for each message.
func (r *relay) told(alertname, status string) []amtemplate.Alert {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []amtemplate.Alert
	for _, m := range r.messages {
		for _, a := range m.Alerts {
			if a.Labels["alertname"] == alertname && a.Status == status {
				out = append(out, a)
			}
		}
	}
	return out
}

func startAlertmanager(t *testing.T, address string, files promcfg.Files, name string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), files[name], 0o600))
	testkit.Spawn(t, "alertmanager", "--config.file="+filepath.Join(dir, name), "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--cluster.listen-address=", "--log.level=warn")
	eventually(t, 30*time.Second, func() error { return ready("http://" + address + "/-/ready") })
}
