package split_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
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
		"PharosAlertsUndelivered":       "what a central had not sent when it was killed",
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
	w := f.watched(t, c, since)
	var wrong []string
	for _, series := range c.Raw(t, "ALERTS", since) {
		if expected()[string(series.Metric["alertname"])] != "" {
			continue
		}
		var at []string
		for _, sample := range series.Values {
			if when := sample.Timestamp.Time(); !w.disturbed(when) {
				at = append(at, when.Format("15:04:05"))
			}
		}
		if len(at) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s at %s", series.Metric, at))
		}
	}
	require.Empty(t, wrong, "alerts at %s that nobody expected", c.Address)
}
