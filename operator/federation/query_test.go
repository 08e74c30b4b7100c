package federation

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

// heard is what both questions are asked of: for two minutes, every 15 s, asia-1
// has been passed on by shard 0 and, with one heartbeat late, by shard 1, by a
// pair of edges; asia-2 has two parts, of which shard 1 has one for half a minute.
// The edge of asia-4 is divided anew: both of its parts tell of one of its clusters.
const heardByACentral = `
load 15s
  cell:heartbeat:timestamp_seconds{geography="asia",cell="asia-1",edge_shard="0",edge_replica="a",cascade_shard="0"} 0+15x8
  cell:heartbeat:timestamp_seconds{geography="asia",cell="asia-1",edge_shard="0",edge_replica="b",cascade_shard="0"} 0+15x8
  cell:heartbeat:timestamp_seconds{geography="asia",cell="asia-1",edge_shard="0",edge_replica="a",cascade_shard="1"} 0 15 30 _ 60 75 90 105 120
  cell:heartbeat:timestamp_seconds{geography="asia",cell="asia-1",edge_shard="0",edge_replica="b",cascade_shard="1"} _x8
  cell:heartbeat:timestamp_seconds{geography="asia",cell="asia-2",edge_shard="0",edge_replica="a",cascade_shard="1"} _ _ _ _ _ _ _ 105 120
  cell:heartbeat:timestamp_seconds{geography="asia",cell="asia-3",edge_shard="0",edge_replica="a",cascade_shard="1"} 0 15 30 45 60 75
  cluster:nodes:count{geography="asia",cell="asia-1",cluster="shop",edge_replica="a",cascade_shard="0"} 20x8
  cluster:nodes:count{geography="asia",cell="asia-1",cluster="shop",edge_replica="a",cascade_shard="1"} 20x8
  cluster:nodes:count{geography="asia",cell="asia-1",cluster="bank",edge_replica="a",cascade_shard="0"} 20x8
  cascade:heartbeat:timestamp_seconds{geography="asia",cascade_shard="0",central_replica="a"} 0+15x8
  cascade:heartbeat:timestamp_seconds{geography="asia",cascade_shard="1",central_replica="a"} 0 15
  something:else:count{geography="asia",cell="asia-1",cascade_shard="0"} 1x8
  cluster:nodes:count{geography="europe",cell="europe-1",cluster="x",cascade_shard="0"} 20x8
  fleet:cell_contributing:bool{geography="asia",cell="asia-1"} 1x8
  cluster:up:min{geography="asia",cell="asia-4",cluster="farm",edge_shard="0",cascade_shard="0"} 1x8
  cluster:up:min{geography="asia",cell="asia-4",cluster="farm",edge_shard="1",cascade_shard="0"} 1x8
  cluster:up:min{geography="asia",cell="asia-4",cluster="mine",edge_shard="0",cascade_shard="0"} 1x8
  cluster:up:min{geography="asia",cell="asia-5",cluster="a",edge_shard="0",edge_replica="a",cascade_shard="0"} 1x8
  cluster:up:min{geography="asia",cell="asia-5",cluster="a",edge_shard="0",edge_replica="b",cascade_shard="0"} 1x8
  cluster:up:min{geography="asia",cell="asia-5",cluster="b",edge_shard="1",cascade_shard="0"} 1x8
  fleet:cell_contributing:bool{geography="asia",cell="asia-2"} 0x8
  fleet:cell_contributing:bool{geography="asia",cell="asia-4"} 1x8
  fleet:cell_contributing:bool{geography="asia",cell="asia-5"} 1x8
`

func ask(t *testing.T, query string) map[string]float64 {
	t.Helper()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	asked, err := engine.NewInstantQuery(t.Context(), promqltest.LoadedStorage(t, heardByACentral), nil, query, time.Unix(120, 0))
	require.NoError(t, err)
	defer asked.Close()
	vector, err := asked.Exec(t.Context()).Vector()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, s := range vector {
		out[s.Metric.Get("cell")+" "+s.Metric.Get("cascade_shard")+" "+s.Metric.Get("edge_shard")] = s.F
	}
	return out
}

func TestQuestionsToACentral(t *testing.T) {
	beats := ask(t, heartbeatQuery(15*time.Second))
	require.Equal(t, map[string]float64{"asia-1 0 0": 9, "asia-1 1 0": 8, "asia-2 1 0": 2, "asia-3 1 0": warmIntervals}, beats)

	contract, err := rules.Load()
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"asia-1  ": 4, "asia-5  ": 3}, ask(t, seriesQuery(contract, "asia")),
		"the shard that passes on more counts; a cell that is dark in part is not measured, nor one of which two parts tell the same")
	require.Empty(t, ask(t, seriesQuery(contract, "europe")), "nothing says that it contributes")
}

// What is asked of cells between two geographies: what was heard of late, what was heard at
// all within an hour, and which cascades are heard.
func TestQuestionsAboutCellsThatGo(t *testing.T) {
	queries := crossQueries(fleetOf(), []string{"asia-2", "asia-3", "asia-9"})
	require.Equal(t, map[string]float64{"asia-2 1 0": 2, "asia-3 1 0": 6}, ask(t, queries[0]))
	require.Empty(t, ask(t, queries[1]))
	require.Equal(t, map[string]float64{"asia-2  ": 1, "asia-3  ": 1}, ask(t, queries[2]))
	require.Equal(t, map[string]float64{" 0 ": 9, " 1 ": 2}, ask(t, queries[3]))
}
