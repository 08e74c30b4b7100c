package links_test

import (
	"sync"
	"testing"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// TestLinks runs its parts side by side, however few processors there are: they
// mostly wait.
func TestLinks(t *testing.T) {
	var parts sync.WaitGroup
	part := func(name string, run func(*testing.T)) { parts.Go(func() { t.Run(name, run) }) }
	part("Federate", func(t *testing.T) { wholeFleet(t, promcfg.Pull, 1) })
	part("RemoteWrite", func(t *testing.T) { wholeFleet(t, promcfg.Push, 2) })
	part("a cut leaves no hole", aCutLeavesNoHole)
	part("a start takes no longer than the tests say", aStartTakesNoLongerThanTheTestsSay)
	part("secured", func(t *testing.T) {
		t.Run("Federate", func(t *testing.T) { aLinkIsSecured(t, promcfg.Pull, 8) })
		t.Run("RemoteWrite", func(t *testing.T) { aLinkIsSecured(t, promcfg.Push, 9) })
	})
	part("one after another", func(t *testing.T) {
		t.Run("hours-old samples are taken", hoursOldSamplesAreTaken)
		t.Run("what is too much is refused whole", whatIsTooMuchIsRefusedWhole)
		t.Run("stock senders and receivers", stockSendersAndReceivers)
		t.Run("long-term stores", longTermStores)
		t.Run("both ways are one series", bothWaysAreOneSeries)
	})
	parts.Wait()
}

// wholeFleet runs a fleet by one kind of link.
func wholeFleet(t *testing.T, kind promcfg.LinkKind, net byte) {
	f := newFleet(t, kind, net)
	t.Run("everything counts once", f.everythingCountsOnce)
	t.Run("everything arrives unchanged", f.everythingArrivesUnchanged)
	t.Run("native stays native", f.nativeStaysNative)
	t.Run("nothing else passes", f.nothingElsePasses)
	t.Run("trouble with an edge is seen", f.troubleWithAnEdge)
	t.Run("trouble with a cascade is seen", f.troubleWithACascade)
	t.Run("what a cut leaves", f.whatACutLeaves)
}
