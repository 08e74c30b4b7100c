package links_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// write has promtool send one sample of a series to a server.
func write(t *testing.T, s *promtest.Server, series string, at time.Time, value float64) error {
	t.Helper()
	name, _, _ := strings.Cut(series, "{")
	cmd := exec.Command(testkit.Binary(t, "promtool"), "push", "metrics", "http://"+s.Address)
	cmd.Stdin = strings.NewReader(fmt.Sprintf("# HELP %s Written by hand.\n# TYPE %s gauge\n%s %g %d\n", name, name, series, value, at.UnixMilli()))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
