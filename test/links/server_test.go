package links_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

const interval = time.Second

// waitSamples waits until every series of a selector has some samples since a
// moment: a busy machine makes fewer than one in an interval.
func waitSamples(t testing.TB, s *promtest.Server, selector string, since time.Time) {
	t.Helper()
	testkit.Await(t, func() error {
		all := s.Raw(t, selector, since)
		for _, series := range all {
			if n := len(series.Values) + len(series.Histograms); n < 4 {
				return fmt.Errorf("%s has %d samples of %s", s.Address, n, series.Metric)
			}
		}
		if len(all) == 0 {
			return fmt.Errorf("%s has no sample of %s", s.Address, selector)
		}
		return nil
	})
}
