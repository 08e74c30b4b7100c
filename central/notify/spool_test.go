package notify

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const window = 10 * time.Minute

func openTestSpool(t *testing.T, dir string) *spool {
	t.Helper()
	s, err := openSpool(dir, window, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return s
}

func add(t *testing.T, s *spool, n notification) bool {
	t.Helper()
	added, err := s.add(n)
	require.NoError(t, err)
	return added
}

func groupsOf(entries []entry) []string {
	var groups []string
	for _, e := range entries {
		groups = append(groups, e.GroupKey)
	}
	return groups
}

func filesIn(t *testing.T, s *spool, sub string) int {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(s.dir, sub))
	require.NoError(t, err)
	return len(files)
}

func numbered(i int) notification {
	return notificationOf(fmt.Sprintf("g%02d", i), statusFiring, alertOf("Down", fmt.Sprintf("n%02d", i), statusFiring))
}

func TestSpoolKeepsOrderAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	for i := range 12 {
		require.True(t, add(t, s, numbered(i)))
	}
	require.NoError(t, s.finish(2, sentDir))
	require.NoError(t, s.finish(1, deadDir))

	s = openTestSpool(t, dir)
	require.True(t, add(t, s, numbered(12)))
	require.Equal(t, []string{"g03", "g04", "g05", "g06", "g07", "g08", "g09", "g10", "g11", "g12"}, groupsOf(s.head(100)))
	require.Equal(t, []string{"g03"}, groupsOf(s.head(1)))
	require.Equal(t, state{pending: 10, oldest: numbered(3).ReceivedAt, dead: 1}, s.state())
}

func TestSpoolTellsTheSameOnceWithinTheWindow(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	n := numbered(1)
	require.True(t, add(t, s, n))
	require.False(t, add(t, s, n), "while it waits")
	require.NoError(t, s.finish(1, sentDir))
	require.False(t, add(t, s, n), "once it is sent")

	s = openTestSpool(t, dir)
	n.ReceivedAt = n.ReceivedAt.Add(window - time.Second)
	require.False(t, add(t, s, n), "after a restart")
	n.ReceivedAt = n.ReceivedAt.Add(time.Second)
	require.True(t, add(t, s, n), "a reminder, after the window")
	require.Zero(t, filesIn(t, s, sentDir), "what is past the window is removed")
}

func TestSpoolRemembersWhatWaitsHoweverLong(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	n := numbered(1)
	require.True(t, add(t, s, n))
	n.ReceivedAt = n.ReceivedAt.Add(24 * time.Hour)
	require.False(t, add(t, s, n), "what has not been told yet needs no second telling")
}

func TestSpoolThatCannotWriteAcceptsNothing(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	temp := filepath.Join(s.dir, tempDir)
	require.NoError(t, os.Remove(temp))
	_, err := s.add(numbered(1))
	require.ErrorContains(t, err, "writing to the spool")
	require.Empty(t, s.head(1))

	require.NoError(t, os.Mkdir(temp, 0o700))
	require.True(t, add(t, s, numbered(1)), "the same is taken once there is room again")
	require.Equal(t, 1, filesIn(t, s, queueDir))
}

func TestSpoolThatIsFullAcceptsNothing(t *testing.T) {
	s := openTestSpool(t, t.TempDir())
	s.pending = make([]entry, maxPending)
	_, err := s.add(numbered(1))
	require.ErrorIs(t, err, errQueueFull)
}

func TestSpoolPutsBrokenFilesAside(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	require.True(t, add(t, s, numbered(1)))
	require.True(t, add(t, s, numbered(2)))
	for name, content := range map[string]string{
		filepath.Join(queueDir, "00000000000000000007-aa.json"): `{"groupKey":`,
		filepath.Join(queueDir, "00000000000000000008-bb.json"): `{"groupKey":"g","status":"firing"}`,
		filepath.Join(queueDir, "README"):                       "not ours",
		filepath.Join(tempDir, "00000000000000000009-cc.json"):  "never answered for",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	s = openTestSpool(t, dir)
	require.Equal(t, []string{"g01", "g02"}, groupsOf(s.head(10)))
	require.Equal(t, 2, filesIn(t, s, deadDir))
	require.Zero(t, filesIn(t, s, tempDir))
	require.True(t, add(t, s, numbered(3)))
	require.Contains(t, s.head(3)[2].name, "00000000000000000009-", "numbers go on above every file")
}

// What is written of a robot that refuses is believed, whatever the code, and no
// notification is held up when it cannot be written.
func TestSpoolKeepsThatARobotRefuses(t *testing.T) {
	dir := t.TempDir()
	s := openTestSpool(t, dir)
	s.refuses("310000")
	require.Equal(t, "310000", openTestSpool(t, dir).state().refusing)
	require.NoError(t, os.WriteFile(filepath.Join(dir, refusingFile), []byte("half"), 0o600))
	require.Equal(t, otherCode, openTestSpool(t, dir).state().refusing)

	s.refuses("")
	require.Empty(t, openTestSpool(t, dir).state().refusing)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, tempDir)))
	s.refuses("300001")
	require.Equal(t, "300001", s.state().refusing)
}
