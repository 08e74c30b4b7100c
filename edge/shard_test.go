package edge

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

// places tells, for each cluster, the shard that has its targets, by every job
// that Prometheus' own relabelling puts through.
func places(t testing.TB, shards uint, clusters []string) map[string]uint {
	t.Helper()
	servers := make([]server, shards)
	for i := range servers {
		servers[i] = load(t, shardOf(uint(i), shards))
	}
	out := map[string]uint{}
	for _, cluster := range clusters {
		for job, found := range targetsOf(cluster) {
			var in []uint
			for i, s := range servers {
				if s.target(t, job, found) != nil {
					in = append(in, uint(i))
				}
			}
			require.Len(t, in, 1, "job %s of cluster %s with %d shards", job, cluster, shards)
			if before, ok := out[cluster]; ok {
				require.Equal(t, before, in[0], "job %s of cluster %s is elsewhere", job, cluster)
			}
			out[cluster] = in[0]
		}
	}
	return out
}

// shardOf has a contract of nothing, which loads faster.
func shardOf(shard, shards uint) Options {
	o := options()
	o.Shard, o.Shards, o.Contract = shard, shards, &rules.Contract{}
	return o
}

// targetsOf are one target of the cluster in each job that has such.
func targetsOf(cluster string) map[string]map[string]string {
	if cluster == MetaCluster {
		return map[string]map[string]string{
			"state": fromSD("/p", cluster, ""), "kubelet-meta": node("10.0.0.1:10250"),
			"cadvisor-meta": node("10.0.0.2:10250"), "node-exporter-meta": pod("10.0.0.1"), "etcd-meta": pod("10.0.0.1"),
			"kube-apiserver-meta":          {"__address__": "10.0.0.1:6443", "__meta_kubernetes_endpointslice_port_name": "https"},
			"kube-controller-manager-meta": pod("10.0.0.1"), "kube-scheduler-meta": pod("10.0.0.1"),
		}
	}
	out := map[string]map[string]string{}
	for _, job := range []string{"state", "kube-apiserver", "kubelet", "cadvisor", "node-exporter"} {
		out[job] = fromSD("/p", cluster, "n")
	}
	for _, job := range []string{"etcd", "kube-controller-manager", "kube-scheduler"} {
		out[job] = pod("10.0.0.1", "label_pharos_dev_cluster", cluster)
	}
	return out
}

func clusterNames(n int) []string {
	names := []string{MetaCluster, "a", "中国", "with-a-rather-long-name-that-says-who-it-is-for-and-where"}
	for i := range n {
		names = append(names, fmt.Sprintf("cluster-%04d", i))
	}
	return names
}

// The agent tells of every cluster on one page, and each shard asks what it says of
// its own.
func TestEachShardAsksTheAgent(t *testing.T) {
	for shards := uint(1); shards <= 3; shards++ {
		for shard := range shards {
			require.NotNil(t, load(t, shardOf(shard, shards)).target(t, "edge-agent-self", pod("10.0.0.9")), "shard %d of %d", shard, shards)
		}
	}
}

func TestEachClusterIsInOneShardWhole(t *testing.T) {
	clusters := clusterNames(120)
	for shards := uint(1); shards <= 6; shards++ {
		placed := places(t, shards, clusters)
		require.Len(t, placed, len(clusters))
		count := make([]int, shards)
		for _, shard := range placed {
			count[shard]++
		}
		for shard, n := range count {
			require.Greater(t, n, len(clusters)/int(shards)/2, "shard %d of %d", shard, shards)
		}
	}
}

// watchers are, for each cluster, the servers that have the targets of a job.
func watchers(t testing.TB, shards, beside uint, clusters []string) map[string][]uint {
	t.Helper()
	out := map[string][]uint{}
	for shard := range max(shards, beside) {
		o := shardOf(shard, shards)
		o.ShardsBeside = beside
		s := load(t, o)
		for _, cluster := range clusters {
			if s.target(t, "state", fromSD("/p", cluster, "")) != nil {
				out[cluster] = append(out[cluster], shard)
			}
		}
	}
	return out
}

// While one division takes another's place, each cluster has the server that it
// had and the one that it will have, and no third.
func TestTwoDivisionsAreWatchedAtOnce(t *testing.T) {
	clusters := clusterNames(60)
	for _, n := range [][2]uint{{1, 2}, {2, 1}, {2, 3}, {3, 2}, {1, 4}, {4, 2}} {
		both := watchers(t, n[0], n[1], clusters)
		for _, cluster := range clusters {
			want := map[uint]bool{}
			for _, shards := range n {
				shard, err := ShardOf(cluster, shards)
				require.NoError(t, err)
				want[shard] = true
			}
			require.ElementsMatch(t, slices.Collect(maps.Keys(want)), both[cluster], "%s, from %d shards to %d", cluster, n[0], n[1])
		}
	}
}

// ShardOf is what the servers themselves reckon.
func TestTheShardOfACluster(t *testing.T) {
	clusters := clusterNames(60)
	for shards := uint(1); shards <= 5; shards++ {
		for cluster, watching := range watchers(t, shards, 0, clusters) {
			shard, err := ShardOf(cluster, shards)
			require.NoError(t, err)
			require.Equal(t, []uint{shard}, watching, "%s among %d", cluster, shards)
		}
	}
}

// What a central adds up is told of each cluster by one server, whichever of the
// two divisions is the one that is expected.
func TestACountedClusterIsCountedOnce(t *testing.T) {
	clusters := clusterNames(40)
	for _, n := range [][2]uint{{1, 2}, {2, 1}, {2, 3}, {3, 2}, {4, 2}} {
		tellers := map[string]int{}
		for shard := range max(n[0], n[1]) {
			o := shardOf(shard, n[0])
			o.ShardsBeside, o.Contract = n[1], nil
			s := load(t, o)
			for _, cluster := range clusters {
				if s.target(t, "state", fromSD("/p", cluster, "")) == nil {
					continue
				}
				for _, name := range []string{clusterInfo, "kube_node_info"} {
					b := labels.NewBuilder(labels.FromStrings("__name__", name, "cluster", cluster))
					kept := relabel.ProcessBuilder(b, s.jobs["state"].MetricRelabelConfigs...)
					require.True(t, kept || name == clusterInfo, "%s of %s", name, cluster)
					if kept && name == clusterInfo {
						require.Empty(t, b.Get(hashLabel))
						tellers[cluster]++
					}
				}
			}
		}
		for _, cluster := range clusters {
			require.Equal(t, 1, tellers[cluster], "%s, %d beside %d", cluster, n[0], n[1])
		}
	}
}

// What docs/reference/edge.md says about growth.
func TestGrowthMovesAllButOneInEveryShard(t *testing.T) {
	clusters := clusterNames(1000)
	moved := func(from, to uint) float64 {
		before, after := hashed(t, from, clusters), hashed(t, to, clusters)
		n := 0
		for cluster, shard := range before {
			if after[cluster] != shard {
				n++
			}
		}
		return float64(n) / float64(len(clusters))
	}
	for from := uint(1); from < 6; from++ {
		require.InDelta(t, float64(from)/float64(from+1), moved(from, from+1), 0.06, "from %d shards to %d", from, from+1)
		require.InDelta(t, 0.5, moved(from, 2*from), 0.06, "from %d shards to %d", from, 2*from)
	}
}

// hashed places clusters by one job only.
func hashed(t testing.TB, shards uint, clusters []string) map[string]uint {
	t.Helper()
	out := map[string]uint{}
	for i := range shards {
		s := load(t, shardOf(i, shards))
		for _, cluster := range clusters {
			if s.target(t, "state", fromSD("/p", cluster, "")) != nil {
				out[cluster] = i
			}
		}
	}
	return out
}
