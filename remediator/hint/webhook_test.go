package hint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

const token = "a-token-of-the-web-hook"

// body is a call as Alertmanager makes it, about one alert with the labels.
func body(t testing.TB, labels map[string]string) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"version": "4", "groupKey": "{}", "status": "firing", "receiver": "remediator",
		"alerts": []any{map[string]any{"status": "firing", "labels": labels, "startsAt": time.Now(), "fingerprint": "f"}},
	})
	require.NoError(t, err)
	return raw
}

var nodeDown = map[string]string{"alertname": "PharosNodeNotReady", "cell": "asia-1", "cluster": "shop", "node": "shop-node-07"}

// hook is a web hook that a test calls.
type hook struct {
	*Hints
	url  string
	file string
	log  *bytes.Buffer
}

func newHook(t *testing.T) hook {
	t.Helper()
	w := hook{file: filepath.Join(t.TempDir(), "token"), log: &bytes.Buffer{}}
	w.is(t, token+"\n")
	w.Hints = leading(t, Options{TokenFile: w.file, Log: slog.New(slog.NewTextHandler(w.log, nil))})
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// is replaces the token.
func (w hook) is(t *testing.T, token string) {
	require.NoError(t, os.WriteFile(w.file, []byte(token), 0o600))
}

func (w hook) call(t *testing.T, method, path string, body io.Reader, authorization ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, body)
	require.NoError(t, err)
	req.Header["Authorization"] = authorization
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(said)
}

func TestTheWebHookTakesWhatAlertmanagerSends(t *testing.T) {
	w := newHook(t)
	status, said := w.call(t, http.MethodPost, Path, bytes.NewReader(body(t, nodeDown)), "Bearer "+token)
	require.Equal(t, http.StatusAccepted, status, said)
	require.Equal(t, Hint{Source: "webhook", Alerts: 1, Names: []string{"PharosNodeNotReady"}}, <-w.rung)
	require.EqualValues(t, 1, w.counted(sourceWebhook, taken))

	w.rung <- aHint
	status, _ = w.call(t, http.MethodPost, Path, bytes.NewReader(body(t, nodeDown)), "bearer "+token)
	require.Equal(t, http.StatusAccepted, status)
	require.EqualValues(t, 1, w.counted(sourceWebhook, merged))
	require.Empty(t, w.log.String())
}

// Whoever does not show the token is refused, and none of what it shows is told.
func TestTheWebHookRefusesWhoHasNoToken(t *testing.T) {
	w := newHook(t)
	for name, authorization := range map[string][]string{
		"none":           nil,
		"an empty one":   {"Bearer "},
		"another":        {"Bearer another-s3cret-token-of-it"},
		"a part":         {"Bearer " + token[:len(token)-1]},
		"more":           {"Bearer " + token + "s3cret"},
		"another scheme": {"Basic " + token},
		"without scheme": {token},
		"two":            {"Bearer " + token, "Bearer " + token},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.counted(sourceWebhook, unauthorized)
			w.refusals.Interval = 0 // each is told
			status, said := w.call(t, http.MethodPost, Path, bytes.NewReader(body(t, nodeDown)), authorization...)
			require.Equal(t, http.StatusUnauthorized, status)
			require.Contains(t, said, "set http_config.authorization.credentials_file")
			require.Equal(t, before+1, w.counted(sourceWebhook, unauthorized))
		})
	}
	require.Empty(t, w.rung)
	require.Contains(t, w.log.String(), "Hint refused")
	require.NotContains(t, w.log.String(), token[:8])
	require.NotContains(t, w.log.String(), "s3cret")
}

func TestTheTokenCanBeReplaced(t *testing.T) {
	w := newHook(t)
	with := func(token string) int {
		status, _ := w.call(t, http.MethodPost, Path, bytes.NewReader(body(t, nodeDown)), "Bearer "+token)
		return status
	}
	require.Equal(t, http.StatusAccepted, with(token))
	w.is(t, "the-next-token-of-the-web-hook")
	require.Equal(t, http.StatusUnauthorized, with(token))
	require.Equal(t, http.StatusAccepted, with("the-next-token-of-the-web-hook"))

	for name, is := range map[string]string{"empty": "", "blank": " \n", "short": "short", "endless": strings.Repeat("x", maxToken+1)} {
		w.is(t, is)
		require.Equal(t, http.StatusServiceUnavailable, with(strings.TrimSpace(is)), name)
	}
	require.NoError(t, os.Remove(w.file))
	require.Equal(t, http.StatusServiceUnavailable, with(token), "Alertmanager asks again after 503: the file may be on its way")
	require.EqualValues(t, 5, w.counted(sourceWebhook, failed))
}

func TestTheWebHookRefusesWhatAlertmanagerDoesNotSend(t *testing.T) {
	w := newHook(t)
	ok := body(t, nodeDown)
	labelled := func(name, value string) []byte {
		return body(t, map[string]string{"alertname": "Down", name: value})
	}
	many := map[string]string{"alertname": "Down"}
	for i := range maxLabels {
		many[fmt.Sprint(i)] = ""
	}
	for name, tc := range map[string]struct {
		body   []byte
		status int
		says   string
	}{
		"nothing":           {nil, 400, "reading the call: unexpected end"},
		"half":              {ok[:len(ok)/2], 400, "reading the call"},
		"more":              {append(bytes.Clone(ok), "{}"...), 400, "reading the call"},
		"no JSON":           {[]byte("alerts=1"), 400, "reading the call"},
		"null":              {[]byte("null"), 400, `version "", want 4`},
		"a list":            {[]byte("[]"), 400, "reading the call"},
		"another version":   {bytes.Replace(ok, []byte(`"4"`), []byte(`"3"`), 1), 400, `version "3", want 4`},
		"no alerts":         {[]byte(`{"version":"4","status":"firing","alerts":[]}`), 400, "no alert"},
		"alerts of null":    {[]byte(`{"version":"4","status":"firing","alerts":[null]}`), 400, "alert 0 of the call has status"},
		"a status":          {bytes.ReplaceAll(ok, []byte("firing"), []byte("burning")), 400, `status "burning"`},
		"no name":           {body(t, map[string]string{"node": "n"}), 400, "no label alertname"},
		"many labels":       {body(t, many), 400, "has 65 labels"},
		"a line":            {labelled("node", "n\nlevel=ERROR msg=repaired"), 400, "cannot be shown"},
		"an escape":         {labelled("node", "\x1b[2J"), 400, "cannot be shown"},
		"nought":            {labelled("node", "\x00"), 400, "cannot be shown"},
		"right to left":     {labelled("node", "n\u202e"), 400, "cannot be shown"},
		"a hostile name":    {labelled("no\x07de", "n"), 400, `"no\ade"`},
		"a long value":      {labelled("node", strings.Repeat("n", maxValueBytes+1)), 400, "longer than 1024 bytes"},
		"bytes":             {bytes.Replace(ok, []byte("shop"), []byte("sh\xffp"), 1), 400, "no UTF-8"},
		"a time":            {bytes.Replace(ok, []byte(`"startsAt":"2`), []byte(`"startsAt":"`+strings.Repeat("x", 1000)), 1), 400, "reading the call"},
		"more than allowed": {bytes.Repeat([]byte(" "), maxBodyBytes+1), 413, "larger than 4194304 bytes: set max_alerts"},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.counted(sourceWebhook, invalid)
			status, said := w.call(t, http.MethodPost, Path, bytes.NewReader(tc.body), "Bearer "+token)
			require.Equal(t, tc.status, status, said)
			require.Contains(t, said, tc.says)
			require.Less(t, len(said), 400)
			require.Equal(t, before+1, w.counted(sourceWebhook, invalid))
		})
	}
	require.Empty(t, w.rung, "none of these is a hint")
}

func TestTheWebHookIsAtOnePlaceAndOneMethod(t *testing.T) {
	w := newHook(t)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		status, _ := w.call(t, method, Path, bytes.NewReader(body(t, nodeDown)), "Bearer "+token)
		require.Equal(t, http.StatusMethodNotAllowed, status, method)
	}
	status, _ := w.call(t, http.MethodPost, "/hints", bytes.NewReader(body(t, nodeDown)), "Bearer "+token)
	require.Equal(t, http.StatusNotFound, status)
	require.Empty(t, w.rung)
	h, err := New(Options{Registry: prometheus.NewRegistry()})
	require.NoError(t, err)
	require.Nil(t, h.Handler(), "without a token there is no web hook")
}

// Calls that never end keep neither connections nor places: each is cut off, and those
// that come meanwhile are told to come again.
func TestTheWebHookWaitsForNobody(t *testing.T) {
	w := newHook(t)
	begun := time.Now()
	var slow []net.Conn
	for range maxCalls {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", Path, token)
		require.NoError(t, err)
		slow = append(slow, conn)
	}
	require.Eventually(t, func() bool { return len(w.calls) == maxCalls }, readWithin, time.Millisecond)
	status, said := w.call(t, http.MethodPost, Path, bytes.NewReader(body(t, nodeDown)), "Bearer "+token)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, said, "try again")
	for _, conn := range slow {
		require.NoError(t, conn.SetReadDeadline(begun.Add(12*readWithin)))
		_, err := io.ReadAll(conn) // until the server closes it
		require.NoError(t, err)
	}
	status, _ = w.call(t, http.MethodPost, Path, bytes.NewReader(body(t, nodeDown)), "Bearer "+token)
	require.Equal(t, http.StatusAccepted, status)
}

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	w := newHook(t)
	for range 20 {
		w.call(t, http.MethodPost, Path, http.NoBody)
	}
	require.EqualValues(t, 20, w.counted(sourceWebhook, unauthorized))
	require.Equal(t, 1, strings.Count(w.log.String(), "\n"))
}

func TestATokenThatIsNotThereIsTold(t *testing.T) {
	var log bytes.Buffer
	_, err := New(Options{TokenFile: filepath.Join(t.TempDir(), "none"), Registry: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err, "repairs do not wait for hints")
	require.Contains(t, log.String(), "Nobody can give hints")
}

// FuzzWebHook asserts that whatever is taken has a few names that a log can show, and
// that whatever is refused is refused in a short line.
func FuzzWebHook(f *testing.F) {
	f.Add(body(f, nodeDown))
	f.Add(body(f, map[string]string{"alertname": "a\u2028b"}))
	f.Add([]byte(`{"version":"4","alerts":[{"status":"resolved","labels":{"alertname":"A"}},{"status":"firing","labels":null}]}`))
	f.Add([]byte(`{"version":"4","version":"3","alerts":{}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		hint, err := parse(body)
		if err != nil {
			require.Equal(t, Hint{}, hint)
			require.Less(t, len(err.Error()), 600)
			require.False(t, hostile(err.Error()), "%q", err)
			return
		}
		require.Equal(t, sourceWebhook, hint.Source)
		require.Positive(t, hint.Alerts)
		require.NotEmpty(t, hint.Names)
		require.LessOrEqual(t, len(hint.Names), maxNames)
		for _, name := range hint.Names {
			require.False(t, hostile(name), "%q", name)
			require.LessOrEqual(t, len(name), maxValueBytes)
		}
	})
}
