package notify

import (
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
)

// logging has the relay's lines of level Info and above in the buffer.
func logging(opts *Options) *testkit.Said {
	var logged testkit.Said
	opts.Log = slog.New(slog.NewTextHandler(&logged, nil))
	return &logged
}

// lineWith waits for the one line that has the text.
func lineWith(t *testing.T, logged *testkit.Said, text string) string {
	t.Helper()
	var found string
	eventually(t, "logged: "+text, func() bool {
		for line := range strings.Lines(logged.String()) {
			if strings.Contains(line, text) {
				found = line
			}
		}
		return found != ""
	})
	require.NotContains(t, logged.String(), testToken)
	require.NotContains(t, logged.String(), testSecret)
	return found
}

func TestLogSaysWhatIsRelayedAndWhatWasDelivered(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	logged := logging(&opts)
	r := startRelay(t, opts, nil)
	line := lineWith(t, logged, "relaying notifications")
	require.Contains(t, line, "address="+strings.TrimPrefix(r.url, "http://"))
	require.Contains(t, line, "spool="+opts.SpoolDir)
	require.Contains(t, line, "robots=[ops]")

	require.Equal(t, http.StatusAccepted, r.tell(at(0, firing("n1"), ended("n2"))))
	line = lineWith(t, logged, "notification delivered")
	require.Contains(t, line, "level=INFO")
	require.Contains(t, line, "robot=ops status=firing alerts=2 notifications=1 messages=1\n")
}

func TestLogSaysWhatIsDeferredByTheRobotsLimit(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	opts.RateLimitPause = 20 * time.Millisecond
	s := sender{robot: opts.Config.Robots[0], client: newHTTPClient(), now: time.Now}
	for v := verdictSent; v == verdictSent; {
		v, _ = s.send(t.Context(), newMessage("filler", "filler"))
	}
	logged := logging(&opts)
	r := startRelay(t, opts, nil)
	require.Equal(t, http.StatusAccepted, r.tell(at(0, ended("n1"))))
	line := lineWith(t, logged, "notification deferred")
	require.Contains(t, line, "level=INFO")
	require.Contains(t, line, "robot=ops status=resolved alerts=1 notifications=1 messages=1 ")
	require.Contains(t, line, "retryIn=20ms")
}

func TestLogSaysWhatWasPutAside(t *testing.T) {
	opts := optionsFor(t, newProvider(t).url)
	require.NoError(t, os.WriteFile(opts.Config.Robots[0].AccessTokenFile, []byte("wrong-t0ken"), 0o600))
	logged := logging(&opts)
	r := startRelay(t, opts, nil)
	require.Equal(t, http.StatusAccepted, r.tell(at(0, firing("n1"))))
	line := lineWith(t, logged, "notification refused for good")
	require.Contains(t, line, "robot=ops status=firing alerts=1 notifications=1 messages=1 ")
	require.NotContains(t, logged.String(), "wrong-t0ken")
}
