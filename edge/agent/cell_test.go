package agent

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While the cell's API server is dead, what the cell says is as last seen: no
// cluster of it counts as up, though its own API server answers.
func TestADeadCellShows(t *testing.T) {
	var dead atomic.Bool
	cell := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dead.Load() || r.URL.String() != "/apis/pharos.dev/v1alpha1/clusters?limit=1" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "pharos.dev/v1alpha1", "kind": "ClusterList", "items": []}`))
	}))
	defer cell.Close()
	a, err := New(Options{Cell: restConfig(cell.URL), Listen: loopback + ":0"})
	require.NoError(t, err)
	now := time.Now()
	a.now = func() time.Time { return now }
	shop := clusterNamed("fleet", "shop")
	require.NoError(t, a.clusters.GetStore().Add(shop))
	m := adopt(t, a, "shop", connected(t, kubeconfig("https://127.0.0.1:1", "x")))
	require.NoError(t, m.conn.nodes.Add(nodeNamed("n1")))
	says := func() (samples []string, nodes int) {
		m.good(now)
		s, known := a.stateOf(m.key.clusterKey)
		require.True(t, known)
		return samplesOf(written(t, s)), len(s.clusters[0].nodes)
	}
	const up, down = `pharos_cluster_up{cluster="shop"} 1`, `pharos_cluster_up{cluster="shop"} 0`

	require.NoError(t, a.probeCell(t.Context()))
	samples, _ := says()
	require.Contains(t, samples, up)

	dead.Store(true)
	now = now.Add(30 * time.Second)
	require.ErrorContains(t, a.probeCell(t.Context()), "listing Clusters")
	samples, _ = says()
	require.Contains(t, samples, up, "one probe may fail without harm")
	now = now.Add(time.Second)
	samples, nodes := says()
	require.Contains(t, samples, down)
	require.Equal(t, 1, nodes, "the nodes are watched in their own cluster")

	dead.Store(false)
	require.NoError(t, a.probeCell(t.Context()))
	samples, _ = says()
	require.Contains(t, samples, up)
}
