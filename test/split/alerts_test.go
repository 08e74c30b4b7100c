package split_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// expected are the alerts that there may be, pending or firing, and why. There may be
// no other at any evaluation: what is pending here for a moment would fire in a fleet
// whose pods take longer.
func expected() map[string]string {
	const (
		load   = "every other node is not ready, because exceptions are what makes load"
		lonely = "Alertmanagers find each other by DNS, which there is none of here"
	)
	return map[string]string{
		"PharosWatchdog":                "it is to fire always",
		"PharosNodeNotReady":            load,
		"PharosRackNotReady":            load,
		"PharosManyNodesNotReady":       load,
		"PharosCascadeNearLimit":        "a shard that is above the limit is the one that is split",
		"PharosCentralDown":             "the test has one central hang, and kills the other",
		"PharosCentralsDiverge":         "a central that hangs says what it said before",
		"PharosAlertmanagerMissing":     lonely,
		"PharosAlertmanagerUnreachable": lonely,
		"PharosRemediatorAbsent":        "there is none",
		"PharosScrapesSlow":             "a busy machine answers slowly, for an interval of a second",
	}
}

func (f *fleet) theSplitWasQuiet(t *testing.T) { f.requireQuiet(t, f.centrals[0], f.whole) }
func (f *fleet) theMergeWasQuiet(t *testing.T) { f.requireQuiet(t, f.centrals[1], f.merging) }

// requireQuiet looks at every alert that a central had at any evaluation since a
// moment, from which on it ran all the time.
func (f *fleet) requireQuiet(t *testing.T, c *promtest.Server, since time.Time) {
	t.Helper()
	servers := []*promtest.Server{c}
	for _, shard := range f.plan(t).Shards {
		servers = append(servers, f.server(t, workload.CascadeName(asia, int(shard))))
	}
	for _, cell := range f.cells {
		servers = append(servers, cell.edges...)
	}
	late := lateness(t, servers, since)
	var wrong []string
	for _, series := range c.Raw(t, "ALERTS", since) {
		if expected()[string(series.Metric["alertname"])] != "" {
			continue
		}
		var at []string
		for _, sample := range series.Values {
			if when := sample.Timestamp.Time(); !late(when) {
				at = append(at, when.Format("15:04:05"))
			}
		}
		if len(at) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s at %s", series.Metric, at))
		}
	}
	require.Empty(t, wrong, "alerts at %s that nobody expected", c.Address)
}

// settled is for how long an alert may be due to a server that was late.
const settled = 10 * interval

// lateness tells of a moment whether shortly before it a machine with too much to do
// let a scrape of one of the servers come late or fail. What is said then, is said of
// the machine. What was not scraped for longer than settled was not to be scraped.
func lateness(t *testing.T, servers []*promtest.Server, since time.Time) func(time.Time) bool {
	t.Helper()
	var late []model.Time
	for _, s := range servers {
		for _, series := range s.Raw(t, "up", since.Add(-settled)) {
			for i, sample := range series.Values {
				gap := interval
				if i > 0 {
					gap = sample.Timestamp.Sub(series.Values[i-1].Timestamp)
				}
				if sample.Value == 0 || gap > 3*interval/2 && gap < settled {
					late = append(late, sample.Timestamp)
				}
			}
		}
	}
	t.Logf("%d scrapes were late or failed", len(late))
	return func(at time.Time) bool {
		return slices.ContainsFunc(late, func(l model.Time) bool {
			return !at.Before(l.Time().Add(-2*interval)) && at.Before(l.Time().Add(settled))
		})
	}
}
