package tiers_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

const (
	rightEdge, aheadEdge, noneEdge   = "127.91.7.1:9090", "127.91.7.2:9090", "127.91.7.3:9090"
	doubtfulCascade, doubtfulCentral = "127.91.7.4:9090", "127.91.7.5:9090"
	nobody                           = "127.91.7.6:9093"
)

// teller answers as the edge of a cell does, by a clock of its own, with numbers
// of its own, until it is dead.
type teller struct {
	mu    sync.Mutex
	lead  time.Duration
	nodes string
	dead  bool
}

func (e *teller) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		http.Error(w, "no edge any more", http.StatusServiceUnavailable)
		return
	}
	at := time.Now().Add(e.lead).UnixMilli()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "cell:heartbeat:timestamp_seconds{edge_shard=\"0\",edge_replica=\"a\"} %.3f %d\n", float64(at)/1000, at)
	fmt.Fprintf(w, "cell:state_known:bool{edge_shard=\"0\",edge_replica=\"a\"} 1 %d\n", at)
	fmt.Fprintf(w, "cluster:nodes:count{cluster=\"shop\",edge_shard=\"0\",edge_replica=\"a\"} %s %d\n", e.nodes, at)
}

func (e *teller) turn(change func(*teller)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

// whatCannotBeBelieved has a real cascade and central over three
// cells: one that is right, one whose clock goes ahead and that then dies, and
// one whose number of nodes becomes none.
func whatCannotBeBelieved(t *testing.T) {
	edges := map[string]*teller{rightEdge: {nodes: "5"}, aheadEdge: {nodes: "7"}, noneEdge: {nodes: "11"}}
	cells := map[string]string{rightEdge: "right", aheadEdge: "ahead", noneEdge: "none"}
	o := central.Options{
		Replica: "a", Replicas: []string{"a"}, Interval: interval, Geographies: []string{asia},
		Static: &central.Static{
			Cascades: map[string][]string{asia: {doubtfulCascade}}, Centrals: map[string]string{"a": doubtfulCentral}, Alertmanagers: []string{nobody},
		},
	}
	var below []cascade.Cell
	for address, edge := range edges {
		testkit.Serve(t, address, edge)
		below = append(below, cascade.Cell{Name: cells[address], Region: "east", Endpoints: []string{address}})
		o.Cells = append(o.Cells, central.Cell{Geography: asia, Region: "east", Name: cells[address]})
	}
	startCascade(t, doubtfulCascade, asia, below...)
	files, err := central.Render(o)
	require.NoError(t, err)
	top := promtest.Prometheus(t, doubtfulCentral, files)
	wants := func(what string, expr string, value float64) {
		took := testkit.Await(t, func() error { return top.Gives(expr, value) })
		t.Logf("%s: %s is %v after %s", what, expr, value, took.Round(100*time.Millisecond))
	}
	wants("all are right", "fleet:nodes:count", 23)
	wants("all are right", "fleet:completeness:ratio", 1)

	edges[aheadEdge].turn(func(e *teller) { e.lead = 20 * time.Second })
	wants("a clock is ahead", `fleet:cell_contributing:bool{cell="ahead"}`, 0)
	wants("a clock is ahead", "fleet:nodes:count", 16)
	wants("a clock is ahead", `count(max by (cell) (cell:clock_ahead:seconds > 15))`, 1)
	edges[aheadEdge].turn(func(e *teller) { e.dead = true })
	for range 25 { // longer than its lead lasts
		time.Sleep(interval)
		require.NoError(t, top.Lacks(`fleet:cell_contributing:bool{cell="ahead"} == 1`), "a dead cell does not contribute by what it stamped ahead")
	}

	edges[noneEdge].turn(func(e *teller) { e.nodes = "NaN" })
	wants("a number is none", "fleet:nodes:count", 5)
	wants("a number is none", "fleet:cells_contributing:count", 1)
	wants("a number is none", `max by (cell) (cell:values_impossible:count > 0)`, 1)
	require.NoError(t, top.Lacks(`max_over_time(fleet:nodes:count[2m]) > 23 or fleet:nodes:count != fleet:nodes:count`), "no sum was ever none")
}
