package alerting_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/central/alerting"
	"github.com/pharos-fleet/pharos/central/alerting/alertingtest"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/rules"
)

const loopback = "127.94.0.1"

// outside is the service that calls somebody once it hears nothing more.
type outside struct {
	mu    sync.Mutex
	heard []time.Time
}

func (o *outside) ServeHTTP(_ http.ResponseWriter, _ *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = append(o.heard, time.Now())
}

// beats is how often it was called after a moment.
func (o *outside) beats(since time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, at := range o.heard {
		if at.After(since) {
			n++
		}
	}
	return n
}

// goesOn waits until it has been called three times more.
func (o *outside) goesOn(t *testing.T) {
	t.Helper()
	since := time.Now()
	testkit.Await(t, func() error {
		if n := o.beats(since); n < 3 {
			return fmt.Errorf("%d beats since %s", n, since)
		}
		return nil
	})
}

// silent waits until it has not been called for four intervals.
func (o *outside) silent(t *testing.T) {
	t.Helper()
	testkit.Await(t, func() error {
		if o.beats(time.Now().Add(-4*beat)) > 0 {
			return errors.New("the heart beats")
		}
		return nil
	})
}

const beat = time.Second

// TestTheHeartbeatStopsWhenAlertsDo runs a central and two Alertmanagers with what is
// rendered for them, at intervals of a second, and takes away one after the other.
func TestTheHeartbeatStopsWhenAlertsDo(t *testing.T) {
	service := &outside{}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	address := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(address, []byte(server.URL+"/ping/deadman\n"), 0o600))
	files, err := alerting.Render(alerting.Options{
		GroupInterval: time.Second, Heartbeat: &alerting.Heartbeat{URLFile: address, Interval: beat},
	})
	require.NoError(t, err)
	managers := alertingtest.Cluster(t, loopback, 2, files)
	declaredSeriesAreThere(t, managers[0])
	people := httptest.NewServer(&outside{})
	t.Cleanup(people.Close)
	others := alertingtest.Member(t, alertingtest.Free(t, loopback), t.TempDir(), 0, nil, promcfg.Files{
		alerting.ConfigFile: fmt.Appendf(nil, "route: {receiver: ops}\nreceivers: [{name: ops, webhook_configs: [{url: %q}]}]\n", people.URL),
	}).Ready(t)
	prometheus := startCentral(t, managers, others)
	service.goesOn(t)
	testkit.Await(t, func() error {
		return prometheus.Gives(`min(alertmanager_cluster_members{job="alertmanager"})`, 2)
	})

	// The relay is away all the time, so that the Alertmanager of others is the only one
	// that tells people. When it goes, the heartbeat is the only one left to notice.
	others.Kill()
	service.silent(t)
	others.Start()
	service.goesOn(t)

	managers[0].Kill()
	service.goesOn(t)
	testkit.Await(t, func() error {
		return prometheus.Gives(`count(ALERTS{alertname="PharosAlertmanagerMissing", alertstate="firing"})`, 1)
	})

	prometheus.Kill()
	service.silent(t)
	prometheus.Start()
	service.goesOn(t)

	managers[1].Kill()
	service.silent(t)
}

// declaredSeriesAreThere looks for what alerts read before anything has happened, for
// each receiver by its name.
func declaredSeriesAreThere(t *testing.T, a *promtest.Server) {
	t.Helper()
	contract, err := rules.Load()
	require.NoError(t, err)
	page, err := a.Get("/metrics")
	require.NoError(t, err)
	for _, name := range contract.RawFrom("alertmanager") {
		require.Contains(t, string(page), "\n"+name)
	}
	require.Contains(t, string(page), `alertmanager_notifications_failed_total{integration="webhook",reason="serverError",receiver_name="heartbeat"} 0`)
}

// startCentral runs a central that sees no cell, and no relay though there is a robot,
// and has the Alertmanagers, that of others as well.
func startCentral(t *testing.T, managers []*promtest.Server, others *promtest.Server) *promtest.Server {
	t.Helper()
	at := alertingtest.Free(t, loopback)
	o := central.Options{
		Replica: "a", Replicas: []string{"a"}, Interval: time.Second, Geographies: []string{"asia"},
		Static: &central.Static{Centrals: map[string]string{"a": at}},
		Robots: []string{"oncall"}, Existing: []central.Alertmanager{{Name: "ops", URL: "http://" + others.Address}},
	}
	for _, a := range managers {
		o.Static.Alertmanagers = append(o.Static.Alertmanagers, a.Address)
	}
	files, err := central.Render(o)
	require.NoError(t, err)
	// What a Prometheus says is believed for four times as long as it waits to say it
	// again: a minute, where a test has a second.
	return promtest.Prometheus(t, at, files, "--rules.alert.resend-delay=1s").Ready(t)
}
