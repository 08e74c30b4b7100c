package fleettest

import (
	"testing"
	"time"

	"github.com/pharos-fleet/pharos/rules"
)

// Crossing is what a tier hears now of all below it, as its links let it through.
func (w *World) Crossing(tb testing.TB, to rules.Tier) []Sample {
	tb.Helper()
	var out []Sample
	for _, c := range w.cascades {
		if to == rules.Central {
			cfg := w.Central.job(tb, "federate-cascade")
			out = append(out, passed(c.Federate(tb, cfg, w.Now()), cfg.MetricRelabelConfigs, targetLabels(tb, cfg, c.address()))...)
			continue
		}
		cfg := c.job(tb, "federate-edge")
		for _, e := range c.reads {
			out = append(out, passed(e.Federate(tb, cfg, w.Now()), cfg.MetricRelabelConfigs, targetLabels(tb, cfg, e.address()))...)
		}
	}
	return out
}

// Edge is the server of a cell's edge that a cell without shards and pairs has,
// and Scraped what it gets of its targets at a step.
func (w *World) Edge(cell string) *Server { return w.edge(cell).Server }

// Scraped is what the only server of a cell's edge gets of its targets now.
func (w *World) Scraped(cell string) []Sample { return w.scraped(w.edge(cell)) }

// Pass lets an interval pass in which nothing happens by itself.
func (w *World) Pass() time.Time {
	w.step++
	return w.Now()
}

func (w *World) edge(cell string) *edgeServer {
	for _, e := range w.edges {
		if e.cell.Name == cell {
			return e
		}
	}
	return nil
}
