package promapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that started, and loaded a file, at the moments that it says.
func TestLoaded(t *testing.T) {
	const early, late = "2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z"
	for _, c := range []struct{ name, started, reloaded, since string }{
		{"it has loaded anew since it began", early, late, late},
		{"what it says of a load is from before", late, early, late},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := `{"yaml":"rule_files: [x]"}`
				if r.URL.Path == "/api/v1/status/runtimeinfo" {
					answer = `{"startTime":"` + c.started + `","lastConfigTime":"` + c.reloaded + `","reloadConfigSuccess":false}`
				}
				_, _ = w.Write([]byte(`{"status":"success","data":` + answer + `}`))
			}))
			defer server.Close()
			asked, err := New(Options{URL: server.URL})
			require.NoError(t, err)
			loaded, err := asked.Loaded(t.Context())
			require.NoError(t, err)
			require.Equal(t, Loaded{Config: "rule_files: [x]", Refused: true, Since: must(t, c.since)}, loaded)
			server.Close()
			_, err = asked.Loaded(t.Context())
			require.ErrorContains(t, err, "asking "+server.URL+" for its configuration")
		})
	}
}

func must(t *testing.T, at string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, at)
	require.NoError(t, err)
	return out
}
