package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// site is a cell with an agent at work.
type site struct {
	t       *testing.T
	cell    client.Client
	address string
	url     string
	log     *testkit.Said
}

func startAgent(t *testing.T, config *rest.Config) *site {
	t.Helper()
	s := &site{t: t, log: &testkit.Said{}}
	s.address = fmt.Sprintf("%s:%d", loopback, freePort(t))
	a, err := New(Options{Cell: config, Listen: s.address, Log: slog.New(slog.NewTextHandler(s.log, nil))})
	require.NoError(t, err)
	// Half a minute is long for a test. One probe may still fail without harm, if it
	// takes as long as it may.
	a.secretInterval, a.pace = 2*time.Second, pace{probe: time.Second, up: 6 * time.Second, nodes: 12 * time.Second}
	s.url = "http://" + s.address
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

// newSite is a cell as deploy installs it, with an agent that has the rights of
// its own account and no others.
func newSite(t *testing.T) *site {
	t.Helper()
	config := testkit.APIServer(t)
	admin, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	objects, err := deploy.Cell()
	require.NoError(t, err)
	for _, name := range []string{"fleet", "other"} {
		require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		rights, err := deploy.ClusterNamespace(name)
		require.NoError(t, err)
		objects = append(objects, rights...)
	}
	for _, o := range objects {
		require.NoError(t, admin.Create(t.Context(), o), "%s %s", o.GetKind(), o.GetName())
	}
	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":edge-agent",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	s := startAgent(t, own)
	s.cell = admin
	return s
}

func (s *site) create(o client.Object) {
	s.t.Helper()
	o.SetCreationTimestamp(metav1.Time{})
	require.NoError(s.t, s.cell.Create(s.t.Context(), o))
}

// observe puts a kubeconfig where the agent looks for it.
func (s *site) observe(cluster string, kubeconfig []byte) {
	s.t.Helper()
	s.observeWith(cluster, map[string][]byte{"kubeconfig": kubeconfig})
}

func (s *site) observeWith(cluster string, data map[string][]byte) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: cluster + "-observer"}, Data: data}
	err := s.cell.Update(s.t.Context(), secret)
	if client.IgnoreNotFound(err) == nil && err != nil {
		err = s.cell.Create(s.t.Context(), secret)
	}
	require.NoError(s.t, err)
}

func (s *site) get(path string, header http.Header) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp, string(body)
}

// series returns the samples of the state of cluster shop that begin with a prefix.
func (s *site) series(prefix string) []string {
	s.t.Helper()
	return s.seriesAt("/state/fleet/shop/metrics", prefix)
}

func (s *site) seriesAt(path, prefix string) []string {
	s.t.Helper()
	_, body := s.get(path, nil)
	var out []string
	for _, line := range samplesOf(body) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, line)
		}
	}
	return out
}

func (s *site) has(line string) func() bool {
	return func() bool { return len(s.series(line)) > 0 }
}

func (s *site) within(limit time.Duration, what string, condition func() bool) {
	s.t.Helper()
	begin := time.Now()
	require.True(s.t, waitFor(limit, condition), "within %s: %s", limit, what)
	s.t.Logf("%s: after %s", what, time.Since(begin).Round(100*time.Millisecond))
}
