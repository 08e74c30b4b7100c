package e2e

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// TestFleetsThatEndSoon has one fleet after another, beside the one of
// TestFleetUnderFaults. More of them at once would only wait for the processors.
func TestFleetsThatEndSoon(t *testing.T) {
	t.Parallel()
	t.Run("the demonstration closes the loop", demoClosesTheLoop)
	t.Run("a demonstration names the step that did not come", demoNamesTheStepThatDidNotCome)
	t.Run("a taken port", takenPort)
	t.Run("the state of another version", stateOfAnotherVersion)
	t.Run("an interrupt at any moment", interruptAtAnyMoment)
	t.Run("no Go toolchain", noGoToolchain)
}

func takenPort(t *testing.T) {
	p := newPerson(t, 7)
	address := p.fleet().Layout.APIServerAddress(layout.Hub())
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	_, err = p.pharos("up")
	require.ErrorContains(t, err, address)
	require.ErrorContains(t, err, "kube-apiserver-hub")
	require.NoError(t, l.Close())
	p.requireNothingLeft()
}

func stateOfAnotherVersion(t *testing.T) {
	p := newPerson(t, 7)
	require.NoError(t, os.MkdirAll(p.stateDir(), 0o700))
	record := filepath.Join(p.stateDir(), "fleet.json")
	old := []byte(`{"schemaVersion": 0, "instance": 7}`)
	require.NoError(t, os.WriteFile(record, old, 0o600))
	_, err := p.pharos("up")
	require.ErrorContains(t, err, "version")
	require.ErrorContains(t, err, "pharos down")
	kept, err := os.ReadFile(record)
	require.NoError(t, err)
	require.Equal(t, old, kept, "nothing of it was touched")
	p.must("down")
	p.requireNothingLeft()
}

func interruptAtAnyMoment(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Second, 12 * time.Second} {
		t.Run(after.String()+" after its first file", func(t *testing.T) {
			p := newPerson(t, 7)
			var said bytes.Buffer
			cmd := p.command(t.Context(), "up")
			cmd.Stderr = &said
			require.NoError(t, cmd.Start())
			// Until then there is no fleet, and the program may not have begun yet.
			require.Eventually(t, func() bool {
				_, err := os.Stat(p.stateDir())
				return err == nil
			}, time.Minute, time.Millisecond)
			time.Sleep(after)
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			err := cmd.Wait()
			require.Error(t, err, said.String())
			require.Contains(t, lastLine(said.String()), "interrupted")
			p.requireNothingLeft()
		})
	}
}

func noGoToolchain(t *testing.T) {
	p := newPerson(t, 7)
	cmd := p.command(t.Context(), "status")
	cmd.Args = []string{binary, "up", "--instance", "7"}
	cmd.Env = []string{"HOME=" + p.home, "PATH=/nonexistent"}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, lastLine(string(out)), "Go")
	require.NoDirExists(t, p.stateDir())
}
