package split_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/operator/workload"
)

const (
	interval = time.Second
	asia     = "asia"
)

// cell is a meta cluster outside of the hub: an agent that tells the state of its
// business clusters, and an edge of real servers. Its clusters have each so many
// nodes, other than those of any other cell.
type cell struct {
	name   string
	number int
	nodes  int
	agent  string
	// owner outlives the subtests in which servers are started.
	owner   *testing.T
	divided workload.Division
	// steps are the divisions that it has gone through.
	steps []workload.Division
	edges []*promtest.Server

	clusters []string
}

func newCell(t *testing.T, number, nodes, clusters int) *cell {
	t.Helper()
	c := &cell{
		name: fmt.Sprintf("asia-%d", number), number: number, nodes: nodes, agent: fmt.Sprintf("127.94.3.%d:9096", number),
		owner: t, divided: workload.Division{Shards: 1},
	}
	testkit.Serve(t, c.agent, c)
	c.grow(t, clusters)
	return c
}

// grow gives the cell so many clusters more, and has its edge know of them.
func (c *cell) grow(t *testing.T, more int) {
	t.Helper()
	for range more {
		c.clusters = append(c.clusters, fmt.Sprintf("%s-c%d", c.name, len(c.clusters)))
	}
	c.divide(t, c.divided)
}

// divide has the servers of the edge watch what is theirs by a division. Those
// that are no longer needed go.
func (c *cell) divide(t *testing.T, d workload.Division) {
	t.Helper()
	c.divided = d
	servers := int(max(d.Shards, d.Beside))
	for shard := range servers {
		address := fmt.Sprintf("127.94.2.%d:9090", 10*c.number+shard)
		files := c.files(t, address, uint(shard))
		if shard < len(c.edges) {
			c.edges[shard].Follow(files)
			continue
		}
		c.edges = append(c.edges, promtest.Prometheus(c.owner, address, files))
	}
	for _, e := range c.edges[servers:] {
		e.Kill()
	}
	c.edges = c.edges[:servers]
}

func (c *cell) files(t *testing.T, address string, shard uint) promcfg.Files {
	t.Helper()
	o := edge.Options{
		Geography: asia, Region: "east", Cell: c.name, Replica: "a", Interval: interval,
		Shard: shard, Shards: c.divided.Shards, ShardsBeside: c.divided.Beside,
		Static: &edge.Static{Edges: []string{address}, Agents: []string{c.agent}, Business: map[string]string{}},
	}
	for _, cluster := range c.clusters {
		o.Static.Business[cluster] = c.agent
	}
	files, err := edge.Render(o)
	require.NoError(t, err)
	require.NoError(t, promcfg.Validate(files))
	return files
}

// endpoints are where the servers of the edge are read.
func (c *cell) endpoints() []string {
	var all []string
	for _, e := range c.edges {
		all = append(all, e.Address)
	}
	return all
}

// all is how many nodes the cell has.
func (c *cell) all() int { return c.nodes * len(c.clusters) }

// ServeHTTP tells of one cluster as the edge agent does: nodes in four racks and
// two pools, every other one not ready, because exceptions are what makes load.
func (c *cell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cluster, isState := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/state/static/"), "/metrics")
	if !isState || !strings.HasPrefix(r.URL.Path, "/state/") {
		fmt.Fprintln(w, `apiserver_request_total{verb="GET",code="200"} 1`)
		return
	}
	fmt.Fprintf(w, "pharos_cluster_up{cluster=%q} 1\npharos_cluster_info{cluster=%q,size=\"Small\"} 1\n", cluster, cluster)
	for i := range c.nodes {
		node := fmt.Sprintf("cluster=%q,node=\"n%d\"", cluster, i)
		fmt.Fprintf(w, "kube_node_info{%s,kubelet_version=\"v1.37.2\"} 1\n", node)
		fmt.Fprintf(w, "kube_node_labels{%s,label_topology_kubernetes_io_zone=\"z\",label_topology_pharos_dev_rack=\"r%d\",label_pharos_dev_pool=\"p%d\"} 1\n", node, i%4, i%2)
		fmt.Fprintf(w, "kube_node_status_allocatable{%s,resource=\"cpu\"} 4\nkube_node_status_capacity{%s,resource=\"cpu\"} 4\n", node, node)
		for status, value := range map[string]int{"true": 1 - i%2, "false": i % 2, "unknown": 0} {
			fmt.Fprintf(w, "kube_node_status_condition{%s,condition=\"Ready\",status=%q} %d\n", node, status, value)
		}
	}
}

// record tells the hub of the cell as the cell's own controller would.
func (c *cell) record(t *testing.T, h *hub) {
	t.Helper()
	o := &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Spec:       v1alpha1.CellSpec{Geography: asia, Region: "east", KubeconfigSecret: c.name},
	}
	// What it is believed to bring until that is measured.
	o.Spec.Capacity.Pools = []v1alpha1.CapacityPool{{Name: v1alpha1.PoolClusters, Limit: resource.MustParse("3")}}
	h.Create(t, o)
	o.Status.EdgeEndpoints = c.endpoints()
	h.SetStatus(t, o)
}

// follow does in the cell what the Federation's status says, and reports of it, as
// the cell's own controller would.
func (c *cell) follow(t *testing.T, h *hub) {
	t.Helper()
	o := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	require.NoError(t, h.Admin.Get(t.Context(), objectKey(o), o))
	to := workload.EdgeDivision(h.federation(t), o)
	if to == c.divided {
		return
	}
	t.Logf("%s: the edge of %s goes from %+v to %+v", time.Now().Format("15:04:05"), c.name, c.divided, to)
	c.steps = append(c.steps, to)
	c.divide(t, to)
	before := o.DeepCopy()
	o.Status.EdgeEndpoints = c.endpoints()
	require.NoError(t, h.Admin.Status().Patch(t.Context(), o, client.MergeFrom(before)))
}

// askFor has the cell ask for so many shards of its edge.
func (c *cell) askFor(t *testing.T, h *hub, shards int32) {
	t.Helper()
	o := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	require.NoError(t, h.Admin.Get(t.Context(), objectKey(o), o))
	before := o.DeepCopy()
	o.Spec.Edge.Shards = &shards
	require.NoError(t, h.Admin.Patch(t.Context(), o, client.MergeFrom(before)))
}

func objectKey(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }
