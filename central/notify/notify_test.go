package notify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"github.com/pharos-fleet/pharos/internal/local/dingtalk"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback is an address of these tests' own.
const loopback = "127.92.0.1"

// serve starts an HTTP server that ends with the test.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	require.NoError(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// provider is a DingTalk sink with a clock that the test moves.
type provider struct {
	*dingtalk.Sink
	url   string
	moved atomic.Int64
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	sink, err := dingtalk.New(dingtalk.Options{
		Dir: t.TempDir(), AccessToken: testToken, Secret: testSecret,
		Now: func() time.Time { return time.Now().Add(time.Duration(p.moved.Load())) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sink.Close()) })
	p.Sink, p.url = sink, serve(t, sink.Handler().ServeHTTP)
	return p
}

func (p *provider) texts() string {
	var all strings.Builder
	for _, m := range p.Messages() {
		all.WriteString(m.Title + "\n" + m.Text + "\n\n")
	}
	return all.String()
}

// running is a relay at work.
type running struct {
	*Relay
	t    *testing.T
	url  string
	stop func()
}

// startRelay runs a relay to one robot. The pace is lifted and retries are
// quick, unless change says otherwise.
func startRelay(t *testing.T, opts Options, change func(*worker)) *running {
	t.Helper()
	opts.Listen = loopback + ":0"
	r, err := New(opts)
	require.NoError(t, err)
	for _, w := range r.workers {
		w.limiter = rate.NewLimiter(rate.Inf, 1)
		w.retry = func() backoff.BackOff { return backoff.NewConstantBackOff(20 * time.Millisecond) }
		if change != nil {
			change(w)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var stopped bool
	run := &running{Relay: r, t: t, url: "http://" + r.server.Addr().String()}
	run.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(run.stop)
	return run
}

func optionsFor(t *testing.T, url string) Options {
	return Options{Config: Config{Robots: []Robot{robotAt(t, url)}}, SpoolDir: t.TempDir()}
}

func post(t *testing.T, url string, body []byte) int {
	t.Helper()
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode
}

func (r *running) tell(n notification) int {
	r.t.Helper()
	return post(r.t, r.url+"/alertmanager/ops", webhookBody(r.t, n))
}

func (r *running) pending() int {
	return r.workers["ops"].spool.state().pending
}

// metric returns the lines of one metric.
func (r *running) metric(name string) string {
	r.t.Helper()
	resp, err := http.Get(r.url + "/metrics")
	require.NoError(r.t, err)
	defer func() { _ = resp.Body.Close(); http.DefaultClient.CloseIdleConnections() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	var lines []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 10*time.Millisecond, what)
}

func TestRelayTellsOnce(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	require.Equal(t, http.StatusAccepted, r.tell(numbered(1)))
	require.Equal(t, http.StatusOK, r.tell(numbered(1)), "a peer says the same")
	eventually(t, "told", func() bool { return r.pending() == 0 && len(p.Messages()) == 1 })
	require.Equal(t, http.StatusOK, r.tell(numbered(1)), "and once more when it is sent")
	require.Equal(t, http.StatusAccepted, r.tell(notificationOf("g01", statusResolved, alertOf("Down", "n01", statusResolved))))
	eventually(t, "the resolve is told", func() bool { return len(p.Messages()) == 2 })
	require.Equal(t, "[FIRING] critical: node n01 of shop in asia-1 — Down", p.Messages()[0].Title)
	require.Equal(t, "[RESOLVED] critical: node n01 of shop in asia-1 — Down", p.Messages()[1].Title)
	require.Contains(t, r.metric("pharos_notify_received_total"), `{result="duplicate",robot="ops"} 2`)
}

func TestRelayAnswersForWhatCanNeverBe(t *testing.T) {
	r := startRelay(t, optionsFor(t, newProvider(t).url), nil)
	require.Equal(t, http.StatusNotFound, post(t, r.url+"/alertmanager/nobody", webhookBody(t, numbered(1))))
	require.Equal(t, http.StatusBadRequest, post(t, r.url+"/alertmanager/ops", []byte("{")))
	require.Equal(t, http.StatusRequestEntityTooLarge, post(t, r.url+"/alertmanager/ops", make([]byte, maxBodyBytes+1)))
	require.Contains(t, r.metric("pharos_notify_received_total"), `{result="invalid",robot="unknown"} 1`)
	require.Contains(t, r.metric("pharos_notify_received_total"), `{result="invalid",robot="ops"} 2`)
}

func TestRelayThatCannotWriteAsksForARetry(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	spool := r.workers["ops"].spool
	folder := spool.dir
	spool.dir = filepath.Join(folder, "gone")
	require.Equal(t, http.StatusServiceUnavailable, r.tell(numbered(1)))
	spool.dir = folder
	require.Equal(t, http.StatusAccepted, r.tell(numbered(1)))
	eventually(t, "told", func() bool { return len(p.Messages()) == 1 })
}

func TestRobotThatIsSilentLosesNothing(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	opts.RateLimitPause = 50 * time.Millisecond
	s := sender{robot: opts.Config.Robots[0], client: newHTTPClient(), now: time.Now}
	v := verdictSent
	for v == verdictSent {
		v, _ = s.send(t.Context(), newMessage("filler", "filler"))
	}
	require.Equal(t, verdictLimited, v)
	fillers := len(p.Messages())

	r := startRelay(t, opts, nil)
	for i := range 30 {
		require.Equal(t, http.StatusAccepted, r.tell(numbered(i)))
	}
	eventually(t, "the robot refuses", func() bool {
		return strings.Contains(r.metric("pharos_notify_send_attempts_total"), `{robot="ops",verdict="limited"} 3`)
	})
	require.Len(t, p.Messages(), fillers)
	require.Equal(t, 30, r.pending())

	p.moved.Store(int64(10 * time.Minute))
	eventually(t, "all is told", func() bool { return r.pending() == 0 })
	require.Equal(t, 30, strings.Count(p.texts(), "### FIRING"))
	require.Len(t, p.Messages(), fillers+2, "one that had begun, and a digest of the rest")
	require.Contains(t, r.metric("pharos_notify_digests_total"), " 1")
}

func TestRestartResumes(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	blocked := func(w *worker) { w.limiter = rate.NewLimiter(rate.Every(time.Hour), 1); w.limiter.Allow() }
	r := startRelay(t, opts, blocked)
	for i := range 3 {
		require.Equal(t, http.StatusAccepted, r.tell(numbered(i)))
	}
	require.Contains(t, r.metric("pharos_notify_queue_length"), " 3")
	r.stop()
	require.Empty(t, p.Messages())

	r = startRelay(t, opts, nil)
	eventually(t, "told after the restart", func() bool { return r.pending() == 0 })
	require.Equal(t, 3, strings.Count(p.texts(), "### FIRING"))
	require.Equal(t, http.StatusOK, r.tell(numbered(0)), "and still known")
}

func TestShutdownLetsTheMessageInFlightEnd(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	var sends atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if sends.Add(1) == 1 {
			close(arrived)
			<-release
		}
		_, _ = w.Write([]byte(`{"errcode":0}`))
	})
	opts := optionsFor(t, base)
	r := startRelay(t, opts, nil)
	require.Equal(t, http.StatusAccepted, r.tell(numbered(1)))
	<-arrived
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	r.stop()

	r = startRelay(t, opts, nil)
	require.Equal(t, http.StatusAccepted, r.tell(numbered(2)))
	eventually(t, "the second is sent", func() bool { return r.pending() == 0 })
	require.EqualValues(t, 2, sends.Load(), "the first was not sent again")
}

func TestBusyAndBrokenProvidersAreAskedAgain(t *testing.T) {
	answers := []string{"503 ", `200 {"errcode":-1,"errmsg":"busy"}`, "200 <html>", `200 {"errcode":0}`}
	var asked atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		status, body := 0, ""
		_, _ = fmt.Sscanf(answers[asked.Add(1)-1], "%d %s", &status, &body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	r := startRelay(t, optionsFor(t, base), nil)
	require.Equal(t, http.StatusAccepted, r.tell(numbered(1)))
	eventually(t, "sent", func() bool { return r.pending() == 0 })
	require.EqualValues(t, len(answers), asked.Load())
}

func TestATokenThatIsMissingIsWaitedFor(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	token := opts.Config.Robots[0].AccessTokenFile
	require.NoError(t, os.Remove(token))
	var logged testkit.Said
	opts.Log = slog.New(slog.NewTextHandler(&logged, nil))
	r := startRelay(t, opts, nil)
	require.Equal(t, http.StatusAccepted, r.tell(numbered(1)))
	eventually(t, "tried", func() bool { return strings.Contains(logged.String(), "message not sent yet") })
	require.NoError(t, os.WriteFile(token, []byte(testToken), 0o600))
	eventually(t, "told", func() bool { return len(p.Messages()) == 1 })
}

func TestRefusedForGoodIsKeptForAPerson(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	opts.Config.Robots[0].AccessTokenFile = opts.Config.Robots[0].SecretFile // a wrong token
	var logged testkit.Said
	opts.Log = slog.New(slog.NewTextHandler(&logged, nil))
	r := startRelay(t, opts, nil)
	require.Equal(t, http.StatusAccepted, r.tell(numbered(1)))
	eventually(t, "put aside", func() bool { return strings.HasSuffix(r.metric("pharos_notify_dead_letters"), " 1") })
	require.Zero(t, r.pending())
	require.Equal(t, 1, filesIn(t, r.workers["ops"].spool, deadDir))
	require.Contains(t, logged.String(), "check accessTokenFile")
	require.NotContains(t, logged.String(), testSecret)
}

func TestAnswersWeDoNotKnowDoNotBlockTheQueue(t *testing.T) {
	var asked atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"errcode":424242,"errmsg":"?"}`))
	})
	r := startRelay(t, optionsFor(t, base), nil)
	require.Equal(t, http.StatusAccepted, r.tell(numbered(1)))
	eventually(t, "put aside", func() bool { return r.pending() == 0 })
	require.EqualValues(t, maxUnknown, asked.Load())
}

func TestWhatIsTooLargeIsCutSmaller(t *testing.T) {
	const providersLimit = 6_000
	var bodies testkit.Said
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body) > providersLimit {
			_, _ = w.Write([]byte(`{"errcode":460101,"errmsg":"too large"}`))
			return
		}
		_, _ = bodies.Write(body)
		_, _ = w.Write([]byte(`{"errcode":0}`))
	})
	n := notificationOf("g", statusFiring)
	for i := range 60 {
		n.Alerts = append(n.Alerts, alertOf("Down", fmt.Sprintf("node-%02d", i), statusFiring))
	}
	r := startRelay(t, optionsFor(t, base), nil)
	require.Equal(t, http.StatusAccepted, r.tell(n))
	eventually(t, "sent", func() bool { return r.pending() == 0 })
	require.Equal(t, 60, strings.Count(bodies.String(), "### FIRING"))
	require.Zero(t, filesIn(t, r.workers["ops"].spool, deadDir))
}

func TestPaceStaysInsideTheRate(t *testing.T) {
	now := time.Now()
	l := newLimiter(now)
	require.False(t, l.AllowN(now, 1), "a restart does not start with a burst")
	now = now.Add(5 * time.Minute) // idle, so that the bucket is full
	sent := 0
	for range 600 { // and then a flood, for a minute
		if l.AllowN(now, 1) {
			sent++
		}
		now = now.Add(100 * time.Millisecond)
	}
	require.LessOrEqual(t, sent, 18)
	require.Greater(t, sent, 14)
}

func TestNewRefuses(t *testing.T) {
	good := optionsFor(t, "http://"+loopback+":1")
	good.Listen = loopback + ":0"
	for name, c := range map[string]struct {
		change  func(*Options)
		message string
	}{
		"listen":   {func(o *Options) { o.Listen = "" }, "listen address"},
		"spool":    {func(o *Options) { o.SpoolDir = "" }, "spool folder"},
		"robots":   {func(o *Options) { o.Config = Config{} }, "no robot"},
		"duration": {func(o *Options) { o.DedupWindow = -1 }, "negative"},
		"port":     {func(o *Options) { o.Listen = "203.0.113.1:1" }, "listening on 203.0.113.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := good
			c.change(&opts)
			_, err := New(opts)
			require.ErrorContains(t, err, c.message)
		})
	}
}
