package tiers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
)

// toldOf counts how often a person was told of an alert of the cell.
func (f *fleet) toldOf(cell, alertname, status string) int {
	count := 0
	for _, a := range f.relay.told(alertname, status) {
		if a.Labels["cell"] == cell {
			count++
		}
	}
	return count
}

func (f *fleet) eventuallyToldOf(t *testing.T, cell, alertname, status string, times int) {
	t.Helper()
	took := testkit.Await(t, func() error {
		if got := f.toldOf(cell, alertname, status); got < times {
			return fmt.Errorf("told %d times that %s of %s is %s, want %d", got, alertname, cell, status, times)
		}
		return nil
	})
	t.Logf("%s of %s is told of as %s after %s", alertname, cell, status, took.Round(100*time.Millisecond))
}

// theDeadAreKnownAsSuch kills an edge and then a central, while a node is lost in
// the cell that goes dark and another in the one that does not.
func (f *fleet) theDeadAreKnownAsSuch(t *testing.T) {
	f.europe.set(7, "unknown")
	f.asia.set(8, "unknown")
	f.eventuallyToldOf(t, europeCell, "PharosNodeNotReady", "firing", 1)
	f.eventuallyToldOf(t, asiaCell, "PharosNodeNotReady", "firing", 2) // it was told of another before
	f.bothWant(t, `count(ALERTS{alertname="PharosNodeNotReady", alertstate="firing", node="n8"})`, 1)
	f.bothWant(t, "fleet:nodes_ready:count", 2*nodesEach-2)
	f.agrees(t)

	f.europeEdge.Kill()
	testkit.Await(t, func() error {
		return errors.Join(
			f.europeCascade.Lacks(`cell:heartbeat:timestamp_seconds{cell="europe-1"}`),
			f.europeCascade.Gives(`up{job="federate-edge", geography="europe", region="west", cell="europe-1"}`, 0),
		)
	})
	f.bothWant(t, "fleet:cells_contributing:count", 1)
	f.bothWant(t, "fleet:nodes:count", nodesEach)
	f.bothWant(t, "fleet:nodes_ready:count", nodesEach-1)
	f.agrees(t)
	for _, c := range f.centrals {
		require.NoError(t, c.Lacks(`{__name__=~"cluster:.*", cell="europe-1"}`), "a dead cell must not look alive")
	}

	f.centrals[0].Kill()
	f.asia.set(8, "true")
	f.eventuallyToldOf(t, asiaCell, "PharosNodeNotReady", "resolved", 2)
	alert := f.eventuallyTold(t, "PharosCellStale", "firing")
	require.Equal(t, europeCell, alert.Labels["cell"])
	require.Contains(t, alert.Annotations["description"], "1 of 2 cells")
	require.Equal(t, "a", f.eventuallyTold(t, "PharosCentralDown", "firing").Labels["central"])
}

// theDeadComeBack starts both. Not being seen was not being well, and what a
// central said before it died is over.
func (f *fleet) theDeadComeBack(t *testing.T) {
	f.europeEdge.Start()
	f.centrals[0].Start()
	f.bothWant(t, "fleet:cells_contributing:count", 2)
	f.bothWant(t, "fleet:nodes:count", 2*nodesEach)
	f.bothWant(t, "fleet:nodes_ready:count", 2*nodesEach-1)
	require.NotEmpty(t, f.centrals[0].Vector(t, `node:unhealthy:info{node="n8"}`), "what was before the kill can still be read")
	f.eventuallyTold(t, "PharosCentralDown", "resolved")
	f.eventuallyToldOf(t, europeCell, "PharosCellStale", "resolved", 1)
	time.Sleep(5 * interval) // a change is told of within two
	alerts := `ALERTS{alertname="PharosNodeNotReady", alertstate="firing", node="n8"}`
	require.NoError(t, f.centrals[0].Lacks(alerts+` and timestamp(`+alerts+`) > time() - 3`))
	require.Equal(t, 2, f.toldOf(asiaCell, "PharosNodeNotReady", "firing"), "nobody is told of a node that is ready")
	require.Zero(t, f.toldOf(europeCell, "PharosNodeNotReady", "resolved"), "the node has been lost all the time")
	require.Equal(t, 1, f.toldOf(europeCell, "PharosNodeNotReady", "firing"), "it is told of once")
	require.Empty(t, f.relay.told("PharosPartialView", "firing"), "one dead edge pages once")
	f.europe.set(7, "true")
	f.eventuallyToldOf(t, europeCell, "PharosNodeNotReady", "resolved", 1)
}
