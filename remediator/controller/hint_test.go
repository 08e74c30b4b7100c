package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/remediator/hint"
)

// Case C24: what an alert says begins a look, and nothing else.
// testHint has a stock Alertmanager call the web hook of a remediator whose next round
// is an hour away, and be asked by another one.
func testHint(t *testing.T, config *rest.Config) {
	for name, by := range map[string]func(o *Options, alertmanager string, token string){
		"webhook": func(o *Options, _ string, token string) { o.Hints.TokenFile = token },
		"api": func(o *Options, alertmanager string, _ string) {
			o.Hints.Alertmanagers, o.Hints.Interval = map[string]string{"stock": "http://" + alertmanager}, time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, config)
			var said testkit.Said
			o := f.options()
			o.Interval, o.Log = time.Hour, slog.New(slog.NewTextHandler(&said, nil))
			token := filepath.Join(t.TempDir(), "token")
			require.NoError(t, os.WriteFile(token, []byte("a-token-of-the-web-hook"), 0o600))
			o.Listen = free(t)
			a := f.alertmanager("http://"+o.Listen+hint.Path, token)
			by(&o, a.Address, token)
			r := f.runWith(o)
			rounds := func(n int, more ...string) {
				t.Helper()
				eventually(t, func(t *assert.CollectT) {
					_, metrics := get(t, r.url+"/metrics")
					for _, line := range append(more, fmt.Sprintf(`pharos_remediator_rounds_total{result="success"} %d`, n)) {
						require.Contains(t, metrics, line+"\n")
					}
				})
			}
			rounds(1)
			time.Sleep(1500 * time.Millisecond) // it has been asked for what fires already

			// What an alert says is no evidence: the round finds that the node is well.
			f.raise(a, sick)
			rounds(2, `pharos_remediator_hints_total{outcome="taken",source="`+name+`"} 1`)
			require.Empty(t, f.remediations())
			f.untouched()
			require.Empty(t, f.policy().Status.Holds)
			require.Equal(t, 1, said.Count(`msg="Round begins early, by a hint" source=`+name+" alerts=1 names=[PharosNodeNotReady]"), said.String())

			// Nor does it say which: another node is sick, and is found.
			f.fail("shop-node-12")
			f.raise(a, "shop-node-13")
			rounds(3)
			require.NotNil(t, f.machine("shop-node-12").Spec.Remediation)
			require.Equal(t, "shop-node-12", f.one().Spec.Target.Machine)
			for _, signal := range f.one().Spec.Evidence.Signals {
				require.Contains(t, []string{"central-a", "central-b", "node", "lease"}, signal.Source)
			}
			_, metrics := get(t, r.url+"/metrics")
			require.NotContains(t, metrics, sick)
		})
	}
}

// free is an address that nobody listens at.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// alertmanager starts a stock one that calls a web hook with a token, as the reference
// says that it is to be configured.
func (f *fleet) alertmanager(url, token string) *promtest.Server {
	at, dir := free(f.t), f.t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	require.NoError(f.t, os.WriteFile(config, fmt.Appendf(nil, `
route: {receiver: remediator, group_by: [alertname, cell, cluster], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
  - name: remediator
    webhook_configs:
      - url: %q
        max_alerts: 100
        http_config: {authorization: {credentials_file: %q}}
`, url, token), 0o600))
	f.t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return promtest.Program(f.t, at, "alertmanager", "--config.file="+config, "--storage.path="+dir,
		"--web.listen-address="+at, "--cluster.listen-address=").Ready(f.t)
}

// raise hands an alert about a node to an Alertmanager.
func (f *fleet) raise(a *promtest.Server, node string) {
	raw, err := json.Marshal([]any{map[string]any{"startsAt": time.Now(), "labels": map[string]string{
		"alertname": "PharosNodeNotReady", "cell": cellName, "cluster": clusterName, "node": node}}})
	require.NoError(f.t, err)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+a.Address+"/api/v2/alerts", strings.NewReader(string(raw)))
	require.NoError(f.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(f.t, err)
	require.NoError(f.t, resp.Body.Close())
	require.Equal(f.t, http.StatusOK, resp.StatusCode)
}
