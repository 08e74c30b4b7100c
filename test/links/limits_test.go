package links_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/rules"
)

// crowd answers /federate as an edge would that has too much to say.
type crowd struct {
	series int
	fill   string
}

func (c crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/federate" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintln(w, "# TYPE test_value untyped")
	fmt.Fprintf(w, "cell:heartbeat:timestamp_seconds %d\n", time.Now().Unix())
	for i := range c.series {
		fmt.Fprintf(w, "test_value{cluster=\"%s%d\"} 1\n", c.fill, i)
	}
}

// whatIsTooMuchIsRefusedWhole has three edges: one within its limit, one with
// a series too many, one whose answer is too long. Of the latter two nothing is
// taken, and it is told why.
func whatIsTooMuchIsRefusedWhole(t *testing.T) {
	const at, good, many, long = "127.92.5.1:9090", "127.92.5.2:9090", "127.92.5.3:9090", "127.92.5.4:9090"
	where := []string{"geography", "region", "cell"}
	small := rules.Contract{Series: []rules.Series{
		{Name: "cell:heartbeat:timestamp_seconds", Kind: rules.Gauge, Labels: where, From: rules.Edge, To: rules.Central, Max: rules.Max{Per: "cell", Series: 1}},
		{Name: "test_value", Kind: rules.Gauge, Labels: append(where, "cluster"), From: rules.Edge, To: rules.Central, Max: rules.Max{Per: "cell", Series: 100}},
	}}
	limit := int(small.SampleLimit(rules.Cascade, rules.Size{Cells: 1, ClustersPerCell: 1}))
	require.Equal(t, 101, limit)
	testkit.Serve(t, good, crowd{series: limit - 1})
	testkit.Serve(t, many, crowd{series: limit})
	testkit.Serve(t, long, crowd{series: 60, fill: strings.Repeat("x", 300_000)})
	files, err := cascade.Render(cascade.Options{
		Geography: geography, Replica: "a", Interval: interval, Contract: &small, ClustersPerCell: 1, Self: []string{at},
		Cells: []cascade.Cell{
			{Name: "good", Region: region, Endpoints: []string{good}, External: true},
			{Name: "many", Region: region, Endpoints: []string{many}, External: true},
			{Name: "long", Region: region, Endpoints: []string{long}, External: true},
		},
	})
	require.NoError(t, err)
	s := promtest.Prometheus(t, at, files)
	s.Ready(t)
	testkit.Await(t, func() error { return s.Gives(`up{cell="good"}`, 1) })
	for _, cell := range []string{"many", "long"} {
		testkit.Await(t, func() error { return s.Gives(fmt.Sprintf("up{cell=%q}", cell), 0) })
	}
	time.Sleep(2 * interval)
	require.NoError(t, s.Gives(`count(test_value{cell="good"})`, 100))
	require.Empty(t, s.Vector(t, `{cell=~"many|long", __name__=~"test_value|cell:heartbeat:timestamp_seconds"}`))
	for counter, name := range map[string]string{
		"prometheus_target_scrapes_exceeded_sample_limit_total":    "many",
		"prometheus_target_scrapes_exceeded_body_size_limit_total": "long",
	} {
		testkit.Await(t, func() error {
			if len(s.Vector(t, counter+" > 0")) == 0 {
				return fmt.Errorf("%s is not told of in %s", name, counter)
			}
			return nil
		})
	}
	testkit.Await(t, func() error { // a busy machine has scrapes that take too long as well
		reasons := s.Reasons(t, "cell")
		if !strings.Contains(reasons["many"], "sample limit exceeded") || !strings.Contains(reasons["long"], "body size limit exceeded") {
			return fmt.Errorf("it is told why as %q", reasons)
		}
		return nil
	})
}
