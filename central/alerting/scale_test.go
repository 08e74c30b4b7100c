package alerting_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/central/alerting"
	"github.com/pharos-fleet/pharos/central/alerting/alertingtest"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// people are told by a robot, and know how often of which node.
type people struct {
	mu   sync.Mutex
	told map[string]int
}

func (p *people) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n struct {
		Alerts []struct{ Labels map[string]string }
	}
	if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range n.Alerts {
		p.told[a.Labels["node"]]++
	}
}

func (p *people) of(node string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told[node]
}

// hears raises an alert about a node and waits until people are told.
func (p *people) hears(t *testing.T, node string, from ...*promtest.Server) {
	t.Helper()
	raise(t, node, from...)
	testkit.Await(t, func() error {
		if p.of(node) == 0 {
			return fmt.Errorf("nobody was told of %s", node)
		}
		return nil
	})
}

// firedAt is when every alert began: one that begins anew is news.
var firedAt = time.Now().Add(-time.Minute).Truncate(time.Millisecond)

func raise(t *testing.T, node string, to ...*promtest.Server) {
	t.Helper()
	alertingtest.Raise(t, alertingtest.Alert{
		Labels:   map[string]string{"alertname": "PharosNodeNotReady", "severity": "warning", "node": node, "cluster": node},
		StartsAt: firedAt,
	}, to...)
}

// TestSilencesAndWhatWasToldOutliveAChangeOfReplicas makes two Alertmanagers of one and
// one of two, as spec.alerting.replicas does: members come, go and restart in order.
func TestSilencesAndWhatWasToldOutliveAChangeOfReplicas(t *testing.T) {
	p := &people{told: map[string]int{}}
	robot := httptest.NewServer(p)
	t.Cleanup(robot.Close)
	files, err := alerting.Render(alerting.Options{NotifyURL: robot.URL, Robots: []string{"ops"}, GroupWait: 100 * time.Millisecond, GroupInterval: time.Second})
	require.NoError(t, err)
	dirs := []string{t.TempDir(), t.TempDir()}
	web := []string{alertingtest.Free(t, loopback), alertingtest.Free(t, loopback)}
	gossip := []string{alertingtest.Free(t, loopback), alertingtest.Free(t, loopback)}
	start := func(i int, gossip []string) *promtest.Server {
		return alertingtest.Member(t, web[i], dirs[i], i, gossip, files).Ready(t)
	}
	// Each new one is sent all that fires; a second witness says that it was at work.
	nothingNew := func(witness string, from ...*promtest.Server) {
		t.Helper()
		for _, node := range []string{"told", "quiet", "late"} {
			raise(t, node, from...)
		}
		p.hears(t, witness, from...)
		time.Sleep(3 * time.Second) // three times as long as it would wait for another
		require.Equal(t, []int{1, 0, 0}, []int{p.of("told"), p.of("quiet"), p.of("late")}, witness)
	}

	first := start(0, nil)
	p.hears(t, "told", first)
	alertingtest.Silence(t, "quiet", first)
	alertingtest.Silence(t, "late", first)

	first.Stop()
	first, second := start(0, gossip), start(1, gossip)
	alertingtest.Knows(t, first, 2)
	alertingtest.Knows(t, second, 2)
	nothingNew("two", first, second)
	first.Stop()
	nothingNew("the new one alone", second)

	// What is silenced at the one that goes is silenced at the one that stays.
	first.Start()
	first.Ready(t)
	alertingtest.Knows(t, first, 2)
	alertingtest.Silence(t, "later", second)
	testkit.Await(t, func() error {
		page, err := first.Get("/api/v2/silences")
		if err == nil && !bytes.Contains(page, []byte(`"later"`)) {
			err = errors.New("the first does not know what is silenced at the second")
		}
		return err
	})
	second.Stop()
	first.Stop()
	first = start(0, nil)
	raise(t, "later", first)
	nothingNew("one again", first)
	require.Zero(t, p.of("later"))
}
