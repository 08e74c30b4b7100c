package promapi_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promapi"
)

var at = time.Unix(1_700_000_000, 0).UTC()

// server answers value queries and timestamp queries with the given bodies.
func server(t testing.TB, value, timestamp string) *promapi.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.FormValue("query"), "timestamp(") {
			fmt.Fprint(w, timestamp)
			return
		}
		fmt.Fprint(w, value)
	}))
	t.Cleanup(s.Close)
	return client(t, promapi.Options{URL: s.URL, MaxBytes: 4096})
}

func client(t testing.TB, o promapi.Options) *promapi.Client {
	t.Helper()
	c, err := promapi.New(o)
	require.NoError(t, err)
	return c
}

func vector(results ...string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(results, ",") + `]}}`
}

func TestSamplesJoinTheirOwnTimestamps(t *testing.T) {
	c := server(t,
		vector(`{"metric":{"__name__":"up","cell":"a"},"value":[1700000000,"1"]}`, `{"metric":{"__name__":"up","cell":"b"},"value":[1700000000,"0"]}`),
		vector(`{"metric":{"cell":"b"},"value":[1700000000,"1699999990"]}`, `{"metric":{"cell":"a"},"value":[1700000000,"1699999999.123"]}`))
	a, err := c.Samples(t.Context(), "up", at)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(promapi.Answer{Samples: []promapi.Sample{
		{Labels: map[string]string{"__name__": "up", "cell": "a"}, Value: 1, At: time.UnixMilli(1699999999123).UTC()},
		{Labels: map[string]string{"__name__": "up", "cell": "b"}, Value: 0, At: time.Unix(1699999990, 0).UTC()},
	}}, a))
}

func TestUnusableSeriesAreNamed(t *testing.T) {
	good := vector(`{"metric":{"cell":"a"},"value":[1700000000,"1699999990"]}`)
	for name, tc := range map[string]struct{ value, timestamp, warning string }{
		"NaN":                {vector(`{"metric":{"cell":"a"},"value":[1,"NaN"]}`), good, "is no finite number"},
		"infinite":           {vector(`{"metric":{"cell":"a"},"value":[1,"+Inf"]}`), good, "is no finite number"},
		"no timestamp":       {vector(`{"metric":{"cell":"b"},"value":[1,"1"]}`), good, "came without a timestamp"},
		"timestamp NaN":      {vector(`{"metric":{"cell":"a"},"value":[1,"1"]}`), vector(`{"metric":{"cell":"a"},"value":[1,"NaN"]}`), "impossible timestamp"},
		"timestamp huge":     {vector(`{"metric":{"cell":"a"},"value":[1,"1"]}`), vector(`{"metric":{"cell":"a"},"value":[1,"1e300"]}`), "impossible timestamp"},
		"timestamp negative": {vector(`{"metric":{"cell":"a"},"value":[1,"1"]}`), vector(`{"metric":{"cell":"a"},"value":[1,"-1"]}`), "impossible timestamp"},
		"histogram":          {vector(`{"metric":{"cell":"a"},"histogram":[1,{"count":"1","sum":"1","buckets":[]}]}`), good, "is a histogram"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := server(t, tc.value, tc.timestamp).Samples(t.Context(), "up", at)
			require.NoError(t, err)
			require.Empty(t, a.Samples)
			require.Empty(t, a.Warnings, "what other series say stays complete")
			require.Len(t, a.Unusable, 1)
			require.Contains(t, a.Unusable[0].Why, tc.warning)
			require.Contains(t, []string{"a", "b"}, a.Unusable[0].Labels["cell"], "it is told whose series it is")
		})
	}
}

func TestWarningsOfTheServer(t *testing.T) {
	a, err := server(t, strings.Replace(vector(), `"data"`, `"warnings":["one shard is away"],"data"`, 1), vector()).Samples(t.Context(), "up", at)
	require.NoError(t, err)
	require.Equal(t, []string{"one shard is away"}, a.Warnings)
}

// A clock of ours that is behind makes old samples look fresh.
func TestClocksAreCompared(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		date := at.Add(3 * time.Second)
		if strings.HasPrefix(r.FormValue("query"), "timestamp(") {
			date = at.Add(90 * time.Second)
		}
		w.Header().Set("Date", date.Format(http.TimeFormat))
		_, _ = fmt.Fprint(w, vector())
	}))
	t.Cleanup(s.Close)
	a, err := client(t, promapi.Options{URL: s.URL, Now: func() time.Time { return at }}).Samples(t.Context(), "up", at)
	require.NoError(t, err)
	require.Equal(t, 90*time.Second, a.Skew, "the worse of the two answers")
}

func TestAnswerWithoutADateIsNone(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		_, _ = fmt.Fprint(w, vector())
	}))
	t.Cleanup(s.Close)
	_, err := client(t, promapi.Options{URL: s.URL}).Samples(t.Context(), "up", at)
	require.ErrorContains(t, err, "asking "+s.URL+" for up: the answer bears no Date")
}

func TestExternalLabelTellsServersApart(t *testing.T) {
	for name, tc := range map[string]struct{ body, want, message string }{
		"named":       {`{"status":"success","data":{"yaml":"global:\n  external_labels:\n    central_replica: a\n"}}`, "a", ""},
		"another":     {`{"status":"success","data":{"yaml":"global:\n  external_labels:\n    edge_replica: a\n"}}`, "", "no such name"},
		"none":        {`{"status":"success","data":{"yaml":"global: {}\n"}}`, "", "no such name"},
		"no YAML":     {`{"status":"success","data":{"yaml":"global: ["}}`, "", "reading the configuration"},
		"not allowed": {`{"status":"error","errorType":"forbidden","error":"no"}`, "", "for its configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, tc.body) }))
			t.Cleanup(s.Close)
			got, err := client(t, promapi.Options{URL: s.URL}).ExternalLabel(t.Context(), "central_replica")
			require.Equal(t, tc.want, got)
			if tc.message != "" {
				require.ErrorContains(t, err, tc.message)
			}
		})
	}
}

func TestInfosLeaveAnAnswerComplete(t *testing.T) {
	a, err := server(t, strings.Replace(vector(), `"data"`, `"infos":["by the way"],"data"`, 1), vector()).Samples(t.Context(), "up", at)
	require.NoError(t, err)
	require.Empty(t, a.Warnings)
	require.Equal(t, []string{"by the way"}, a.Infos)
}

func TestErrorsNameServerAndQuery(t *testing.T) {
	for name, body := range map[string]string{
		"truncated":     vector()[:40],
		"scalar":        `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`,
		"matrix":        `{"status":"success","data":{"resultType":"matrix","result":[]}}`,
		"empty object":  `{}`,
		"refused":       `{"status":"error","errorType":"execution","error":"too many samples"}`,
		"no JSON":       `<html>`,
		"nothing":       ``,
		"over the size": vector(`{"metric":{"cell":"` + strings.Repeat("x", 5000) + `"},"value":[1,"1"]}`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := server(t, body, vector()).Samples(t.Context(), "up", at)
			require.ErrorContains(t, err, "asking http://127.0.0.1:")
			require.ErrorContains(t, err, "for up: ")
		})
	}
}

func TestAnswerOfExactlyTheAllowedSizeIsRead(t *testing.T) {
	body := vector()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	t.Cleanup(s.Close)
	_, err := client(t, promapi.Options{URL: s.URL, MaxBytes: int64(len(body))}).Samples(t.Context(), "up", at)
	require.NoError(t, err)
	_, err = client(t, promapi.Options{URL: s.URL, MaxBytes: int64(len(body)) - 1}).Samples(t.Context(), "up", at)
	require.ErrorIs(t, err, promapi.ErrTooLarge)
}

func TestSilentServerMeetsTheDeadline(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	_, err := client(t, promapi.Options{URL: s.URL, Timeout: 50 * time.Millisecond}).Samples(t.Context(), "up", at)
	require.ErrorContains(t, err, "deadline exceeded")
}

func TestNewRefusesWhatIsNoURL(t *testing.T) {
	for _, u := range []string{"", "central-a", "central-a:9090", "ftp://x", "http://", "http://[::1"} {
		_, err := promapi.New(promapi.Options{URL: u})
		require.ErrorContains(t, err, "want http://host:port", u)
	}
}

func TestPasswordIsNotInErrors(t *testing.T) {
	c := client(t, promapi.Options{URL: "http://u:s3cret@127.0.0.1:1"})
	_, err := c.Samples(t.Context(), "up", at)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(vector(`{"metric":{"cell":"a"},"value":[1,"NaN"]}`)), []byte(vector()))
	f.Add([]byte(vector(`{"metric":{"cell":"a"},"value":[1,"1"]}`)), []byte(vector(`{"metric":{"cell":"a"},"value":[1,"1e308"]}`)))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[null]}}`), []byte(vector()))
	f.Add([]byte(vector()[:30]), []byte{})
	var value, timestamp []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.FormValue("query"), "timestamp(") {
			_, _ = w.Write(timestamp)
			return
		}
		_, _ = w.Write(value)
	}))
	f.Cleanup(s.Close)
	c := client(f, promapi.Options{URL: s.URL, MaxBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, v, ts []byte) {
		value, timestamp = v, ts
		a, err := c.Samples(t.Context(), "up", at)
		if err != nil {
			require.Empty(t, a.Samples)
			return
		}
		for _, s := range a.Samples {
			require.False(t, math.IsNaN(s.Value), "NaN never leaves the client")
			require.False(t, s.At.Before(time.Unix(0, 0)), "every sample has a time")
		}
	})
}
