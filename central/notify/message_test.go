package notify

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/alertmanager/template"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRenderForAPersonAtThree(t *testing.T) {
	firing := alertOf("PharosNodeNotReady", "shop-node-03", statusFiring)
	firing.Labels["rack"], firing.Labels["job"] = "rack-1", "kubelet"
	firing.Annotations["description"] = "It is not repaired."
	firing.StartsAt = started.In(time.FixedZone("CST", 8*3600))
	resolved := alertOf("PharosNodeNotReady", "shop-node-04", statusResolved)
	resolved.Annotations["description"] = "It is not repaired, either."
	resolved.EndsAt = started.Add(90 * time.Second)
	n := notificationOf("g", statusFiring, resolved, firing)
	n.Truncated = 2

	got, leftOut := render([]notification{n}, bodyLimit)
	require.Zero(t, leftOut)
	want := []message{newMessage("[FIRING] critical: node shop-node-03 of shop in asia-1 — PharosNodeNotReady, and 2 more, 1 resolved", strings.Join([]string{
		"### FIRING · critical · PharosNodeNotReady",
		"**where** cell asia-1 · cluster shop · rack rack-1 · node shop-node-03 · job kubelet",
		"**firing since** 2026-11-30 03:04:05 UTC",
		"Node shop-node-03 is not ready.",
		"It is not repaired.",
		"[runbook](https://runbooks.example/PharosNodeNotReady)",
		"---",
		"### RESOLVED · critical · PharosNodeNotReady",
		"**where** cell asia-1 · cluster shop · node shop-node-04",
		"**was firing for** 1 min 30 s, from 2026-11-30 03:04:05 UTC until 03:05:35 UTC",
		"**alert was** Node shop-node-04 is not ready.",
		"---",
		"**… and 2 more**; see Alertmanager",
	}, "\n\n"))}
	require.Empty(t, cmp.Diff(want, got))
}

func TestDigestTellsOfEveryAlertInOrder(t *testing.T) {
	var batch []notification
	for i := range digestMax {
		node := fmt.Sprintf("node-%03d", i)
		batch = append(batch, notificationOf("g"+node, statusFiring, alertOf(fmt.Sprintf("A%d", i%2), node, statusFiring)))
	}
	messages, leftOut := render(batch, bodyLimit)
	require.Zero(t, leftOut)
	require.Greater(t, len(messages), 1)
	require.Equal(t, fmt.Sprintf("[FIRING] critical: node node-000 of shop in asia-1 — A0, and 99 more (1/%d)", len(messages)), messages[0].Markdown.Title)

	all := ""
	for _, m := range messages {
		require.LessOrEqual(t, jsonLen(m), bodyLimit)
		all += m.Markdown.Text
	}
	last := -1
	for i := range digestMax {
		at := strings.Index(all, fmt.Sprintf("node node-%03d\n", i))
		require.Greater(t, at, last, "node %d is told, after the one before", i)
		last = at
	}
	require.Equal(t, digestMax, strings.Count(all, "### FIRING"))
}

// What waits is told as it is by then: an alert that has ended meanwhile is not
// told as firing, and the end of an earlier firing is not lost.
func TestADigestTellsOfEachFiringTheLastWord(t *testing.T) {
	began, ended := alertOf("Down", "n1", statusFiring), alertOf("Down", "n1", statusResolved)
	ended.EndsAt = started.Add(time.Minute)
	again := began
	again.StartsAt = started.Add(time.Hour)
	of := func(a template.Alert) notification { return notificationOf("g", a.Status, a) }

	text, _ := told(t, []notification{of(began), of(ended)}, bodyLimit)
	require.NotContains(t, text, "FIRING")
	text, _ = told(t, []notification{of(ended), of(again)}, bodyLimit)
	require.Less(t, strings.Index(text, "### FIRING"), strings.Index(text, "### RESOLVED"))
	require.Contains(t, text, "**firing since** 2026-11-30 04:04:05 UTC")
	require.Contains(t, text, "until 03:05:05 UTC")
}

func TestTheEndOfAnAlertSaysHowLongItFired(t *testing.T) {
	for name, c := range map[string]struct {
		until time.Time
		want  string
	}{
		"seconds":      {started.Add(20 * time.Second), "**was firing for** 20 s, from 2026-11-30 03:04:05 UTC until 03:04:25 UTC"},
		"minutes":      {started.Add(2 * time.Minute), "**was firing for** 2 min, from 2026-11-30 03:04:05 UTC until 03:06:05 UTC"},
		"hours":        {started.Add(3*time.Hour + 5*time.Minute + time.Second), "**was firing for** 3 h 5 min, from 2026-11-30 03:04:05 UTC until 06:09:06 UTC"},
		"days":         {started.Add(49 * time.Hour), "**was firing for** 2 d 1 h, from 2026-11-30 03:04:05 UTC until 2026-12-02 04:04:05 UTC"},
		"no end":       {time.Time{}, "**was firing** from 2026-11-30 03:04:05 UTC"},
		"clocks apart": {started.Add(-time.Second), "**was firing** from 2026-11-30 03:04:05 UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			a := alertOf("Down", "n1", statusResolved)
			a.EndsAt = c.until
			text, _ := told(t, []notification{notificationOf("g", statusResolved, a)}, bodyLimit)
			require.Contains(t, text, c.want+"\n")
		})
	}
}

func TestRenderKeepsInsideTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		var alerts template.Alerts
		for i := range rapid.IntRange(1, 12).Draw(t, "alerts") {
			a := alertOf(text.Draw(t, "name"), fmt.Sprintf("node-%d", i), statusFiring)
			a.Annotations["summary"] = strings.Repeat(text.Draw(t, "summary"), rapid.IntRange(0, 400).Draw(t, "times"))
			alerts = append(alerts, a)
		}
		limit := rapid.IntRange(minLimit, bodyLimit).Draw(t, "limit")
		headings := 0
		messages, leftOut := render([]notification{notificationOf("g", statusFiring, alerts...)}, limit)
		if len(messages) > maxMessages {
			t.Fatalf("%d messages at once", len(messages))
		}
		for _, m := range messages {
			if n := jsonLen(m); n > limit {
				t.Fatalf("a message has %d bytes, more than %d", n, limit)
			}
			if !utf8.ValidString(m.Markdown.Text) {
				t.Fatal("a message was cut inside a rune")
			}
			headings += strings.Count(m.Markdown.Text, "### FIRING")
		}
		if headings+leftOut != len(alerts) {
			t.Fatalf("%d alerts are told and %d counted of %d", headings, leftOut, len(alerts))
		}
	})
}

func TestForeignTextIsHarmless(t *testing.T) {
	a := alertOf("x](http://evil)", "n1\n# big", statusFiring)
	a.Annotations["summary"] = "`code` **bold** <b>\u2028\x00\xff"
	a.Annotations["runbook_url"] = "javascript:alert(1)"
	text, _ := told(t, []notification{notificationOf("g", statusFiring, a)}, bodyLimit)
	require.Contains(t, text, `x\](http://evil)`)
	require.Contains(t, text, `node n1 \# big`)
	require.Contains(t, text, "\\`code\\` \\*\\*bold\\*\\* \\<b\\>   ")
	require.NotContains(t, text, "javascript")
}

func TestSafeLink(t *testing.T) {
	require.Equal(t, "https://a.example/b%28c%29?d=e%20f", safeLink("https://a.example/b(c)?d=e f"))
	for _, bad := range []string{"", "relative", "ftp://a.example", "https://", "https://a b.example", "javascript:x"} {
		require.Empty(t, safeLink(bad), bad)
	}
}

func BenchmarkRenderThousandAlerts(b *testing.B) {
	var batch []notification
	for i := range 1000 {
		batch = append(batch, notificationOf("g", statusFiring, alertOf("Down", fmt.Sprint(i), statusFiring)))
	}
	for b.Loop() {
		render(batch, bodyLimit)
	}
}
