package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central/alerting"
	"github.com/pharos-fleet/pharos/central/alerting/alertingtest"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// startAlertmanagers runs real ones that gossip and tell the relay of every alert, as
// they are told to in the hub.
func startAlertmanagers(t *testing.T, relay string, n int) []*promtest.Server {
	t.Helper()
	files, err := alerting.Render(alerting.Options{
		NotifyURL: relay, Robots: []string{"ops"}, GroupWait: 100 * time.Millisecond, GroupInterval: time.Second,
	})
	require.NoError(t, err)
	return alertingtest.Cluster(t, loopback, n, files)
}

// nodeDown is an alert about a node. A zero end means that it fires.
func nodeDown(node string, starts, ends time.Time) alertingtest.Alert {
	a := alertingtest.Alert{
		Labels:      map[string]string{"alertname": "PharosNodeNotReady", "cluster": "shop", "node": node, "severity": "critical"},
		Annotations: map[string]string{"summary": "Node " + node + " is not ready."},
		StartsAt:    starts,
	}
	if !ends.IsZero() {
		a.EndsAt = &ends
	}
	return a
}

// TestOneMessageFromAClusterThatLosesAMember has two Alertmanagers that gossip, both of
// which are sent every alert. The second tells nothing that the first has told, and
// everything once the first is gone.
func TestOneMessageFromAClusterThatLosesAMember(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	managers := startAlertmanagers(t, r.url, 2)
	starts := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	alertingtest.Raise(t, nodeDown("shop-node-03", starts, time.Time{}), managers...)
	eventually(t, "it is told", func() bool { return len(p.Messages()) == 1 })
	time.Sleep(3 * time.Second) // three times as long as the second waits for the first
	require.Len(t, p.Messages(), 1)
	require.Contains(t, r.metric("pharos_notify_received_total"), `{result="duplicate",robot="ops"} 0`, "gossip had said that it was told")

	managers[0].Kill()
	alertingtest.Raise(t, nodeDown("shop-node-04", starts, time.Time{}), managers[1])
	eventually(t, "the other tells it", func() bool { return len(p.Messages()) == 2 })
	require.Contains(t, p.Messages()[1].Text, "node shop-node-04")

	managers[0].Start()
	managers[0].Ready(t)
	alertingtest.Knows(t, managers[0], 2)
	now := time.Now().Truncate(time.Millisecond)
	for _, node := range []string{"shop-node-03", "shop-node-04"} {
		alertingtest.Raise(t, nodeDown(node, starts, now), managers...)
	}
	eventually(t, "the end is told", func() bool { return strings.Count(p.texts(), "### RESOLVED") == 2 })
}

func TestAlertmanagerToRobot(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	// Each is alone, which is what a partition makes of a cluster.
	managers := slices.Concat(startAlertmanagers(t, r.url, 1), startAlertmanagers(t, r.url, 1))
	starts := time.Now().Add(-time.Minute).Truncate(time.Millisecond)

	alertingtest.Raise(t, nodeDown("shop-node-03", starts, time.Time{}), managers...)
	received := func(result string, n int) func() bool {
		line := fmt.Sprintf(`{result="%s",robot="ops"} %d`, result, n)
		return func() bool { return strings.Contains(r.metric("pharos_notify_received_total"), line) }
	}
	eventually(t, "both have told the relay", received(resultDuplicate, 1))
	eventually(t, "it is told", func() bool { return len(p.Messages()) == 1 })
	require.Contains(t, p.texts(), "FIRING · critical · PharosNodeNotReady")
	require.Contains(t, p.texts(), "node shop-node-03")

	ends := time.Now().Truncate(time.Millisecond)
	alertingtest.Raise(t, nodeDown("shop-node-03", starts, ends), managers...)
	eventually(t, "both have told of the end", received(resultDuplicate, 2))
	eventually(t, "the end is told", func() bool { return len(p.Messages()) == 2 })
	require.Contains(t, p.texts(), "RESOLVED · critical · PharosNodeNotReady")
	require.Contains(t, p.texts(), "until "+ends.UTC().Format("15:04:05 UTC"))
}

// A Prometheus sends what has ended for a quarter of an hour, and another one
// says another end: Alertmanager tells of it with whatever its group has next.
func TestAnEndThatAlertmanagerRepeatsIsToldOnce(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	am := startAlertmanagers(t, r.url, 1)
	starts := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	alertingtest.Raise(t, nodeDown("shop-node-03", starts, time.Time{}), am...)
	eventually(t, "it is told", func() bool { return len(p.Messages()) == 1 })
	ends := time.Now().Truncate(time.Millisecond)
	alertingtest.Raise(t, nodeDown("shop-node-03", starts, ends), am...)
	eventually(t, "the end is told", func() bool { return len(p.Messages()) == 2 })

	alertingtest.Raise(t, nodeDown("shop-node-03", starts, ends.Add(time.Millisecond)), am...)
	alertingtest.Raise(t, nodeDown("shop-node-04", ends, time.Time{}), am...)
	eventually(t, "the next is told", func() bool { return len(p.Messages()) == 3 })
	require.Contains(t, p.Messages()[2].Text, "node shop-node-04")
	require.NotContains(t, p.Messages()[2].Text, "shop-node-03")
}

func TestAlertmanagerAsksAgainWhenTheSpoolFails(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	am := startAlertmanagers(t, r.url, 1)
	temp := filepath.Join(r.workers["ops"].spool.dir, tempDir)
	require.NoError(t, os.Remove(temp))

	alertingtest.Raise(t, nodeDown("shop-node-04", time.Now(), time.Time{}), am...)
	eventually(t, "refused", func() bool {
		return !strings.Contains(r.metric("pharos_notify_received_total"), `{result="failed",robot="ops"} 0`)
	})
	require.Empty(t, p.Messages())
	require.NoError(t, os.Mkdir(temp, 0o700))
	eventually(t, "told after all", func() bool { return len(p.Messages()) == 1 })
}
