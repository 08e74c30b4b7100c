package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/internal/kube"
)

// TestConnectionsAreOpenedInTurns has an agent begin with twice as many clusters
// as it greets at once.
func TestConnectionsAreOpenedInTurns(t *testing.T) {
	var now, most, all atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" && r.Header.Get("Authorization") != "" { // who peeks at certificates shows none
			all.Add(1)
			for n := now.Add(1); n > most.Load(); {
				most.CompareAndSwap(most.Load(), n)
			}
			time.Sleep(50 * time.Millisecond) // for the others to come, too
			now.Add(-1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	t.Cleanup(server.Close)

	a, err := New(Options{Cell: restConfig("http://" + loopback + ":1"), Listen: loopback + ":0"})
	require.NoError(t, err)
	secret := &corev1.Secret{Data: map[string][]byte{kube.SecretKeyKubeconfig: kubeconfig(server.URL, "the-token")}}
	const clusters = 2 * maxGreetings
	for i := range clusters {
		m := a.newMember(memberOptions{
			key: keyOf(clusterNamed("fleet", fmt.Sprintf("c%d", i))), log: a.log,
			credential: func(context.Context) (credential, error) { return credentialIn(secret), nil },
		})
		m.start(t.Context())
		t.Cleanup(m.stop)
	}
	require.True(t, waitFor(4*time.Minute, func() bool { return all.Load() >= clusters }), "everybody gets a turn")
	require.LessOrEqual(t, most.Load(), int32(maxGreetings))
}
