package links_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// chain is one edge, one cascade and both centrals, joined by writing.
type chain struct {
	edge, cascade *promtest.Server
	centrals      []*promtest.Server
	toCascade     *wire
	toCentral     []*wire
}

const (
	chainExporter, chainEdge, chainCascade = "127.92.3.1:9100", "127.92.3.2:9090", "127.92.3.3:9090"
	chainA, chainB                         = "127.92.3.4:9090", "127.92.3.5:9090"
	chainUp, chainUpA, chainUpB            = "127.92.3.12:9090", "127.92.3.13:9090", "127.92.3.14:9090"
)

func writeTo(name, address string) promcfg.Receiver {
	return promcfg.Receiver{Name: name, URL: "http://" + address + promcfg.ReceivePath}
}

func newChain(t *testing.T) *chain {
	t.Helper()
	newExporter(t, chainExporter)
	c := &chain{
		toCascade: newWire(t, chainUp, chainCascade),
		toCentral: []*wire{newWire(t, chainUpA, chainA), newWire(t, chainUpB, chainB)},
	}
	push := promcfg.Link{Kind: promcfg.Push}
	down := edge.Options{
		Geography: geography, Region: region, Cell: pairCell, Replica: "a", Interval: interval, Contract: contract(t),
		Static: &edge.Static{Edges: []string{chainEdge}}, Link: push, Receivers: []promcfg.Receiver{writeTo("cascade-0", chainUp)},
	}
	files, err := edge.Render(down)
	require.NoError(t, err)
	c.edge = promtest.Prometheus(t, chainEdge, alsoScraping(t, files, chainExporter), down.Flags()...)
	middle := cascade.Options{
		Geography: geography, Replica: "a", Interval: interval, Contract: contract(t), Self: []string{chainCascade},
		Cells: []cascade.Cell{{Name: pairCell, Region: region}}, Link: push,
		Receivers: []promcfg.Receiver{writeTo("central-a", chainUpA), writeTo("central-b", chainUpB)},
	}
	files, err = cascade.Render(middle)
	require.NoError(t, err)
	c.cascade = promtest.Prometheus(t, chainCascade, files, middle.Flags()...)
	for i, address := range []string{chainA, chainB} {
		files, err = central.Render(central.Options{
			Replica: []string{"a", "b"}[i], Replicas: []string{"a", "b"}, Interval: interval, Contract: contract(t),
			Geographies: []string{geography}, Cells: []central.Cell{{Geography: geography, Region: region, Name: pairCell}},
			Static: &central.Static{Cascades: map[string][]string{geography: {chainCascade}}}, Link: push,
		})
		require.NoError(t, err)
		c.centrals = append(c.centrals, promtest.Prometheus(t, address, files, promcfg.ReceiveFlag))
	}
	for _, s := range append([]*promtest.Server{c.edge, c.cascade}, c.centrals...) {
		s.Ready(t)
	}
	return c
}

// everything is what crosses: numbers that a rule records, numbers that are
// scraped, and both kinds of native histogram.
const everything = `{__name__=~"cell:heartbeat:timestamp_seconds|test_value|test_classic_seconds_(bucket|sum|count)|test_native_seconds|test_custom_seconds"}`

// samples are those of everything by series, named alike at each tier.
func samples(t *testing.T, s *promtest.Server, since time.Time) map[string]moments {
	t.Helper()
	return bySeries(s.Raw(t, everything, since))
}

// caughtUp waits until a central has a heartbeat that is younger than a moment.
func (c *chain) caughtUp(t *testing.T, moment time.Time) {
	t.Helper()
	for _, s := range c.centrals {
		testkit.Await(t, func() error {
			got := s.Vector(t, "max(cell:heartbeat:timestamp_seconds)")
			if len(got) == 0 || float64(got[0].Value) < float64(moment.Unix()) {
				return fmt.Errorf("%s: the newest heartbeat is %v", s.Address, got)
			}
			return nil
		})
	}
}

// holes are the samples from between two moments that the edge has and a central
// has not, or has otherwise.
func holes(measured, arrived map[string]moments, from, to time.Time) []string {
	var out []string
	for series, all := range measured {
		for at, value := range all {
			if at.Time().After(from) && at.Time().Before(to) && arrived[series][at] != value {
				out = append(out, fmt.Sprintf("%s of %s: %q, not %q", series, at.Time().Format(time.TimeOnly), arrived[series][at], value))
			}
		}
	}
	slices.Sort(out)
	return out
}

// whole refuses a server that lacks a sample from between two moments.
func whole(t *testing.T, s *promtest.Server, measured map[string]moments, from, to time.Time) error {
	t.Helper()
	arrived := samples(t, s, from)
	if lost := holes(measured, arrived, from, to); len(lost) > 0 {
		return fmt.Errorf("%s lacks %d samples, first %s", s.Address, len(lost), lost[0])
	}
	for series, all := range arrived {
		if len(all) < int(to.Sub(from)/interval)*3/4 {
			return fmt.Errorf("%s: %s has %d samples from %s: the edge made too few", s.Address, series, len(all), to.Sub(from))
		}
	}
	return nil
}

// Ten minutes at an interval of 15 s are forty intervals.
const cut = 40 * interval

// aCutLeavesNoHole cuts a cell off from its cascade, then the cascade from
// one central, and restarts the other, all within ten minutes of a fleet whose
// interval is 15 s. Afterwards both centrals have every sample of that time.
func aCutLeavesNoHole(t *testing.T) {
	c := newChain(t)
	c.caughtUp(t, time.Now())
	begun := time.Now()
	time.Sleep(2 * interval)
	c.toCascade.sever()
	c.toCentral[1].sever()
	time.Sleep(cut / 2)
	require.Empty(t, c.centrals[0].Vector(t, "cell:heartbeat:timestamp_seconds > time() - 10"), "the cut must be one")
	c.centrals[0].Stop()
	time.Sleep(cut / 4)
	c.centrals[0].Start()
	time.Sleep(cut / 4)
	c.toCascade.mend()
	time.Sleep(2 * interval) // the one is still away when the other's backlog comes
	c.toCentral[1].mend()
	mended := time.Now()
	c.caughtUp(t, mended.Add(interval))
	measured := samples(t, c.edge, begun)
	require.Len(t, measured, 1+1+7+1+1)
	for _, s := range c.centrals {
		// Each queue has several senders, of which one may be behind.
		testkit.Await(t, func() error { return whole(t, s, measured, begun, mended) })
		t.Logf("%s has every sample %s after the cut of %s", s.Address, time.Since(mended).Round(100*time.Millisecond), cut)
	}
	t.Run("what a restarted sender had not sent is lost above it", c.aRestartForgets)
	t.Run("what is older than a restarted cascade goes no further", c.aCascadeThatRestarted)
}

// aRestartForgets shows the one way in which something is lost: a sender that
// starts sends only what it makes from then on. It still has the rest itself.
func (c *chain) aRestartForgets(t *testing.T) {
	begun := time.Now()
	c.toCascade.sever()
	time.Sleep(4 * interval)
	c.edge.Kill()
	restarted := time.Now()
	c.edge.Start()
	c.edge.Ready(t)
	time.Sleep(4 * interval)
	c.toCascade.mend()
	mended := time.Now()
	c.caughtUp(t, mended.Add(interval))
	time.Sleep(3 * interval)
	measured := samples(t, c.edge, begun)
	require.Len(t, measured, 1+1+7+1+1)
	for _, s := range c.centrals {
		arrived := samples(t, s, begun)
		lost := holes(measured, arrived, begun.Add(interval), restarted)
		require.NotEmpty(t, lost, "if nothing is lost any more, record 0007 and this test can say so")
		require.Empty(t, holes(measured, arrived, restarted.Add(2*interval), mended), "what was made after the start is there")
	}
}

// aCascadeThatRestarted shows the other half: a cascade takes all that an edge had
// kept, and hands on only what was made after its own start.
func (c *chain) aCascadeThatRestarted(t *testing.T) {
	c.toCascade.sever()
	begun := time.Now()
	time.Sleep(4 * interval)
	c.cascade.Stop()
	c.cascade.Start()
	c.cascade.Ready(t)
	restarted := time.Now()
	time.Sleep(4 * interval)
	c.toCascade.mend()
	mended := time.Now()
	c.caughtUp(t, mended.Add(interval))
	measured := samples(t, c.edge, begun)
	testkit.Await(t, func() error { return whole(t, c.cascade, measured, begun, mended) })
	for _, s := range c.centrals {
		testkit.Await(t, func() error { return whole(t, s, measured, restarted, mended) })
		require.NotEmpty(t, holes(measured, samples(t, s, begun), begun, restarted.Add(-2*interval)), "if nothing is lost any more, record 0007 and this test can say so")
	}
}

// hoursOldSamplesAreTaken writes samples of three hours ago, as a sender does
// after a cut of three hours. A Prometheus by itself refuses all but the last
// hour's as soon as it has newer ones.
func hoursOldSamplesAreTaken(t *testing.T) {
	const ours, theirs = "127.92.4.1:9090", "127.92.4.2:9090"
	files, err := cascade.Render(cascade.Options{
		Geography: geography, Replica: "a", Interval: interval, Self: []string{ours}, Link: promcfg.Link{Kind: promcfg.Push},
	})
	require.NoError(t, err)
	plain := promcfg.Files{promcfg.ConfigFile: []byte("scrape_configs: [{job_name: self, scrape_interval: 1s, static_configs: [{targets: ['" + theirs + "']}]}]\n")}
	receiving, stock := promtest.Prometheus(t, ours, files, promcfg.ReceiveFlag), promtest.Prometheus(t, theirs, plain, promcfg.ReceiveFlag)
	for _, s := range []*promtest.Server{receiving, stock} {
		s.Ready(t)
		testkit.Await(t, func() error { return s.Gives(`count(up)`, 1) })
	}
	old := time.Now().Add(-3 * time.Hour).Truncate(time.Millisecond)
	series := fmt.Sprintf("test_value{cell=%q}", pairCell)
	require.NoError(t, write(t, receiving, series, old, 1))
	require.ErrorContains(t, write(t, stock, series, old, 1), "400 Bad Request: out of bounds")
	got := receiving.At(t, series, old).(model.Vector)
	require.Len(t, got, 1)
	require.EqualValues(t, 1, got[0].Value)
	require.NoError(t, write(t, stock, series, time.Now(), 1), "it takes what is new")
}
