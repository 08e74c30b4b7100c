package signal_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// says is a central that gives each selector the series given, as JSON, and to its
// timestamp() the same unless there are others.
func says(t *testing.T, date time.Time, series map[string]string) policy.Central {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
		if strings.HasSuffix(r.URL.Path, "/status/config") {
			_, _ = fmt.Fprint(w, `{"status":"success","data":{"yaml":"global: {external_labels: {edge_replica: x}}"}}`)
			return
		}
		selector := strings.TrimSuffix(strings.TrimPrefix(r.FormValue("query"), "timestamp("), ")")
		result, ok := series[r.FormValue("query")]
		if !ok {
			result = series[selector]
		}
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, result)
	}))
	t.Cleanup(server.Close)
	r, err := signal.New(signal.Options{Hub: fake.NewFakeClient(), Namespace: "unused", Centrals: centrals(t, server.URL, "http://127.0.0.1:1")})
	require.NoError(t, err)
	return r.Centrals(t.Context())[0]
}

// One bad series must not blind the whole fleet.
func TestBadSeriesSpeakAgainstTheirOwnCell(t *testing.T) {
	for name, tc := range map[string]struct {
		selector, series string
		cell             string
	}{
		"not a number":      {"cluster:up:min", `{"metric":{"cell":"asia-1","cluster":"shop"},"value":[1,"NaN"]}`, "asia-1"},
		"half up":           {"cluster:up:min", `{"metric":{"cell":"asia-1","cluster":"shop"},"value":[1,"0.5"]}`, "asia-1"},
		"label missing":     {"node:unhealthy:info", `{"metric":{"cell":"asia-1","node":"n"},"value":[1,"1"]}`, "asia-1"},
		"cell missing":      {"node:unhealthy:info", `{"metric":{"cluster":"shop","node":"n"},"value":[1,"1"]}`, ""},
		"unready for ever":  {"node:unready:seconds30m", `{"metric":{"cell":"asia-1","cluster":"shop","node":"n"},"value":[1,"+Inf"]}`, "asia-1"},
		"unready for less":  {"node:unready:seconds30m", `{"metric":{"cell":"asia-1","cluster":"shop","node":"n"},"value":[1,"-1"]}`, "asia-1"},
		"NaN, cell missing": {"cell:heartbeat:timestamp_seconds", `{"metric":{"x":"y"},"value":[1,"NaN"]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := says(t, time.Now(), map[string]string{tc.selector: tc.series})
			require.Empty(t, got.Err)
			if tc.cell == "" {
				require.Len(t, got.Warnings, 1)
				require.Empty(t, got.Partial)
				return
			}
			require.Empty(t, got.Warnings)
			require.Len(t, got.Partial, 1)
			require.Equal(t, tc.cell, got.Partial[0].Cell)
		})
	}
}

// Case C08: what is counted of half an hour counts while it is fresh.
func TestForHowLongNodesWereNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		age, want time.Duration
		seconds   string
	}{
		"fresh":               {time.Second, 10 * time.Minute, "600"},
		"old":                 {3 * time.Minute, 0, "600"},
		"of the future":       {-3 * time.Minute, 0, "600"},
		"more than there was": {time.Second, 30 * time.Minute, "1830"},
	} {
		t.Run(name, func(t *testing.T) {
			node := func(value string) string {
				return fmt.Sprintf(`{"metric":{"cell":"asia-1","cluster":"shop","node":"n"},"value":[1,"%s"]}`, value)
			}
			got := says(t, time.Now(), map[string]string{
				"node:unhealthy:info": node("1"), "node:unready:seconds30m": node(c.seconds),
				"timestamp(node:unready:seconds30m)": node(fmt.Sprint(time.Now().Add(-c.age).Unix())),
			})
			require.Empty(t, got.Partial)
			require.Len(t, got.Unhealthy, 1)
			require.Equal(t, c.want, got.Unhealthy[0].Unready.Duration)
		})
	}
}

func TestCentralsClockIsTold(t *testing.T) {
	got := says(t, time.Now().Add(time.Minute), nil)
	require.InDelta(t, time.Minute.Seconds(), got.ClockSkew.Seconds(), 2)
}

func TestServerWithoutANameIsToldAsSuch(t *testing.T) {
	got := says(t, time.Now(), nil)
	require.Empty(t, got.Err)
	require.Empty(t, got.Replica)
}
