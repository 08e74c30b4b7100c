package workload

import (
	"slices"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// EdgeServer is one Prometheus of a managed edge.
type EdgeServer struct {
	// Shard of the cell that it watches, from 0.
	Shard uint
	// Replica tells servers of one shard apart: "a" or "b".
	Replica string
}

// Name is that of the server's workload and ConfigMap. The first server is
// called edge, so that it stays when others join it.
func (s EdgeServer) Name() string {
	if s.Shard == 0 && s.Replica == replicas[0] {
		return FirstEdge
	}
	return FirstEdge + "-" + strconv.FormatUint(uint64(s.Shard), 10) + "-" + s.Replica
}

// FirstEdge is the name of the first server of an edge, which every edge has.
const FirstEdge = "edge"

var replicas = [...]string{"a", "b"}

// EdgeShards is among how many servers the clusters of a cell are to be divided.
func EdgeShards(c *v1alpha1.Cell) uint {
	switch {
	case c.Spec.Edge.Mode == v1alpha1.EdgeExternal:
		return 1
	case c.Spec.Edge.Shards != nil:
		return uint(max(1, *c.Spec.Edge.Shards))
	case c.Spec.Size == v1alpha1.CellLarge:
		return 2
	}
	return 1
}

// Division is how the clusters of a cell are divided among the servers of its
// edge.
type Division struct {
	// Shards are the parts that are expected, and that every cluster is in.
	Shards uint
	// Beside is, while one division takes another's place, the number of parts of
	// the other: a server watches what is its own by either. Zero means that there
	// is none.
	Beside uint
}

// MaxDivision is the most parts that a status is believed to tell of, several times
// what a cell can ask for: each of them is a server.
const MaxDivision = 64

// EdgeDivision is how far the cell has come on its way to what it asks for, as
// the Federation's status tells. Where nothing is told that can be, it is what the
// cell asks for.
func EdgeDivision(f *v1alpha1.Federation, c *v1alpha1.Cell) Division {
	p := placement(f, c)
	beside := ptr.Deref(p.EdgeShardsBeside, 0)
	if c.Spec.Edge.Mode != v1alpha1.EdgeExternal && 0 < p.EdgeShards && p.EdgeShards <= MaxDivision && 0 <= beside && beside <= MaxDivision {
		return Division{Shards: uint(p.EdgeShards), Beside: uint(beside)}
	}
	return Division{Shards: EdgeShards(c)}
}

// placement is what the status says of a cell: in its geography, else in the one that it
// has not left yet. Two that read it say the same of its edge.
func placement(f *v1alpha1.Federation, c *v1alpha1.Cell) v1alpha1.CellPlacement {
	for _, own := range []bool{true, false} {
		for _, g := range f.Status.Geographies {
			if own != (g.Name == c.Spec.Geography) {
				continue
			}
			if i := slices.IndexFunc(g.Cells, func(p v1alpha1.CellPlacement) bool { return p.Name == c.Name }); i >= 0 {
				return g.Cells[i]
			}
		}
	}
	return v1alpha1.CellPlacement{}
}

// EdgeReplicas is how many servers watch each shard of a cell. Each endpoint
// of an External edge may be one.
func EdgeReplicas(f *v1alpha1.Federation, c *v1alpha1.Cell) uint {
	if c.Spec.Edge.Mode == v1alpha1.EdgeExternal {
		return uint(max(1, len(c.Spec.Edge.Endpoints)))
	}
	n := ptr.Deref(c.Spec.Edge.Replicas, ptr.Deref(f.Spec.Edge.Replicas, 1))
	return uint(min(max(1, int(n)), len(replicas)))
}

// EdgeServers are the servers of a cell's edge, by shard and replica. Of an
// External one, it is the one that the files are rendered for.
func EdgeServers(f *v1alpha1.Federation, c *v1alpha1.Cell) []EdgeServer {
	if c.Spec.Edge.Mode == v1alpha1.EdgeExternal {
		return []EdgeServer{{Replica: replicas[0]}}
	}
	var all []EdgeServer
	divided := EdgeDivision(f, c)
	for shard := range max(divided.Shards, divided.Beside) {
		for _, replica := range replicas[:EdgeReplicas(f, c)] {
			all = append(all, EdgeServer{shard, replica})
		}
	}
	return all
}

// CheckEndpoints refuses endpoints of a managed edge that are not one for each of
// its servers: a shard that nobody reads would keep the cell stale for ever, and
// an address too many would be down for ever. While the cell changes its shards it
// may have those of either division.
func CheckEndpoints(f *v1alpha1.Federation, c *v1alpha1.Cell) error {
	given := uint(len(c.Spec.Edge.Endpoints))
	shards, replicas := EdgeShards(c), EdgeReplicas(f, c)
	if given == 0 || c.Spec.Edge.Mode == v1alpha1.EdgeExternal || given == shards*replicas || given == uint(len(EdgeServers(f, c))) {
		return nil
	}
	return Invalidf("spec.edge.endpoints: names %d addresses, and the edge has %d servers: shards (%d, by spec.size and spec.edge.shards) times replicas (%d, "+
		"by spec.edge.replicas, else the Federation's); the cascade reads each server at an address of its own: name %d", given, shards*replicas, shards, replicas, shards*replicas)
}

// Clusters is how many business clusters a cell is to host at most: what its
// pool says, else what its size means.
func Clusters(c *v1alpha1.Cell) uint {
	i := slices.IndexFunc(c.Spec.Capacity.Pools, func(p v1alpha1.CapacityPool) bool { return p.Name == v1alpha1.PoolClusters })
	switch {
	case i >= 0 && c.Spec.Capacity.Pools[i].Limit.Value() > 0:
		return uint(c.Spec.Capacity.Pools[i].Limit.Value())
	case c.Spec.Size == v1alpha1.CellSmall:
		return 20
	case c.Spec.Size == v1alpha1.CellLarge:
		return 200
	}
	return 60
}
