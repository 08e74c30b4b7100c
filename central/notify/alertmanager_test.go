package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
)

// startAlertmanager runs a real Alertmanager that tells the relay of every
// alert. It has no peers, which is what a partition makes of a cluster.
func startAlertmanager(t *testing.T, relay string) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
route:
  receiver: ops
  group_by: ["alertname", "cluster"]
  group_wait: 100ms
  group_interval: 500ms
  repeat_interval: 4h
receivers:
- name: ops
  webhook_configs:
  - url: %s/alertmanager/ops
    send_resolved: true
`, relay), 0o600))
	address := freeAddress(t)
	cmd := exec.Command(testkit.Binary(t, "alertmanager"), "--config.file="+config,
		"--storage.path="+dir, "--web.listen-address="+address, "--cluster.listen-address=")
	var output testkit.Said
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // its status says how it was ended, which we know
		if t.Failed() {
			t.Log(output.String())
		}
	})
	base := "http://" + address
	eventually(t, "Alertmanager is ready", func() bool {
		resp, err := http.Get(base + "/-/ready")
		if err != nil {
			return false
		}
		defer http.DefaultClient.CloseIdleConnections()
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return base
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// raise hands an alert to an Alertmanager as a Prometheus would. A zero end
// means that it fires.
func raise(t *testing.T, alertmanager, node string, starts, ends time.Time) {
	t.Helper()
	alert := map[string]any{
		"labels":      map[string]string{"alertname": "PharosNodeNotReady", "cluster": "shop", "node": node, "severity": "critical"},
		"annotations": map[string]string{"summary": "Node " + node + " is not ready."},
		"startsAt":    starts,
	}
	if !ends.IsZero() {
		alert["endsAt"] = ends
	}
	body, err := json.Marshal([]any{alert})
	require.NoError(t, err)
	resp, err := http.Post(alertmanager+"/api/v2/alerts", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestAlertmanagerToRobot(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	one, two := startAlertmanager(t, r.url), startAlertmanager(t, r.url)
	starts := time.Now().Add(-time.Minute).Truncate(time.Millisecond)

	for _, am := range []string{one, two} {
		raise(t, am, "shop-node-03", starts, time.Time{})
	}
	received := func(result string, n int) func() bool {
		line := fmt.Sprintf(`{result="%s",robot="ops"} %d`, result, n)
		return func() bool { return strings.Contains(r.metric("pharos_notify_received_total"), line) }
	}
	eventually(t, "both have told the relay", received(resultDuplicate, 1))
	eventually(t, "it is told", func() bool { return len(p.Messages()) == 1 })
	require.Contains(t, p.texts(), "FIRING · critical · PharosNodeNotReady")
	require.Contains(t, p.texts(), "node shop-node-03")

	ends := time.Now().Truncate(time.Millisecond)
	for _, am := range []string{one, two} {
		raise(t, am, "shop-node-03", starts, ends)
	}
	eventually(t, "both have told of the end", received(resultDuplicate, 2))
	eventually(t, "the end is told", func() bool { return len(p.Messages()) == 2 })
	require.Contains(t, p.texts(), "RESOLVED · critical · PharosNodeNotReady")
	require.Contains(t, p.texts(), "until "+ends.UTC().Format("15:04:05 UTC"))
}

// A Prometheus sends what has ended for a quarter of an hour, and another one
// says another end: Alertmanager tells of it with whatever its group has next.
func TestAnEndThatAlertmanagerRepeatsIsToldOnce(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	am := startAlertmanager(t, r.url)
	starts := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	raise(t, am, "shop-node-03", starts, time.Time{})
	eventually(t, "it is told", func() bool { return len(p.Messages()) == 1 })
	ends := time.Now().Truncate(time.Millisecond)
	raise(t, am, "shop-node-03", starts, ends)
	eventually(t, "the end is told", func() bool { return len(p.Messages()) == 2 })

	raise(t, am, "shop-node-03", starts, ends.Add(time.Millisecond))
	raise(t, am, "shop-node-04", ends, time.Time{})
	eventually(t, "the next is told", func() bool { return len(p.Messages()) == 3 })
	require.Contains(t, p.Messages()[2].Text, "node shop-node-04")
	require.NotContains(t, p.Messages()[2].Text, "shop-node-03")
}

func TestAlertmanagerAsksAgainWhenTheSpoolFails(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	am := startAlertmanager(t, r.url)
	temp := filepath.Join(r.workers["ops"].spool.dir, tempDir)
	require.NoError(t, os.Remove(temp))

	raise(t, am, "shop-node-04", time.Now(), time.Time{})
	eventually(t, "refused", func() bool {
		return !strings.Contains(r.metric("pharos_notify_received_total"), `{result="failed",robot="ops"} 0`)
	})
	require.Empty(t, p.Messages())
	require.NoError(t, os.Mkdir(temp, 0o700))
	eventually(t, "told after all", func() bool { return len(p.Messages()) == 1 })
}
