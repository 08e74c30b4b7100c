package notify

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/alertmanager/template"
	"github.com/stretchr/testify/require"
)

const alertmanagerURL = "http://alertmanager.example:9093"

// flood is a notification of so many warnings of 1,500 bytes each.
func flood(group string, alerts int) notification {
	n := notificationOf(group, statusFiring)
	n.ExternalURL = alertmanagerURL
	for i := range alerts {
		n.Alerts = append(n.Alerts, severe("warning", alertOf("Full", fmt.Sprintf("%s-%04d", group, i), statusFiring)))
		n.Alerts[i].Annotations["summary"] = strings.Repeat("x", 1100)
	}
	return n
}

func severe(severity string, a template.Alert) template.Alert {
	a.Labels["severity"] = severity
	return a
}

// told are the texts of all messages, each of which must be within the limit.
func told(t *testing.T, batch []notification, limit int) (texts string, leftOut int) {
	t.Helper()
	messages, leftOut := render(batch, limit)
	require.LessOrEqual(t, len(messages), maxMessages)
	for _, m := range messages {
		require.LessOrEqual(t, jsonLen(m), limit)
		texts += m.Markdown.Text + separator
	}
	return texts, leftOut
}

var moreLine = regexp.MustCompile(`… and (\d+) more`)

func TestAFloodIsBoundedAndSaysWhatItLeavesOut(t *testing.T) {
	n := flood("g", 2000)
	n.Truncated = 7
	n.Alerts[1999] = severe("critical", alertOf("Down", "n1", statusFiring))
	n.Alerts[1000] = severe("page", alertOf("Odd", "n2", statusFiring))
	for _, limit := range []int{bodyLimit, minLimit} {
		texts, leftOut := told(t, []notification{n}, limit)
		require.True(t, strings.HasPrefix(texts, "### FIRING · critical · Down"), "the most severe is first")
		require.Less(t, strings.Index(texts, "page · Odd"), strings.Index(texts, "warning · Full"), "a severity that we do not know may be a high one")
		match := moreLine.FindStringSubmatch(texts)
		require.Len(t, match, 2)
		require.Equal(t, strconv.Itoa(leftOut), match[1])
		require.Equal(t, 2007, strings.Count(texts, "### FIRING")+leftOut, "each alert is told or counted")
		require.True(t, strings.HasSuffix(texts, "[Alertmanager]("+alertmanagerURL+")"+separator), "the end says where the rest is")
		require.NotContains(t, texts, "more of this group")
	}
	messages, _ := render([]notification{n}, bodyLimit)
	require.Len(t, messages, maxMessages, "what room there is, is used")
	require.Equal(t, "[FIRING] critical: node n1 of shop in asia-1 — Down, and 2006 more (1/5)", messages[0].Markdown.Title)
}

// Behind floods, what is severe comes first; and of an alert whose beginning and
// end both wait, the last word is told, wherever there is no room for both.
func TestInAFloodTheLastWordOfTheMostSevereComesFirst(t *testing.T) {
	began := notificationOf("a", statusFiring, severe("critical", alertOf("Down", "n1", statusFiring)))
	ended := notificationOf("a", statusResolved, severe("critical", alertOf("Down", "n1", statusResolved)))
	other := notificationOf("b", statusFiring, severe("critical", alertOf("Down", "n2", statusFiring)))
	texts, leftOut := told(t, []notification{flood("f", 100), began, flood("h", 100), ended, other}, bodyLimit)
	require.True(t, strings.HasPrefix(texts, "### FIRING · critical · Down"))
	require.Equal(t, 1, strings.Count(texts, "node n1\n"))
	require.Contains(t, texts, "### RESOLVED · critical · Down")
	require.Less(t, strings.LastIndex(texts, "### FIRING"), strings.Index(texts, "### RESOLVED"), "what fires is before what has ended")
	require.Equal(t, 202, strings.Count(texts, "### ")+leftOut)

	began, again := ended, began
	texts, _ = told(t, []notification{began, flood("f", 100), again}, bodyLimit)
	require.NotContains(t, texts, "RESOLVED", "it fires again")
}

func TestWithoutALinkTheEndStillSaysWhereToLook(t *testing.T) {
	n := flood("g", 200)
	n.ExternalURL = "javascript:alert(1)"
	texts, _ := told(t, []notification{n}, bodyLimit)
	require.Contains(t, texts, "see Alertmanager")
	require.NotContains(t, texts, "javascript")
}

func TestRelaySendsAFloodInFiveMessages(t *testing.T) {
	p := newProvider(t)
	r := startRelay(t, optionsFor(t, p.url), nil)
	require.Equal(t, http.StatusAccepted, r.tell(flood("g", 2000)))
	eventually(t, "told", func() bool { return r.pending() == 0 })
	require.Len(t, p.Messages(), maxMessages)
	require.Contains(t, p.texts(), "[Alertmanager]("+alertmanagerURL+")")
	leftOut := 2000 - strings.Count(p.texts(), "### FIRING")
	require.Contains(t, r.metric("pharos_notify_alerts_left_out_total"), fmt.Sprintf(`{robot="ops"} %d`, leftOut))
}
