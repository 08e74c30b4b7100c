package tiers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amtemplate "github.com/prometheus/alertmanager/template"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

const interval = time.Second

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
	testkit.Serve(t, address, c)
	return c
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
	promtest.Program(t, address, "alertmanager", "--config.file="+filepath.Join(dir, name), "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--cluster.listen-address=", "--log.level=warn").Ready(t)
}
