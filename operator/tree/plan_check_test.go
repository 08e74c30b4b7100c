package tree_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/operator/tree"
)

// What no render writes is told with the file of the plan and the line, all of it at once.
func TestPlanThatCannotBeIsRefusedWhereItIsWritten(t *testing.T) {
	dir := lay(t, map[string]string{"plan.yaml": `geographies:
  - name: asia
    shards: [0, -2]
    cells:
      - {name: asia-00, shard: -1}
      - name: asia-01
        shard: 0
        movingTo: -4
      - name: asia-01
        shard: 1000
        edgeShards: 65
        edgeShardsBeside: 0
        series: -1
      - shard: 0
  - name: asia
    cells: []
  - cells: []
volumes:
  cells/asia.00:
    edge: 20Gi
    edge-0-b: -5Gi
  hub:
    central-a: "0"
`})
	file := filepath.Join(dir, "plan.yaml")
	_, err := tree.ReadPlan(file)
	require.EqualError(t, err, file+`:21: volumes: edge-0-b of cells/asia.00 has one of -5Gi: give the size of the one that it has
`+file+`:23: volumes: central-a of hub has one of 0: give the size of the one that it has
`+file+`:3: geographies[0].shards[1]: is -2, and must be from 0 to 999
`+file+`:5: geographies[0].cells[0].shard: is -1, and must be from 0 to 999
`+file+`:8: geographies[0].cells[1].movingTo: is -4, and must be from 0 to 999
`+file+`:9: has cell "asia-01" twice in geography "asia"
`+file+`:10: geographies[0].cells[2].shard: is 1000, and must be from 0 to 999
`+file+`:11: geographies[0].cells[2].edgeShards: is 65, and must be from 0 to 64
`+file+`:12: geographies[0].cells[2].edgeShardsBeside: is 0, and must be from 1 to 64
`+file+`:13: is -1, and no cell has less than none
`+file+`:14: has a cell without a name
`+file+`:15: has geography "asia" twice, and one of them would be forgotten with its cells: make one of both
`+file+`:17: has a geography without a name`)
}

// A cell goes from one geography to another. A third would be forgotten, and its cascade
// taken away while it may be the one that counts.
func TestPlanWithImpossibleReadersIsRefused(t *testing.T) {
	dir := lay(t, map[string]string{"plan.yaml": `geographies:
  - name: asia
    cells:
      - {name: a, shard: 0, reading: Beside}
      - {name: b, shard: 0, reading: beside}
  - name: europe
    cells:
      - {name: a, shard: 0}
  - name: africa
    cells:
      - name: a
        shard: 0
        reading: Beside
`})
	file := filepath.Join(dir, "plan.yaml")
	_, err := tree.ReadPlan(file)
	require.EqualError(t, err, file+`:5: is "beside", and is Beside or is left out
`+file+`:11: has cell "a" in geography "africa", and geographies ["asia" "europe"] read it already: a cell is read in two at most, that which it leaves and that which it goes to`)
}
