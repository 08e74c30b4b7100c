package dingtalk_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/dingtalk"
)

const (
	token  = "t0ken"
	secret = "SECabc"
)

// robot is a sink with a clock that the test moves.
type robot struct {
	t    *testing.T
	now  time.Time
	sink *dingtalk.Sink
}

func newRobot(t *testing.T, change func(*dingtalk.Options)) *robot {
	r := &robot{t: t, now: time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)}
	opts := dingtalk.Options{
		Dir: t.TempDir(), AccessToken: token, Secret: secret,
		Now: func() time.Time { return r.now },
	}
	if change != nil {
		change(&opts)
	}
	sink, err := dingtalk.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sink.Close()) })
	r.sink = sink
	return r
}

func (r *robot) query() url.Values {
	ms := strconv.FormatInt(r.now.UnixMilli(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(ms + "\n" + secret))
	return url.Values{
		"access_token": {token}, "timestamp": {ms},
		"sign": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}
}

func (r *robot) do(method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.sink.Handler().ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

func (r *robot) send(q url.Values, body string) int {
	r.t.Helper()
	w := r.do(http.MethodPost, "/robot/send?"+q.Encode(), body)
	require.Equal(r.t, http.StatusOK, w.Code, "a robot refuses with status 200")
	var a dingtalk.Answer
	require.NoError(r.t, json.Unmarshal(w.Body.Bytes(), &a))
	return a.Code
}

func markdown(text string) string {
	return fmt.Sprintf(`{"msgtype":"markdown","markdown":{"title":"T","text":%q}}`, text)
}

func TestAcceptsAndLists(t *testing.T) {
	r := newRobot(t, nil)
	require.Equal(t, dingtalk.CodeOK, r.send(r.query(), markdown("hello")))
	require.Equal(t, dingtalk.CodeOK, r.send(r.query(), `{"msgtype":"text","text":{"content":"plain"}}`))

	var got []dingtalk.Message
	require.NoError(t, json.Unmarshal(r.do(http.MethodGet, "/messages", "").Body.Bytes(), &got))
	require.Equal(t, []dingtalk.Message{
		{Time: r.now, MsgType: "markdown", Title: "T", Text: "hello"},
		{Time: r.now, MsgType: "text", Text: "plain"},
	}, got)
}

func TestRefuses(t *testing.T) {
	r := newRobot(t, func(o *dingtalk.Options) { o.Keyword = "pharos" })
	with := func(key, value string) url.Values {
		q := r.query()
		q.Set(key, value)
		return q
	}
	early := strconv.FormatInt(r.now.Add(-61*time.Minute).UnixMilli(), 10)
	good := markdown("pharos")
	for name, c := range map[string]struct {
		query url.Values
		body  string
		code  int
	}{
		"token":          {with("access_token", "other"), good, dingtalk.CodeBadToken},
		"no timestamp":   {with("timestamp", ""), good, dingtalk.CodeForbidden},
		"skew":           {with("timestamp", early), good, dingtalk.CodeForbidden},
		"signature":      {with("sign", "bm8="), good, dingtalk.CodeForbidden},
		"keyword":        {r.query(), markdown("other"), dingtalk.CodeForbidden},
		"too large":      {r.query(), markdown("pharos" + strings.Repeat("x", 20_000)), dingtalk.CodeTooLarge},
		"not JSON":       {r.query(), "{", dingtalk.CodeBadRequest},
		"unknown type":   {r.query(), `{"msgtype":"voice"}`, dingtalk.CodeBadRequest},
		"markdown alone": {r.query(), `{"msgtype":"markdown","markdown":{"text":"pharos"}}`, dingtalk.CodeBadRequest},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.code, r.send(c.query, c.body)) })
	}
	require.Empty(t, r.sink.Messages())
	require.Equal(t, dingtalk.CodeOK, r.send(r.query(), good))
}

func TestOverTheRateIsSilentForTenMinutes(t *testing.T) {
	r := newRobot(t, nil)
	for range 20 {
		require.Equal(t, dingtalk.CodeOK, r.send(r.query(), markdown("m")))
	}
	require.Equal(t, dingtalk.CodeRateLimited, r.send(r.query(), markdown("m")))
	r.now = r.now.Add(9*time.Minute + 59*time.Second)
	require.Equal(t, dingtalk.CodeRateLimited, r.send(r.query(), markdown("m")))
	r.now = r.now.Add(time.Second)
	require.Equal(t, dingtalk.CodeOK, r.send(r.query(), markdown("m")))
}

func TestTwentyAMinuteForEverIsFine(t *testing.T) {
	r := newRobot(t, nil)
	for range 100 {
		require.Equal(t, dingtalk.CodeOK, r.send(r.query(), markdown("m")))
		r.now = r.now.Add(3 * time.Second)
	}
}

func TestBusyOnDemand(t *testing.T) {
	r := newRobot(t, nil)
	require.Equal(t, http.StatusBadRequest, r.do(http.MethodPost, "/busy?count=-1", "").Code)
	require.Equal(t, http.StatusOK, r.do(http.MethodPost, "/busy?count=2", "").Code)
	for _, want := range []int{dingtalk.CodeBusy, dingtalk.CodeBusy, dingtalk.CodeOK} {
		require.Equal(t, want, r.send(r.query(), markdown("m")))
	}
}

func TestKeepsMessagesAcrossRestartsAndATornLine(t *testing.T) {
	dir := t.TempDir()
	in := func(o *dingtalk.Options) { o.Dir = dir }
	r := newRobot(t, in)
	require.Equal(t, dingtalk.CodeOK, r.send(r.query(), markdown("one")))
	require.NoError(t, r.sink.Close())

	file, err := os.OpenFile(filepath.Join(dir, "messages.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"time":"20`)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	r = newRobot(t, in)
	require.Equal(t, dingtalk.CodeOK, r.send(r.query(), markdown("two")))
	require.NoError(t, r.sink.Close())
	got := newRobot(t, in).sink.Messages()
	require.Len(t, got, 2)
	require.Equal(t, "one", got[0].Text)
	require.Equal(t, "two", got[1].Text)
}

func TestNeedsTokenAndFolder(t *testing.T) {
	_, err := dingtalk.New(dingtalk.Options{Dir: t.TempDir()})
	require.ErrorContains(t, err, "access token")
	_, err = dingtalk.New(dingtalk.Options{AccessToken: token})
	require.ErrorContains(t, err, "folder")
}

func TestRunServesUntilTheContextEnds(t *testing.T) {
	const address = "127.92.0.9:19092"
	sink, err := dingtalk.New(dingtalk.Options{Dir: t.TempDir(), AccessToken: token, Listen: address})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sink.Run(ctx) }()
	require.Eventually(t, func() bool {
		resp, err := http.Post("http://"+address+"/robot/send?access_token="+token, "application/json", strings.NewReader(markdown("m")))
		return err == nil && resp.Body.Close() == nil
	}, 5*time.Second, 20*time.Millisecond)
	require.Len(t, sink.Messages(), 1, "a robot without a secret checks no signature")

	second, err := dingtalk.New(dingtalk.Options{Dir: t.TempDir(), AccessToken: token, Listen: address})
	require.NoError(t, err)
	require.ErrorContains(t, second.Run(ctx), "listening on "+address)
	cancel()
	require.NoError(t, <-done)
}
