package signal_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// FuzzAnswers asserts that whatever a central answers to its three questions, what is
// taken says of what it speaks and when that was, and that a central of which anything
// could not be understood says so.
func FuzzAnswers(f *testing.F) {
	vector := func(series ...string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}}`
	}
	node := `{"metric":{"cell":"asia-1","cluster":"shop","node":"n"},"value":[1,"%s"]}`
	for _, value := range []string{"1", "0", "0.5", "NaN", "+Inf", "-Inf", "1e308", "-1", "x", ""} {
		f.Add([]byte(vector(fmt.Sprintf(node, value))), []byte(vector(fmt.Sprintf(node, "1700000000"))))
		f.Add([]byte(vector(fmt.Sprintf(node, "1"))), []byte(vector(fmt.Sprintf(node, value))))
	}
	f.Add([]byte(vector(`{"metric":{},"value":[1,"1"]}`, `null`)), []byte(vector(`{"metric":{},"value":[1,"1"]}`)))
	f.Add([]byte(`{"status":"success","warnings":["half"],"data":{"resultType":"vector","result":[]}}`), []byte(vector()))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`), []byte(`{"status":"error"}`))
	f.Add([]byte(vector()[:40]), []byte{})
	var values, times []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/status/config"):
			_, _ = fmt.Fprint(w, `{"status":"success","data":{"yaml":"global: {external_labels: {central_replica: a}}"}}`)
		case strings.HasPrefix(r.FormValue("query"), "timestamp("):
			_, _ = w.Write(times)
		default:
			_, _ = w.Write(values)
		}
	}))
	f.Cleanup(server.Close)
	r, err := signal.New(signal.Options{
		Hub: fake.NewFakeClient(), Namespace: "unused", Timeout: 100 * time.Millisecond, Centrals: centrals(f, server.URL, server.URL),
	})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, v, ts []byte) {
		values, times = v, ts
		requireUsable(t, r.Centrals(t.Context())[0])
	})
}

// requireUsable checks what decisions take for granted of a central.
func requireUsable(t *testing.T, c policy.Central) {
	if c.Err != "" {
		require.Equal(t, policy.Central{Name: "central-a", Err: c.Err}, c, "of an answer that is none nothing is taken")
		return
	}
	for _, h := range c.Heartbeats {
		require.NotEmpty(t, h.Cell)
	}
	for _, u := range c.ClustersUp {
		require.NotContains(t, []string{u.Cell, u.Cluster}, "")
		require.GreaterOrEqual(t, u.At.Unix(), int64(0))
	}
	for _, u := range c.Unhealthy {
		require.NotContains(t, []string{u.Cell, u.Cluster, u.Node}, "")
		require.GreaterOrEqual(t, u.At.Unix(), int64(0))
	}
	// Each series is asked for by three questions. One that is not taken by one of
	// them, such as a value that is not 1 for an unhealthy node, must be told of.
	taken := len(c.Heartbeats) == len(c.ClustersUp) && len(c.ClustersUp) == len(c.Unhealthy)
	require.True(t, taken || len(c.Warnings)+len(c.Partial) > 0, "%+v", c)
	for _, p := range c.Partial {
		require.NotContains(t, []string{p.Cell, p.Message}, "")
	}
}
