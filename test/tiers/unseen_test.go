package tiers_test

import (
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
	took := eventually(t, 40*time.Second, func() error {
		if got := f.toldOf(cell, alertname, status); got < times {
			return fmt.Errorf("told %d times that %s of %s is %s, want %d", got, alertname, cell, status, times)
		}
		return nil
	})
	t.Logf("%s of %s is told of as %s after %s", alertname, cell, status, took.Round(100*time.Millisecond))
}

// notBeingSeenIsNotBeingWell cuts a cell off while a node of it is lost.
func (f *fleet) notBeingSeenIsNotBeingWell(t *testing.T) {
	stale := f.toldOf(europeCell, "PharosCellStale", "firing") // from when it was dark before
	f.eventuallyToldOf(t, europeCell, "PharosCellStale", "resolved", stale)
	f.europe.set(7, "unknown")
	f.eventuallyToldOf(t, europeCell, "PharosNodeNotReady", "firing", 1)
	testkit.End(f.europeEdge.process)
	f.eventuallyToldOf(t, europeCell, "PharosCellStale", "firing", stale+1)
	f.europeEdge.run(t)
	f.eventuallyToldOf(t, europeCell, "PharosCellStale", "resolved", stale+1)
	time.Sleep(5 * interval) // a change is told of within two
	require.Zero(t, f.toldOf(europeCell, "PharosNodeNotReady", "resolved"), "the node has been lost all the time")
	require.Equal(t, 1, f.toldOf(europeCell, "PharosNodeNotReady", "firing"), "it is told of once")
	require.Empty(t, f.relay.told("PharosPartialView", "firing"), "one dead edge pages once")
	f.europe.set(7, "true")
	f.eventuallyToldOf(t, europeCell, "PharosNodeNotReady", "resolved", 1)
}

// aRestartTellsOfNothingThatIsOver kills a central while a node is lost, and
// starts it when the node has long been mended.
func (f *fleet) aRestartTellsOfNothingThatIsOver(t *testing.T) {
	f.bothWant(t, `count(ALERTS{alertname="PharosNodeNotReady"}) or vector(0)`, 0)
	before := f.toldOf(asiaCell, "PharosNodeNotReady", "firing")
	mended := f.toldOf(asiaCell, "PharosNodeNotReady", "resolved")
	f.asia.set(8, "unknown")
	f.bothWant(t, `count(ALERTS{alertname="PharosNodeNotReady", alertstate="firing", node="n8"})`, 1)
	f.eventuallyToldOf(t, asiaCell, "PharosNodeNotReady", "firing", before+1)
	testkit.End(f.centrals[0].process)
	f.asia.set(8, "true")
	f.eventuallyToldOf(t, asiaCell, "PharosNodeNotReady", "resolved", mended+1)
	time.Sleep(5 * interval)
	f.centrals[0].run(t)
	f.bothWant(t, "fleet:nodes_ready:count", 2*nodesEach)
	require.NotEmpty(t, f.centrals[0].query(t, `node:unhealthy:info{node="n8"}`), "what was before the kill can still be read")
	time.Sleep(5 * interval)
	require.NoError(t, f.centrals[0].absent(t, `ALERTS{alertname="PharosNodeNotReady", alertstate="firing"} and timestamp(ALERTS{alertname="PharosNodeNotReady", alertstate="firing"}) > time() - 3`))
	require.Equal(t, before+1, f.toldOf(asiaCell, "PharosNodeNotReady", "firing"), "nobody is told of a node that is ready")
}
