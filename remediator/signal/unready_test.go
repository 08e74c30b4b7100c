package signal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// Case C08: what the remediator itself has seen of a node that flaps.
func TestForHowLongALiveNodeWasNotReady(t *testing.T) {
	ref := policy.NodeRef{Cell: "asia-1", Cluster: "shop", Node: "n"}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	looks := func(u *signal.Unreadiness, from, to time.Duration, ready bool) (sum time.Duration) {
		for at := from; at <= to; at += 5 * time.Second {
			sum = u.Saw(ref, ready, start.Add(at))
		}
		return sum
	}
	for name, c := range map[string]struct {
		see  func(u *signal.Unreadiness) time.Duration
		want time.Duration
	}{
		"a first look tells nothing": {func(u *signal.Unreadiness) time.Duration { return u.Saw(ref, false, start) }, 0},
		"while it is not ready":      {func(u *signal.Unreadiness) time.Duration { return looks(u, 0, 2*time.Minute, false) }, 2 * time.Minute},
		"not while it is": {func(u *signal.Unreadiness) time.Duration {
			looks(u, 0, time.Minute, false)
			return looks(u, 65*time.Second, 5*time.Minute, true)
		}, 65 * time.Second},
		"not while nobody looked": {func(u *signal.Unreadiness) time.Duration {
			looks(u, 0, time.Minute, false)
			return looks(u, 10*time.Minute, 11*time.Minute, false)
		}, 2 * time.Minute},
		"of half an hour at most": {func(u *signal.Unreadiness) time.Duration {
			return looks(u, 0, 2*time.Hour-5*time.Second, false)
		}, 30 * time.Minute},
		"the past is over": {func(u *signal.Unreadiness) time.Duration {
			looks(u, 0, 20*time.Minute, false)
			return u.Saw(ref, false, start.Add(3*time.Hour))
		}, 0},
		"a clock that goes back": {func(u *signal.Unreadiness) time.Duration {
			looks(u, time.Hour, 2*time.Hour, false)
			return looks(u, 0, time.Minute, false)
		}, time.Minute},
		"forgotten": {func(u *signal.Unreadiness) time.Duration {
			looks(u, 0, 20*time.Minute, false)
			u.Forget(start.Add(time.Hour))
			return u.Saw(ref, false, start.Add(20*time.Minute+5*time.Second))
		}, 0},
		"another node": {func(u *signal.Unreadiness) time.Duration {
			looks(u, 0, 20*time.Minute, false)
			return u.Saw(policy.NodeRef{Cell: "asia-1", Cluster: "shop", Node: "other"}, false, start)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.see(&signal.Unreadiness{}))
		})
	}
}
