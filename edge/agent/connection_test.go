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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"
)

// TestProbeFindsAWatchThatHangs puts something between agent and API server
// that answers all requests and lets the events of long watches lie.
func TestProbeFindsAWatchThatHangs(t *testing.T) {
	business := startBusiness(t)
	business.createNode("n1")
	hang := &hangingWatch{gate: make(chan struct{})}
	front := hang.serve(t, business.url)
	conn, err := connect(kubeconfig(front, "first-token"), nopWatchError)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { conn.run(ctx) })
	defer watching.Wait()
	defer cancel()

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
	hang.end()
	require.True(t, waitFor(10*time.Second, func() bool { return conn.probe(t.Context()) == nil }))
}

func nopWatchError(context.Context, *cache.Reflector, error) {}

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
