package signal_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// prometheus starts a real server that scrapes the page every second and keeps
// the page's own timestamps, as a central keeps those of the tiers below.
func prometheus(t *testing.T, page string) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(`
global: {scrape_interval: 1s, external_labels: {central_replica: a}}
scrape_configs:
- job_name: below
  honor_labels: true
  honor_timestamps: true
  static_configs: [{targets: [%q]}]
`, strings.TrimPrefix(page, "http://"))), 0o600))
	address := free(t)
	var out bytes.Buffer
	cmd := exec.Command(testkit.Binary(t, "prometheus"), "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	return "http://" + address
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Case C01: a real server goes on with the last sample; its age tells.
// TestCentralsOnRealPrometheus shows what a central says of a node that is
// listed, and of one that the tier below lists no more.
func TestCentralsOnRealPrometheus(t *testing.T) {
	var listing atomic.Bool
	listing.Store(true)
	below := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		at := time.Now().Add(-2 * time.Second).UnixMilli()
		fmt.Fprintf(w, "cell:heartbeat:timestamp_seconds{cell=\"asia-1\"} %.3f %d\n", float64(at)/1000, at)
		fmt.Fprintf(w, "cluster:up:min{cell=\"asia-1\",cluster=\"shop\"} 1 %d\n", at)
		fmt.Fprintf(w, "node:unready:seconds30m{cell=\"asia-1\",cluster=\"shop\",node=\"n-1\"} 600 %d\n", at)
		if listing.Load() {
			fmt.Fprintf(w, "node:unhealthy:info{cell=\"asia-1\",cluster=\"shop\",node=\"n-1\",reason=\"Unknown\",zone=\"z\",rack=\"r\"} 1 %d\n", at)
		}
	}))
	t.Cleanup(below.Close)
	url := prometheus(t, below.URL)
	r, err := signal.New(signal.Options{Hub: fake.NewFakeClient(), Namespace: "unused", Timeout: 2 * time.Second,
		Centrals: centrals(t, url, "http://127.0.0.1:1")})
	require.NoError(t, err)

	ctx := t.Context()
	var last time.Time
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		a := r.Centrals(ctx)[0]
		require.Empty(t, a.Err)
		require.Empty(t, a.Warnings)
		require.Empty(t, a.Partial)
		require.Equal(t, "a", a.Replica, "by its own configuration")
		require.LessOrEqual(t, a.ClockSkew.Abs(), 2*time.Second)
		require.Len(t, a.Heartbeats, 1)
		require.Len(t, a.Unhealthy, 1)
		require.Equal(t, []policy.ClusterSample{{Cell: "asia-1", Cluster: "shop", Up: true, At: a.ClustersUp[0].At}}, a.ClustersUp)
		last = a.Unhealthy[0].At
		require.Equal(t, policy.NodeSample{Cell: "asia-1", Cluster: "shop", Node: "n-1", Zone: "z", Rack: "r", Reason: "Unknown", At: last, Unready: metav1.Duration{Duration: 10 * time.Minute}}, a.Unhealthy[0])
		age := time.Since(last)
		require.True(t, age > time.Second && age < 6*time.Second, "the sample's own time, not the question's: %s", age)
	}, 60*time.Second, 200*time.Millisecond)

	listing.Store(false)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		a := r.Centrals(ctx)[0]
		require.Len(t, a.Heartbeats, 1)
		require.Len(t, a.Unhealthy, 1, "the server keeps the old sample")
		require.Greater(t, a.Heartbeats[0].At.Sub(a.Unhealthy[0].At), 3*time.Second, "and its age tells")
	}, 30*time.Second, 200*time.Millisecond)

	silent := r.Centrals(t.Context())[1]
	require.Equal(t, "central-b", silent.Name)
	require.Contains(t, silent.Err, "asking http://127.0.0.1:1 for its configuration")
}
