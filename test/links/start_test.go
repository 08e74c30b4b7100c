package links_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

const (
	// usual is the interval of a fleet that asks for no other.
	usual = 15 * time.Second
	// reloads is how often a Prometheus looks whether it has found other targets,
	// unless it is told otherwise, and so the longest that its first scrapes wait for it.
	reloads = 5 * time.Second
)

// aStartTakesNoLongerThanTheTestsSay has a server start as it does for a user, at the
// usual interval: the other tests have an interval of a second, and look for targets in
// as small a part of it. From when its targets are found each target has its own moment
// in every interval, so all have been scraped one interval later.
func aStartTakesNoLongerThanTheTestsSay(t *testing.T) {
	require.LessOrEqual(t, reloads.Seconds()/usual.Seconds(), promtest.Reloads.Seconds()/interval.Seconds()+0.05, "the part of an interval that the others allow it")
	const address, targets = "127.92.14.1:9090", 30
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: %s}\nscrape_configs:\n- job_name: self\n  static_configs:\n", usual)
	for i := range targets {
		fmt.Fprintf(&config, "  - {targets: ['%s'], labels: {n: '%d'}}\n", address, i)
	}
	s := promtest.Stock(t, address, promcfg.Files{promcfg.ConfigFile: []byte(config.String())}).Ready(t)
	testkit.Await(t, func() error { return s.Gives("count(up)", targets) })
	var first, last time.Time
	for _, series := range s.Raw(t, "up", time.Now().Add(-time.Hour)) {
		at := series.Values[0].Timestamp.Time()
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	t.Logf("of %d targets the last is scraped %s after the first", targets, last.Sub(first))
	// Both are moments that the server has stored, so that it does not matter how busy
	// the machine is when somebody looks. A fifth is for a scrape that begins late.
	require.Less(t, last.Sub(first), usual+usual/5)
}
