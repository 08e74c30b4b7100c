package edge

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// onlyThisShard keeps the targets of the clusters that the shard watches. It
// spreads by the label cluster, not by address: a shard that did not have the
// whole of a cluster could record no sum of it. The cell itself is one more
// cluster, MetaCluster.
//
// Prometheus' hash is the same everywhere, so the shards need not talk to each
// other. It is not made for growth: of n clusters, from s shards to s+1, all but
// one in s+1 move, and half of them when s is doubled.
//
// So one division takes another's place in steps: for a time each server keeps
// what is its own by either, and a cluster that moves has two servers.
func onlyThisShard(o Options) []promcfg.Relabel {
	shard := strconv.FormatUint(uint64(o.Shard), 10)
	now, beside := max(1, o.Shards), o.ShardsBeside
	switch {
	case beside != 0 && beside != now:
		return []promcfg.Relabel{
			hashInto(hashLabel, now), hashInto(hashLabel+"_beside", beside),
			{SourceLabels: []string{hashLabel, hashLabel + "_beside"}, Regex: shard + ";.*|.*;" + shard, Action: "keep"},
		}
	case now > 1:
		return []promcfg.Relabel{hashInto(hashLabel, now), {SourceLabels: []string{hashLabel}, Regex: shard, Action: "keep"}}
	}
	return nil
}

// countedOnce leaves, while a cluster can have two servers, its one series of which
// a central adds up what the shards count (cell:clusters:count) to the server that
// has the cluster by the division with fewer parts. All else is told by cluster,
// and a central takes the maximum.
func countedOnce(o Options) []promcfg.Relabel {
	now, beside := max(1, o.Shards), o.ShardsBeside
	fewer := min(now, beside)
	if beside == 0 || beside == now || o.Shard == 0 && fewer == 1 {
		return nil
	}
	var others []string
	for shard := range fewer {
		if shard != o.Shard {
			others = append(others, strconv.FormatUint(uint64(shard), 10))
		}
	}
	return []promcfg.Relabel{
		hashInto(hashLabel, fewer),
		{SourceLabels: []string{"__name__", hashLabel}, Regex: clusterInfo + ";(" + strings.Join(others, "|") + ")", Action: "drop"},
		{Regex: hashLabel, Action: "labeldrop"},
	}
}

const (
	hashLabel   = "__tmp_shard"
	clusterInfo = "pharos_cluster_info"
)

// hashInto writes into a label which of so many shards a target's cluster is in.
func hashInto(label string, shards uint) promcfg.Relabel {
	return promcfg.Relabel{SourceLabels: []string{"cluster"}, TargetLabel: label, Modulus: shards, Action: "hashmod"}
}

// ShardOf is which of so many shards watches a cluster, as Prometheus reckons it.
func ShardOf(cluster string, shards uint) (uint, error) {
	const label = "shard"
	config := relabel.Config{
		SourceLabels: model.LabelNames{"cluster"}, TargetLabel: label, Modulus: uint64(max(1, shards)), Action: relabel.HashMod,
		NameValidationScheme: model.UTF8Validation,
	}
	b := labels.NewBuilder(labels.FromStrings("cluster", cluster))
	relabel.ProcessBuilder(b, &config)
	n, err := strconv.ParseUint(b.Get(label), 10, 16)
	if err != nil {
		return 0, fmt.Errorf("finding the shard of cluster %q among %d: %w", cluster, shards, err)
	}
	return uint(n), nil
}
