package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/demo"
)

// Its figures are shown. They are those of a machine that does other things too.
func demoClosesTheLoop(t *testing.T) {
	p := newPerson(t, 8)
	var r demo.Result
	require.NoError(t, json.Unmarshal([]byte(p.must("demo", "--once", "-o", "json")), &r))
	require.True(t, r.Closed)
	var names []string
	for _, s := range r.Steps {
		names = append(names, s.Name)
		require.NotNil(t, s.Seconds, s.Name)
	}
	require.Equal(t, []string{
		"node lost", "seen by edge", "seen by cascade", "seen by both centrals", "alert firing",
		"alert delivered", "evidence agreed", "remediation written", "machine patched", "job ran",
		"node Ready", "node check passed", "verified", "alert resolved",
	}, names)
	requireOrder(t, r.Timeline, "node lost", "seen by both centrals", "remediation written", "node Ready", "node check passed", "verified")
	// The first central's alert is delivered, maybe before the second's fires.
	requireOrder(t, r.Timeline, "seen by cascade", "alert delivered", "alert resolved")
	requireOrder(t, r.Timeline, "seen by cascade", "alert firing", "alert resolved")
	t.Logf("ready %.0f s, repair %.0f s, resident %.1f GiB, down %.1f s", r.Figures.ReadySeconds,
		r.Figures.RepairSeconds, float64(r.Figures.ResidentBytes)/(1<<30), r.Figures.DownSeconds)
	p.requireNothingLeft()
}

func requireOrder(t *testing.T, line *demo.Timeline, names ...string) {
	t.Helper()
	for i := range names[1:] {
		before, _ := line.Seconds(names[i])
		after, _ := line.Seconds(names[i+1])
		require.LessOrEqual(t, before, after, "%s comes before %s", names[i], names[i+1])
	}
}

func demoNamesTheStepThatDidNotCome(t *testing.T) {
	p := newPerson(t, 8)
	// Kubernetes gives a node up only after 40 s.
	_, err := p.pharos("demo", "--once", "--timeout", "5s")
	require.ErrorContains(t, err, `the loop did not close: step "node lost" did not come within 5s`)
	require.ErrorContains(t, err, "logs are kept in "+p.stateDir())
	require.DirExists(t, p.fleet().Layout.LogDir())
	_, err = p.pharos("demo", "--once")
	require.ErrorContains(t, err, "the state of an earlier fleet is kept in "+p.stateDir())
	p.must("down")
	p.requireNothingLeft()
}
