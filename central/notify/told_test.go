package notify

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/template"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
)

// firing and ended are two words on the same firing of one alert.
func firing(node string) template.Alert { return alertOf("Down", node, statusFiring) }

func ended(node string) template.Alert {
	a := alertOf("Down", node, statusResolved)
	a.EndsAt = started.Add(20 * time.Second)
	return a
}

// at is a call of one group, so long after the first.
func at(after time.Duration, alerts ...template.Alert) notification {
	status := statusResolved
	for _, a := range alerts {
		if a.Status == statusFiring {
			status = statusFiring
		}
	}
	n := notificationOf("g", status, alerts...)
	n.ReceivedAt = n.ReceivedAt.Add(after)
	return n
}

// waiting says, oldest first, what the queue would tell.
func waiting(s *spool) []string {
	var words []string
	for _, e := range s.head(maxPending) {
		for _, a := range e.Alerts {
			words = append(words, a.Status+" "+a.Labels["node"])
		}
	}
	return words
}

// deliverAll plays a worker whose robot takes everything.
func deliverAll(t *testing.T, s *spool) []string {
	t.Helper()
	words := waiting(s)
	require.NoError(t, s.finish(len(s.head(maxPending)), sentDir))
	return words
}

func TestAnEndIsToldOnceHoweverOftenItComes(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	require.True(t, add(t, s, at(0, ended("n1"))))
	require.Equal(t, []string{"resolved n1"}, deliverAll(t, s))

	later := ended("n1")
	later.EndsAt = later.EndsAt.Add(7 * time.Second) // as the other central has it
	require.True(t, add(t, s, at(5*time.Minute, firing("n2"), later)))
	require.Equal(t, []string{"firing n2"}, deliverAll(t, s), "glued to what else its group has to say")
	require.False(t, add(t, s, at(5*time.Minute, later, firing("n2"))), "as a peer says it, too")

	for minutes := 12; minutes < 24*60; minutes += 12 {
		s = openTestSpool(t, dir)
		require.False(t, add(t, s, at(time.Duration(minutes)*time.Minute, later)), "after %d minutes and a restart", minutes)
	}
	require.Zero(t, filesIn(t, s, sentDir))
}

func TestAnEndThatWaitsIsNotQueuedAgain(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	require.True(t, add(t, s, at(0, firing("n1"))))
	require.True(t, add(t, s, at(time.Minute, ended("n1"))))
	s = openTestSpool(t, dir)
	require.True(t, add(t, s, at(2*time.Minute, ended("n1"), firing("n2"))))
	require.Equal(t, []string{"firing n1", "resolved n1", "firing n2"}, waiting(s))
}

func TestTheSameWithoutToldEndsIsNotToldAgain(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	require.True(t, add(t, s, at(0, ended("n1"))))
	require.True(t, add(t, s, at(time.Minute, firing("n2"))))
	require.False(t, add(t, s, at(2*time.Minute, firing("n2"), ended("n1"))))
}

// An end is news again once the alert was told as firing after it, also where
// Alertmanager gives that firing the start of the one before.
func TestTheEndOfAnAlertThatCameBackIsTold(t *testing.T) {
	again, endedAgain := firing("n1"), ended("n1")
	again.StartsAt, endedAgain.StartsAt = started.Add(time.Hour), started.Add(time.Hour)
	for name, c := range map[string]struct{ firing, ended template.Alert }{
		"with a new start":      {again, endedAgain},
		"with the start it had": {firing("n1"), ended("n1")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, a := range []template.Alert{firing("n1"), ended("n1"), c.firing, c.ended} {
				s := openTestSpool(t, dir)
				require.True(t, add(t, s, at(time.Duration(i)*20*time.Minute, a)))
				s = openTestSpool(t, dir)
				require.Equal(t, []string{a.Status + " n1"}, deliverAll(t, s))
			}
			s := openTestSpool(t, dir)
			require.False(t, add(t, s, at(80*time.Minute, c.ended)))
		})
	}
}

func TestAnEndThatWasRefusedIsToldWhenItComesAgain(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	require.True(t, add(t, s, at(0, ended("n1"))))
	require.NoError(t, s.finish(1, deadDir))
	require.True(t, add(t, s, at(11*time.Minute, ended("n1"))))

	require.NoError(t, s.finish(1, deadDir))
	s = openTestSpool(t, dir)
	require.True(t, add(t, s, at(22*time.Minute, ended("n1"))), "after a restart, too")
}

func TestAnEndThatCouldNotBeQueuedIsToldWhenItComesAgain(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	temp := filepath.Join(s.dir, tempDir)
	require.NoError(t, os.Remove(temp))
	_, err := s.add(at(0, ended("n1")))
	require.Error(t, err)
	require.NoError(t, os.Mkdir(temp, 0o700))
	require.True(t, add(t, s, at(0, ended("n1"))))
}

func TestWhatAlertmanagerLeftOutMayBeNews(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	require.True(t, add(t, s, at(0, ended("n1"))))
	n := at(time.Minute, ended("n1"))
	n.Truncated = 3
	require.True(t, add(t, s, n))
}

func TestMemoryOfEndsIsBounded(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	n := at(0)
	for i := range maxTold + 5 {
		n.Alerts = append(n.Alerts, ended(fmt.Sprint(i)))
	}
	n.Status = statusResolved
	require.True(t, add(t, s, at(-time.Minute, ended("oldest"))))
	require.True(t, add(t, s, n))
	deliverAll(t, s)
	require.True(t, add(t, s, at(20*time.Minute, ended("oldest"))), "told twice, not lost")
	require.LessOrEqual(t, len(s.ends.told), maxTold)

	deliverAll(t, s)
	require.True(t, add(t, s, at(20*time.Minute+toldFor, ended("oldest"))))
	require.Empty(t, s.ends.told)
}

func TestSentFilesStayUntilTheirEndsAreWritten(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	require.True(t, add(t, s, at(0, ended("n1"))))
	deliverAll(t, s)
	obstacle := filepath.Join(dir, toldFile, "obstacle")
	require.NoError(t, os.MkdirAll(obstacle, 0o700))
	require.True(t, add(t, s, at(20*time.Minute, firing("n2"))), "which holds up no alert")
	require.Equal(t, 1, filesIn(t, s, sentDir))

	require.NoError(t, os.RemoveAll(filepath.Join(dir, toldFile)))
	require.False(t, add(t, s, at(21*time.Minute, ended("n1"))))
	require.Zero(t, filesIn(t, s, sentDir))
	s = openTestSpool(t, dir)
	require.False(t, add(t, s, at(40*time.Minute, ended("n1"))))
}

func TestMemoryOfEndsThatIsBrokenHoldsUpNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, toldFile), []byte(`{"a":`), 0o600))
	var logged testkit.Said
	s, err := openSpool(dir, window, slog.New(slog.NewTextHandler(&logged, nil)))
	require.NoError(t, err)
	require.True(t, add(t, s, at(0, ended("n1"))))
	require.Contains(t, logged.String(), "some may be told twice")
}

func TestRelayTellsAnEndOnce(t *testing.T) {
	p := newProvider(t)
	opts := optionsFor(t, p.url)
	opts.DedupWindow = time.Millisecond
	r := startRelay(t, opts, nil)
	require.Equal(t, http.StatusAccepted, r.tell(at(0, firing("n1"))))
	eventually(t, "told", func() bool { return len(p.Messages()) == 1 })
	require.Equal(t, http.StatusAccepted, r.tell(at(0, ended("n1"))))
	eventually(t, "the end is told", func() bool { return r.pending() == 0 && len(p.Messages()) == 2 })
	for range 3 {
		time.Sleep(2 * time.Millisecond) // past the window
		require.Equal(t, http.StatusOK, r.tell(at(0, ended("n1"))))
	}
	require.Equal(t, http.StatusAccepted, r.tell(at(0, ended("n1"), firing("n2"))))
	eventually(t, "what else there is, is told", func() bool { return r.pending() == 0 && len(p.Messages()) == 3 })
	require.NotContains(t, p.Messages()[2].Text, "RESOLVED")
	require.Equal(t, 1, strings.Count(p.texts(), "### RESOLVED"))
}
