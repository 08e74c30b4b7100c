package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
)

func TestAnIntervalAtWhichAWindowCannotWorkIsRefused(t *testing.T) {
	for _, tier := range rules.Tiers() {
		for _, interval := range []time.Duration{time.Second, 15 * time.Second, 40 * time.Second} {
			_, err := rules.Render(tier, interval)
			require.NoError(t, err, "an interval that the tiers work with")
		}
	}
	_, err := rules.Render(rules.Edge, 75*time.Second)
	require.NoError(t, err, "four intervals are five minutes")
	_, err = rules.Render(rules.Edge, 76*time.Second)
	require.ErrorContains(t, err, "interval 1m16s: cluster:apiserver_requests:rate5m in edge-controlplane looks back over 5m0s, "+
		"which must hold 4 intervals; make the interval 1m15s at most")
	require.NotContains(t, err.Error(), "cluster:container_restarts:increase10m", "ten minutes hold enough")
	_, err = rules.Render(rules.Cascade, 3*time.Minute)
	require.ErrorContains(t, err, "cascade:rules_failed:increase10m in cascade-pipeline looks back over 10m0s")
}

// What a server keeps is checked by how far its rules look back, so this changes
// with them.
func TestReachIsTheLongestWayBack(t *testing.T) {
	for tier, want := range map[rules.Tier]time.Duration{
		rules.Edge:    24 * time.Hour,   // the error ratio over a day
		rules.Cascade: 15 * time.Minute, // the age of a cell
		rules.Central: 24 * time.Hour,   // the forecast by the day before
	} {
		got, err := rules.Reach(tier)
		require.NoError(t, err)
		require.Equal(t, want, got, tier)
	}
	_, err := rules.Reach("moon")
	require.ErrorContains(t, err, `tier "moon"`)
}
