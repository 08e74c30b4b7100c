package sources_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/internal/version"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// secondCell has two edge servers that divide the same sources between them.
const secondCell = "asia-2"

// division is one step by which a cell goes from two servers to three.
type division struct{ shards, beside uint }

// shard is what one server of the second cell runs with.
func (w *world) shard(t *testing.T, number int, d division) promcfg.Files {
	t.Helper()
	o := w.options()
	o.Cell, o.Replica, o.Shard, o.Shards, o.ShardsBeside = secondCell, "b", uint(number), d.shards, d.beside
	files, err := edge.Render(o)
	require.NoError(t, err)
	return files
}

// shardsDivide has two servers find together what one finds alone, each cluster
// whole in one of them. Both ask the agent for what it says of their clusters. A
// third then takes a part from them, in the steps in which an operator would have it.
func (w *world) shardsDivide(t *testing.T, alone *promtest.Server) {
	var shards []*promtest.Server
	start := func(d division) {
		number := len(shards)
		address := shardAddresses()[number]
		w.pod(t, deploy.Namespace, fmt.Sprintf("edge-%d-b-0", number), address, map[string]string{
			v1alpha1.LabelComponent: v1alpha1.ComponentEdge, v1alpha1.LabelShard: strconv.Itoa(number), v1alpha1.LabelReplica: "b",
		})
		shards = append(shards, w.prometheus(t, address+":9090", w.shard(t, number, d)))
	}
	start(division{2, 0})
	start(division{2, 0})
	w.eachClusterIsWatched(t, alone, shards, 1)
	start(division{2, 3})
	for _, step := range []struct {
		division
		most int
	}{{division{2, 3}, 2}, {division{3, 2}, 2}, {division{3, 0}, 1}} {
		for i, s := range shards {
			s.Follow(w.shard(t, i, step.division))
		}
		w.eachClusterIsWatched(t, alone, shards, step.most)
	}
	t.Run("a central finds the cascades that read them", func(t *testing.T) { w.cascadesAreFound(t, shards) })
}

// eachClusterIsWatched waits until some servers have all targets that one has alone,
// every cluster whole in a server, and none in more servers than so many. Every
// server asks the agent for what it says of itself.
func (w *world) eachClusterIsWatched(t *testing.T, alone *promtest.Server, shards []*promtest.Server, most int) {
	t.Helper()
	testkit.Await(t, func() error {
		whole, watchers := byCluster(targets(t, alone)), map[string][]int{}
		for i, s := range shards {
			found := byCluster(targets(t, s))
			if len(found[agentItself]) != 1 {
				return fmt.Errorf("shard %d has the agent's own %v", i, found[agentItself])
			}
			for cluster, some := range found {
				if !slices.Equal(some, whole[cluster]) {
					return fmt.Errorf("shard %d has of cluster %s %v, and one server alone has %v", i, cluster, some, whole[cluster])
				}
				watchers[cluster] = append(watchers[cluster], i)
			}
		}
		delete(whole, agentItself)
		for cluster := range whole {
			if n := len(watchers[cluster]); n < 1 || n > most {
				return fmt.Errorf("cluster %s is watched by %v, of %d servers", cluster, watchers[cluster], len(shards))
			}
		}
		return nil
	})
}

// agentItself stands for a cluster where the agent tells of itself.
const agentItself = "the agent"

// byCluster sorts targets by the cluster that they are of.
func byCluster(targets map[string]string) map[string][]string {
	out := map[string][]string{}
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		cluster := targets[target]
		if strings.Contains(target, `job="edge-agent-self"`) {
			cluster = agentItself
		}
		out[cluster] = append(out[cluster], target)
	}
	return out
}

// cascadesAreFound has a central find two cascades, and each of them itself, by what
// an API server says of their pods. One reads the first cell, the other every server
// of the second.
func (w *world) cascadesAreFound(t *testing.T, shards []*promtest.Server) {
	hub, err := deploy.Hub(version.Image)
	require.NoError(t, err)
	for _, o := range hub {
		require.NoError(t, client.IgnoreAlreadyExists(w.admin.Create(t.Context(), o)), "%s %s", o.GetKind(), o.GetName())
	}
	var second []string
	for _, s := range shards {
		second = append(second, s.Address)
	}
	apiServer := w.options().APIServer
	top := central.Options{
		Replica: "a", Replicas: []string{"a"}, Interval: w.options().Interval, APIServer: apiServer,
		Geographies: []string{"asia"}, CascadeShards: map[string][]int{"asia": {0, 1}},
	}
	for i, cell := range []cascade.Cell{
		{Name: w.options().Cell, Region: "east", Endpoints: []string{edgeAddress + ":9090"}},
		{Name: secondCell, Region: "east", Shards: uint(len(shards)), Endpoints: second},
	} {
		files, err := cascade.Render(cascade.Options{
			Geography: "asia", Shard: i, Replica: "a", Interval: top.Interval, APIServer: apiServer, Cells: []cascade.Cell{cell},
		})
		require.NoError(t, err)
		w.hubServer(t, cascadeAddresses()[i], "cascade", files, workload.Part{
			Name: workload.CascadeName("asia", i), Component: v1alpha1.ComponentCascade,
			Labels: map[string]string{v1alpha1.LabelGeography: "asia", v1alpha1.LabelShard: strconv.Itoa(i), v1alpha1.LabelReplica: "a"},
		})
		top.Cells = append(top.Cells, central.Cell{Geography: "asia", Region: "east", Name: cell.Name, Shards: cell.Shards})
	}
	files, err := central.Render(top)
	require.NoError(t, err)
	c := w.hubServer(t, centralAddress, "central", files, workload.Part{
		Name: "central-a", Component: v1alpha1.ComponentCentral, Labels: map[string]string{v1alpha1.LabelReplica: "a"},
	})
	clusters := 2 * float64(len(clusterNames()))
	testkit.Await(t, func() error {
		return errors.Join(
			c.Gives("count(count by (cascade_shard) (cascade:series:count))", 2),
			c.Gives("fleet:cells_contributing:count", 2),
			c.Gives(`count(count by (edge_shard) (cell:heartbeat:timestamp_seconds{cell="asia-2"}))`, float64(len(shards))),
			c.Gives("fleet:clusters_known:count", clusters),
			c.Gives("fleet:clusters_expected:count", clusters),
			c.Gives("fleet:nodes:count", clusters),
			c.Gives(`max(count by (cell, cluster) (cluster:nodes:count{cluster!="_meta"}))`, 1),
		)
	})
}

// hubServer runs a server as the pod of a part, with the token of an account.
func (w *world) hubServer(t *testing.T, ip, account string, files promcfg.Files, part workload.Part) *promtest.Server {
	t.Helper()
	w.pod(t, deploy.Namespace, part.Name+"-0", ip, workload.Selector(part, workload.Prometheus))
	files[promcfg.TokenFile], files[promcfg.CAFile] = []byte(w.token(t, account)), w.bundle
	return promtest.Prometheus(t, ip+":9090", files).Ready(t)
}
