package agent

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"

	"github.com/pharos-fleet/pharos/internal/kube"
)

// TestProbeFindsAWatchThatHangs puts something between agent and API server
// that answers all requests and lets the events of long watches lie.
func TestProbeFindsAWatchThatHangs(t *testing.T) {
	business := startBusiness(t)
	business.createNode("n1")
	hang := &hangingWatch{gate: make(chan struct{})}
	front := hang.serve(t, business.url)
	conn := connected(t, kubeconfig(front, "first-token"))
	var lists atomic.Int32
	whole := conn.pods.source.list
	conn.pods.source.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		lists.Add(1)
		return whole(ctx, o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { conn.run(ctx) })
	defer watching.Wait()
	defer cancel()

	var err error
	waitFor(10*time.Second, func() bool {
		err = conn.probe(t.Context())
		return err == nil
	})
	require.NoError(t, err)
	business.setReady("n1", corev1.ConditionUnknown)
	require.NoError(t, conn.probe(t.Context()), "a watch that follows is believed")
	hang.begin()
	require.NoError(t, conn.probe(t.Context()), "nothing has happened that it could have missed")
	business.setReady("n1", corev1.ConditionTrue)
	require.ErrorContains(t, conn.probe(t.Context()), "the watch of nodes hangs")
	business.createPod("default", "web", "n1")
	require.ErrorContains(t, conn.probePods(t.Context()), "the watch of pods hangs")
	conn.pods.restart()
	hang.end()
	require.True(t, waitFor(10*time.Second, func() bool { return conn.probe(t.Context()) == nil }))
	require.True(t, waitFor(10*time.Second, func() bool { return conn.probePods(t.Context()) == nil }))
	require.Len(t, conn.pods.all(), 1)
	require.Zero(t, lists.Load(), "a list that is streamed is never in memory as a whole")
}

// connected is a connection by a kubeconfig; nothing watches it yet.
func connected(t *testing.T, kubeconfig []byte) *connection {
	t.Helper()
	secret := &corev1.Secret{Data: map[string][]byte{kube.SecretKeyKubeconfig: kubeconfig}}
	return connectedBy(t, secret)
}

func connectedBy(t *testing.T, secret *corev1.Secret) *connection {
	t.Helper()
	a, err := credentialIn(secret).open()
	require.NoError(t, err)
	conn, err := connect(a, true, func(error) {})
	require.NoError(t, err)
	t.Cleanup(func() {
		utilnet.CloseIdleConnectionsFor(conn.http.Transport)
		conn.scraper.close()
	})
	return conn
}

// adopt gives an agent that does not run a member with a connection.
func adopt(t *testing.T, a *Agent, cluster string, conn *connection) *member {
	t.Helper()
	m := a.newMember(memberOptions{key: keyOf(clusterNamed("fleet", cluster)), log: a.log})
	m.conn = conn
	a.members[m.key.clusterKey] = m
	return m
}

// hangingWatch holds what long watches say back between begin and end.
type hangingWatch struct {
	mu    sync.Mutex
	gate  chan struct{}
	holds bool
}

func (h *hangingWatch) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = true
}

func (h *hangingWatch) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = false
	close(h.gate)
}

func (h *hangingWatch) wait() {
	h.mu.Lock()
	holds := h.holds
	h.mu.Unlock()
	if holds {
		<-h.gate
	}
}

func (h *hangingWatch) serve(t *testing.T, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	rt, err := transport.New(&transport.Config{TLS: transport.TLSConfig{Insecure: true}})
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     rt,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		ModifyResponse: func(r *http.Response) error {
			q := r.Request.URL.Query()
			if q.Get("watch") != "" && q.Get("timeoutSeconds") != "1" {
				r.Body = &heldBody{ReadCloser: r.Body, wait: h.wait}
			}
			return nil
		},
	}
	front := httptest.NewTLSServer(proxy)
	t.Cleanup(front.Close)
	return front.URL
}

// heldBody waits after it has read, so that what was read is held back.
type heldBody struct {
	io.ReadCloser
	wait func()
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.wait()
	return n, err
}
