package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// secretServer is a cell that answers for observer Secrets, by their names.
func secretServer(t *testing.T, answer func(secret string) (status int, kubeconfig []byte)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, kubeconfig := answer(path.Base(r.URL.Path))
		secret := corev1.Secret{Data: map[string][]byte{"kubeconfig": kubeconfig}}
		secret.APIVersion, secret.Kind = "v1", "Secret"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status == http.StatusOK {
			_ = json.NewEncoder(w).Encode(secret)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// answering is the API server of a business cluster that says one thing.
func answering(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(s.Close)
	return s.URL
}

// gathered is what /metrics says of the agent.
func gathered(t *testing.T, a *Agent) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{a})
	families, err := registry.Gather()
	require.NoError(t, err)
	var out bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&out, f)
		require.NoError(t, err)
	}
	return out.String()
}

// Each way in which a kubeconfig can be of no use is seen and counted, and said once.
func TestWhatKeepsAClusterFromBeingWatchedShows(t *testing.T) {
	refusing, forbidding := answering(t, http.StatusUnauthorized), answering(t, http.StatusForbidden)
	cell := secretServer(t, func(secret string) (int, []byte) {
		switch strings.TrimSuffix(secret, "-observer") {
		case "absent":
			return http.StatusNotFound, nil
		case "empty":
			return http.StatusOK, nil
		case "kept":
			return http.StatusForbidden, nil
		case "nonsense":
			return http.StatusOK, []byte("nonsense: [")
		case "unknown-user":
			return http.StatusOK, kubeconfig(refusing, "x")
		case "no-rights":
			return http.StatusOK, kubeconfig(forbidding, "x")
		}
		return http.StatusOK, kubeconfig("https://"+loopback+":1", "x")
	})
	log := &testkit.Said{}
	a, err := New(Options{Cell: restConfig(cell), Listen: loopback + ":0", Log: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	begin := time.Now()
	a.now = func() time.Time { return begin.Add(30 * time.Since(begin)) } // what takes half a minute takes a second

	ctx, cancel := context.WithCancel(t.Context())
	names := []string{"absent", "empty", "kept", "nonsense", "unknown-user", "no-rights", "dead"}
	var clusters []*v1alpha1.Cluster
	for _, name := range names {
		c := clusterNamed("fleet", name)
		require.NoError(t, a.clusters.GetStore().Add(c))
		clusters = append(clusters, c)
	}
	require.Contains(t, gathered(t, a), `pharos_edge_agent_clusters{state="kubeconfig_missing"} 0`)
	a.apply(ctx, clusters)
	defer a.apply(t.Context(), nil)
	defer cancel()

	says := func(lines ...string) func() bool {
		return func() bool {
			text := gathered(t, a)
			for _, line := range lines {
				if !strings.Contains(text, "pharos_edge_agent_clusters{state="+line+"\n") {
					return false
				}
			}
			return true
		}
	}
	require.True(t, waitFor(10*time.Second, says(
		`"watched"} 7`, `"up"} 0`, `"refused"} 0`, `"unknown"} 0`,
		`"kubeconfig_missing"} 2`, `"kubeconfig_unread"} 1`, `"kubeconfig_broken"} 1`, `"kubeconfig_refused"} 2`, `"silent"} 1`, `"failing"} 0`,
	)), gathered(t, a))
	for _, name := range names {
		require.NotContains(t, gathered(t, a), fmt.Sprintf(`watch_errors_total{cluster="%s"} 0`, name))
	}
	require.True(t, waitFor(10*time.Second, func() bool { return log.Count("cluster not watched") == len(names) }), "each is said")
	time.Sleep(2 * time.Second) // further attempts
	require.Equal(t, len(names), log.Count("level=ERROR"), "and said once")

	m := a.member(clusterKey{"fleet", "dead"})
	m.good(a.now())
	require.Empty(t, m.troubled(), "a good probe ends the trouble")
}

// Who refuses us answers, who does not answer is down, and of whom nothing is known
// nothing is said: an API server that we may not ask burns none of its budget.
func TestWhetherAnAPIServerAnswersIsTold(t *testing.T) {
	hangs := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	unverified := string(kubeconfig(answering(t, http.StatusOK), "x"))
	for name, c := range map[string]struct {
		kubeconfig string
		trouble    trouble
		told       []bool // whether it answers, if that is known
	}{
		"it does not know us":             {string(kubeconfig(answering(t, http.StatusUnauthorized), "x")), kubeconfigRefused, []bool{true}},
		"it does not let us":              {string(kubeconfig(answering(t, http.StatusForbidden), "x")), kubeconfigRefused, []bool{true}},
		"it has another interface":        {string(kubeconfig(answering(t, http.StatusNotFound), "x")), failing, []bool{true}},
		"it cannot":                       {string(kubeconfig(answering(t, http.StatusInternalServerError), "x")), silent, []bool{false}},
		"what is in front of it is alone": {string(kubeconfig(answering(t, http.StatusBadGateway), "x")), silent, []bool{false}},
		"nobody listens":                  {string(kubeconfig("https://"+loopback+":1", "x")), silent, []bool{false}},
		"it hangs":                        {string(kubeconfig(hangs.URL, "x")), silent, []bool{false}},
		"its certificate is another's":    {strings.Replace(unverified, ", insecure-skip-tls-verify: true", "", 1), unidentified, nil},
		"it speaks otherwise":             {string(kubeconfig("https://"+plain.Listener.Addr().String(), "x")), unidentified, nil},
		"its name has no address":         {string(kubeconfig("https://nobody.invalid", "x")), unidentified, nil},
		"the proxy before it is away":     {strings.Replace(unverified, "cluster: {", `cluster: {proxy-url: "http://`+loopback+`:1", `, 1), unidentified, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := New(Options{Cell: restConfig("http://" + loopback + ":1"), Listen: loopback + ":0"})
			require.NoError(t, err)
			conn := connected(t, []byte(c.kubeconfig))
			m := adopt(t, a, "shop", conn)
			_, known := m.answers(a.now())
			require.False(t, known, "nobody has asked yet")
			m.fail(troubleOfProbe(conn.probe(t.Context())))
			require.Equal(t, c.trouble, m.troubled())
			answers, known := m.answers(a.now())
			require.Equal(t, len(c.told) == 1, known)
			if known {
				require.Equal(t, c.told[0], answers)
			}
			m.fail(kubeconfigUnread)
			_, known = m.answers(a.now())
			require.False(t, known, "without a kubeconfig nothing is known any more")
		})
	}
}

// One probe that fails is no outage.
func TestAnAPIServerThatAnsweredJustNowAnswers(t *testing.T) {
	a, err := New(Options{Cell: restConfig("http://" + loopback + ":1"), Listen: loopback + ":0"})
	require.NoError(t, err)
	m := adopt(t, a, "shop", connected(t, kubeconfig("https://"+loopback+":1", "x")))
	now := time.Now()
	m.good(now)
	m.fail(silent)
	for after, want := range map[time.Duration]bool{upFor: true, upFor + time.Second: false} {
		answers, known := m.answers(now.Add(after))
		require.True(t, known)
		require.Equal(t, want, answers, after)
	}
}

// A HEAD would be a whole scrape of an API server whose result nobody reads.
func TestHeadDoesNotScrape(t *testing.T) {
	var scrapes atomic.Int32
	business := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { scrapes.Add(1) }))
	defer business.Close()
	a, err := New(Options{Cell: restConfig("http://" + loopback + ":1"), Listen: loopback + ":0"})
	require.NoError(t, err)
	adopt(t, a, "shop", connected(t, kubeconfig(business.URL, "x")))
	ask := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		a.handler().ServeHTTP(w, httptest.NewRequest(method, "/proxy/fleet/shop/apiserver/metrics", nil))
		return w
	}
	require.Equal(t, http.StatusOK, ask(http.MethodGet).Code)
	require.EqualValues(t, 1, scrapes.Load())
	head := ask(http.MethodHead)
	require.Equal(t, http.StatusMethodNotAllowed, head.Code)
	require.Equal(t, http.MethodGet, head.Header().Get("Allow"))
	require.EqualValues(t, 1, scrapes.Load())
}
