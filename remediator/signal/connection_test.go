package signal

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/skew"
)

// What measures clocks stands between a client and its connections. They end all
// the same when the cluster is gone, and the clock is measured all the same when
// it is called.
func TestClientsThatMeasureClocksLetGo(t *testing.T) {
	var open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(w, `{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}`); err != nil {
			t.Errorf("answering: %v", err)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	behind := func() time.Time { return time.Now().Add(-time.Hour) }
	clients := newClusterClients(time.Minute, behind)
	shop, mall := clusterKey{cell: "asia-1", name: "shop"}, clusterKey{cell: "asia-2", name: "mall"}
	for _, key := range []clusterKey{shop, mall} {
		c, err := clients.To(key, secretTo(t, server))
		require.NoError(t, err)
		ctx, clock := skew.Measure(t.Context())
		_, err = c.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		require.NoError(t, err)
		ahead, err := clock.Skew()
		require.NoError(t, err)
		require.InDelta(t, time.Hour.Seconds(), ahead.Seconds(), 60)
	}
	require.Equal(t, int32(2), open.Load())

	reader := &Reader{cells: newCellClients(time.Minute, behind), clusters: clients}
	reader.forgetClusters("asia-1", nil)
	require.Eventually(t, func() bool { return open.Load() == 1 }, time.Minute, 10*time.Millisecond, "the cell's other clusters are gone")
	require.Equal(t, 1, clients.Len())
	reader.forgetCells(nil)
	require.Eventually(t, func() bool { return open.Load() == 0 }, time.Minute, 10*time.Millisecond, "the cell is gone, and its clusters with it")
	require.Zero(t, clients.Len())
}

// A business cluster and its access are one key: rights are never lent.
func TestAccessesHaveClientsOfTheirOwn(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	clients := newClusterClients(time.Minute, time.Now)
	var got []kubernetes.Interface
	for _, a := range []access{observing, checking} {
		c, err := clients.To(clusterKey{"asia-1", "fleet", "shop", a}, secretTo(t, server))
		require.NoError(t, err)
		got = append(got, c)
	}
	require.NotSame(t, got[0], got[1])
}

func secretTo(t *testing.T, server *httptest.Server) *corev1.Secret {
	t.Helper()
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "s", UID: "u", ResourceVersion: "1"},
		Data:       map[string][]byte{kube.SecretKeyKubeconfig: data},
	}
}
