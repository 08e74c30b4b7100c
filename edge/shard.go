package edge

import (
	"strconv"

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
func onlyThisShard(o Options) []promcfg.Relabel {
	if o.Shards < 2 {
		return nil
	}
	const hash = "__tmp_shard"
	return []promcfg.Relabel{
		{SourceLabels: []string{"cluster"}, TargetLabel: hash, Modulus: o.Shards, Action: "hashmod"},
		{SourceLabels: []string{hash}, Regex: strconv.FormatUint(uint64(o.Shard), 10), Action: "keep"},
	}
}
