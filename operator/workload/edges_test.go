package workload

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func TestServersOfAnEdge(t *testing.T) {
	for name, tc := range map[string]struct {
		cell  v1alpha1.CellSpec
		fleet *int32
		want  []string
	}{
		"nothing said":         {v1alpha1.CellSpec{}, nil, []string{"edge"}},
		"a pair for every one": {v1alpha1.CellSpec{}, ptr.To(int32(2)), []string{"edge", "edge-0-b"}},
		"the cell knows better": {
			v1alpha1.CellSpec{Edge: v1alpha1.Edge{Replicas: ptr.To(int32(1))}}, ptr.To(int32(2)), []string{"edge"},
		},
		"a Large cell": {v1alpha1.CellSpec{Size: v1alpha1.CellLarge}, nil, []string{"edge", "edge-1-a"}},
		"a Large cell in one": {
			v1alpha1.CellSpec{Size: v1alpha1.CellLarge, Edge: v1alpha1.Edge{Shards: ptr.To(int32(1))}}, nil, []string{"edge"},
		},
		"shards and pairs": {
			v1alpha1.CellSpec{Edge: v1alpha1.Edge{Shards: ptr.To(int32(2)), Replicas: ptr.To(int32(2))}}, nil,
			[]string{"edge", "edge-0-b", "edge-1-a", "edge-1-b"},
		},
		"somebody else's": {
			v1alpha1.CellSpec{Size: v1alpha1.CellLarge, Edge: v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, Endpoints: []string{"a:1", "b:1"}}},
			ptr.To(int32(2)), []string{"edge"},
		},
		"an object older than the API's bounds": {
			v1alpha1.CellSpec{Edge: v1alpha1.Edge{Shards: ptr.To(int32(0)), Replicas: ptr.To(int32(9))}}, nil, []string{"edge", "edge-0-b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &v1alpha1.Federation{}
			f.Spec.Edge.Replicas = tc.fleet
			c := &v1alpha1.Cell{Spec: tc.cell}
			var names []string
			for _, s := range EdgeServers(f, c) {
				names = append(names, s.Name())
			}
			require.Equal(t, tc.want, names)
		})
	}
}

// While one division takes another's place there are the servers of both.
func TestServersOfAnEdgeThatIsDividedAnew(t *testing.T) {
	c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "asia-1"}, Spec: v1alpha1.CellSpec{
		Geography: "asia", Edge: v1alpha1.Edge{Shards: ptr.To(int32(3))},
	}}
	f := &v1alpha1.Federation{}
	told := func(p v1alpha1.CellPlacement) Division {
		p.Name = "asia-1"
		f.Status.Geographies = []v1alpha1.GeographyStatus{{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "asia-0", EdgeShards: 9}, p}}}
		return EdgeDivision(f, c)
	}
	servers := func() (n int) { return len(EdgeServers(f, c)) }
	require.Equal(t, Division{Shards: 3}, EdgeDivision(f, c), "nothing is told: as the cell asks")
	require.Equal(t, Division{Shards: 3}, told(v1alpha1.CellPlacement{}), "an older operator told nothing")
	require.Equal(t, Division{Shards: 3}, told(v1alpha1.CellPlacement{EdgeShards: 1 << 30}), "somebody has spoiled it")
	require.Equal(t, Division{Shards: 3}, told(v1alpha1.CellPlacement{EdgeShards: 1, EdgeShardsBeside: ptr.To(int32(-1))}), "or that")
	require.Equal(t, Division{Shards: 1}, told(v1alpha1.CellPlacement{EdgeShards: 1}), "nobody has decided yet")
	require.Equal(t, 1, servers())
	require.Equal(t, Division{Shards: 1, Beside: 3}, told(v1alpha1.CellPlacement{EdgeShards: 1, EdgeShardsBeside: ptr.To(int32(3))}))
	require.Equal(t, 3, servers())
	require.Equal(t, Division{Shards: 1, Beside: 2}, told(v1alpha1.CellPlacement{EdgeShards: 1, EdgeShardsBeside: ptr.To(int32(2))}))
	require.Equal(t, 2, servers())
	c.Spec.Edge.Mode = v1alpha1.EdgeExternal
	require.Equal(t, Division{Shards: 1}, EdgeDivision(f, c), "somebody else's server is one")
}

// What two servers of somebody else's tell is reckoned twice.
func TestEndpointsOfAnExternalEdgeAreReplicas(t *testing.T) {
	c := &v1alpha1.Cell{Spec: v1alpha1.CellSpec{Edge: v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, Endpoints: []string{"a:1", "b:1"}}}}
	require.EqualValues(t, 2, EdgeReplicas(&v1alpha1.Federation{}, c))
	require.EqualValues(t, 1, EdgeShards(c))
}

// Whether each server has an address of its own.
func TestEndpointsAreOneForEachServer(t *testing.T) {
	large, pair := v1alpha1.CellSpec{Size: v1alpha1.CellLarge}, v1alpha1.CellSpec{Edge: v1alpha1.Edge{Replicas: ptr.To(int32(2))}}
	largePair := v1alpha1.CellSpec{Size: v1alpha1.CellLarge, Edge: v1alpha1.Edge{Replicas: ptr.To(int32(2))}}
	foreign := v1alpha1.CellSpec{Edge: v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, Replicas: ptr.To(int32(1))}}
	for name, tc := range map[string]struct {
		cell   v1alpha1.CellSpec
		given  int
		status v1alpha1.CellPlacement
		want   string
	}{
		"those of its pods":         {cell: largePair},
		"one":                       {cell: v1alpha1.CellSpec{}, given: 1},
		"one for a pair":            {cell: pair, given: 1, want: "names 1 addresses, and the edge has 2 servers: shards (1, by"},
		"three for a pair":          {cell: pair, given: 3, want: "names 3 addresses, and the edge has 2 servers"},
		"a pair that became Large":  {cell: largePair, given: 2, want: "names 2 addresses, and the edge has 4 servers: shards (2, by spec.size and spec.edge.shards) times replicas (2,"},
		"Large":                     {cell: large, given: 2},
		"somebody else's":           {cell: foreign, given: 3},
		"grows, with the new ones":  {cell: large, given: 2, status: v1alpha1.CellPlacement{Name: "c", EdgeShards: 1}},
		"grows, with the old one":   {cell: large, given: 1, status: v1alpha1.CellPlacement{Name: "c", EdgeShards: 1}},
		"grows, with neither":       {cell: large, given: 3, status: v1alpha1.CellPlacement{Name: "c", EdgeShards: 1}, want: "name 2"},
		"shrinks, with the old two": {cell: v1alpha1.CellSpec{}, given: 2, status: v1alpha1.CellPlacement{Name: "c", EdgeShards: 2, EdgeShardsBeside: ptr.To(int32(1))}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: tc.cell}
			for i := range tc.given {
				c.Spec.Edge.Endpoints = append(c.Spec.Edge.Endpoints, fmt.Sprintf("a:%d", i+1))
			}
			f := &v1alpha1.Federation{}
			f.Status.Geographies = []v1alpha1.GeographyStatus{{Cells: []v1alpha1.CellPlacement{tc.status}}}
			err := CheckEndpoints(f, c)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestClustersOfACell(t *testing.T) {
	pool := func(name v1alpha1.CapacityPoolName, limit string) v1alpha1.CellSpec {
		return v1alpha1.CellSpec{Size: v1alpha1.CellSmall, Capacity: v1alpha1.Capacity{Pools: []v1alpha1.CapacityPool{{Name: name, Limit: resource.MustParse(limit)}}}}
	}
	for name, tc := range map[string]struct {
		cell v1alpha1.CellSpec
		want uint
	}{
		"nothing said":                {v1alpha1.CellSpec{}, 60},
		"Small":                       {v1alpha1.CellSpec{Size: v1alpha1.CellSmall}, 20},
		"Medium":                      {v1alpha1.CellSpec{Size: v1alpha1.CellMedium}, 60},
		"Large":                       {v1alpha1.CellSpec{Size: v1alpha1.CellLarge}, 200},
		"a pool":                      {pool(v1alpha1.PoolClusters, "34"), 34},
		"a pool of something else":    {pool(v1alpha1.PoolAddresses, "4k"), 20},
		"a pool that nothing fits in": {pool(v1alpha1.PoolClusters, "-1"), 20},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Clusters(&v1alpha1.Cell{Spec: tc.cell}))
		})
	}
}
