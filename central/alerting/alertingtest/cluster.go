// Package alertingtest runs stock Alertmanagers for tests, as members of one cluster.
package alertingtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central/alerting"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// Cluster starts n Alertmanagers at addresses of a host, all with the same files, and
// waits until each knows every other. One that is alone gossips with nobody.
func Cluster(t testing.TB, host string, n int, files promcfg.Files) []*promtest.Server {
	t.Helper()
	gossip := make([]string, n)
	for i := range n {
		gossip[i] = Free(t, host)
	}
	if n == 1 {
		gossip = nil
	}
	var all []*promtest.Server
	for i := range n {
		all = append(all, Member(t, Free(t, host), t.TempDir(), i, gossip, files))
	}
	for _, a := range all {
		a.Ready(t)
		if n > 1 {
			Knows(t, a, n)
		}
	}
	return all
}

// Member starts one Alertmanager of those that gossip at the addresses, or one that is
// alone where there are none. It goes on with what it finds in its folder.
func Member(t testing.TB, at, dir string, i int, gossip []string, files promcfg.Files) *promtest.Server {
	t.Helper()
	config := filepath.Join(dir, alerting.ConfigFile)
	require.NoError(t, os.WriteFile(config, files[alerting.ConfigFile], 0o600))
	args := []string{
		"--config.file=" + config, "--storage.path=" + dir, "--web.listen-address=" + at,
		"--enable-feature=receiver-name-in-metrics",
		// How long a member waits for each that comes before it, 15 s in earnest.
		"--cluster.peer-timeout=1s",
		// How long it waits for the gossip to settle before it tells anything.
		"--cluster.settle-timeout=1s",
	}
	if len(gossip) == 0 {
		args = append(args, "--cluster.listen-address=")
	}
	for j, address := range gossip {
		flag := "--cluster.peer="
		if j == i {
			flag = "--cluster.listen-address="
		}
		args = append(args, flag+address)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return promtest.Program(t, at, "alertmanager", args...)
}

// Free is an address of a host that nobody listens at.
func Free(t testing.TB, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// Knows waits until an Alertmanager knows of so many members that live.
func Knows(t testing.TB, a *promtest.Server, members int) {
	t.Helper()
	testkit.Await(t, func() error {
		page, err := a.Get("/metrics")
		if err == nil && !bytes.Contains(page, fmt.Appendf(nil, "\nalertmanager_cluster_members %d\n", members)) {
			err = fmt.Errorf("%s does not know %d members", a.Address, members)
		}
		return err
	})
}

// Alert is handed to Alertmanagers as a Prometheus hands it. Without an end it fires.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      *time.Time        `json:"endsAt,omitempty"`
}

// Raise hands an alert to each of the Alertmanagers.
func Raise(t testing.TB, alert Alert, to ...*promtest.Server) {
	t.Helper()
	body, err := json.Marshal([]Alert{alert})
	require.NoError(t, err)
	for _, a := range to {
		post(t, a, "/api/v2/alerts", body)
	}
}

// Silence mutes at an Alertmanager what is about a node, for an hour.
func Silence(t testing.TB, node string, at *promtest.Server) {
	t.Helper()
	now := time.Now()
	body, err := json.Marshal(map[string]any{
		"matchers": []map[string]any{{"name": "node", "value": node, "isRegex": false, "isEqual": true}},
		"startsAt": now, "endsAt": now.Add(time.Hour), "createdBy": "test", "comment": "test",
	})
	require.NoError(t, err)
	post(t, at, "/api/v2/silences", body)
}

func post(t testing.TB, to *promtest.Server, path string, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+to.Address+path, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
