package notify

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/template"
	"github.com/stretchr/testify/require"
)

var started = time.Date(2026, 11, 30, 3, 4, 5, 0, time.UTC)

func alertOf(name, node, status string) template.Alert {
	return template.Alert{
		Status: status, Fingerprint: "fp-" + name + node, StartsAt: started,
		Labels: template.KV{"alertname": name, "severity": "critical", "cell": "asia-1", "cluster": "shop", "node": node},
		Annotations: template.KV{
			"summary":     "Node " + node + " is not ready.",
			"runbook_url": "https://runbooks.example/" + name,
		},
	}
}

func notificationOf(group, status string, alerts ...template.Alert) notification {
	return notification{ReceivedAt: started.Add(time.Minute), GroupKey: group, Status: status, Alerts: alerts}
}

// webhookBody is what Alertmanager would post for n.
func webhookBody(t testing.TB, n notification) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"version": "4", "groupKey": n.GroupKey, "status": n.Status, "truncatedAlerts": n.Truncated,
		"receiver": "dingtalk", "alerts": n.Alerts, "externalURL": n.ExternalURL,
	})
	require.NoError(t, err)
	return body
}

func TestParseWebhook(t *testing.T) {
	want := notificationOf("{}:{cluster=\"shop\"}", statusFiring, alertOf("Down", "n1", statusFiring))
	want.Truncated, want.ExternalURL = 3, alertmanagerURL
	got, err := parseWebhook(webhookBody(t, want), want.ReceivedAt)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestParseWebhookRefuses(t *testing.T) {
	for name, c := range map[string]struct{ body, message string }{
		"not JSON":     {`{"version":`, "reading the webhook payload"},
		"empty":        {`{}`, `version ""`},
		"null":         {`null`, `version ""`},
		"version":      {`{"version":"3","status":"firing"}`, `version "3"`},
		"no group":     {`{"version":"4","status":"firing","alerts":[{}]}`, "no groupKey"},
		"no alerts":    {`{"version":"4","status":"firing","groupKey":"g"}`, "no alerts"},
		"status":       {`{"version":"4","status":"odd","groupKey":"g","alerts":[{}]}`, `status "odd"`},
		"alert status": {`{"version":"4","status":"firing","groupKey":"g","alerts":[{"fingerprint":"f"}]}`, "alert 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseWebhook([]byte(c.body), started)
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestIdentity(t *testing.T) {
	a, b := alertOf("Down", "n1", statusFiring), alertOf("Down", "n2", statusFiring)
	base := notificationOf("g", statusFiring, a, b)

	same := notificationOf("g", statusFiring, b, a)
	same.ReceivedAt, same.ExternalURL = base.ReceivedAt.Add(time.Minute), "http://a-peer.example"
	require.Equal(t, base.identity(), same.identity(), "the order of alerts, the time of receipt and the sender say nothing")

	resolved := a
	resolved.Status = statusResolved
	again := a
	again.StartsAt = a.StartsAt.Add(time.Hour)
	for name, other := range map[string]notification{
		"another group":            notificationOf("h", statusFiring, a, b),
		"another status":           notificationOf("g", statusResolved, a, b),
		"fewer alerts":             notificationOf("g", statusFiring, a),
		"one of them has resolved": notificationOf("g", statusFiring, resolved, b),
		"one of them came back":    notificationOf("g", statusFiring, again, b),
	} {
		require.NotEqual(t, base.identity(), other.identity(), name)
	}
}

// FuzzWebhook asserts that whatever is accepted can be spooled, read back and told.
func FuzzWebhook(f *testing.F) {
	f.Add(webhookBody(f, notificationOf("g", statusFiring, alertOf("Down", "n1", statusFiring))))
	f.Add([]byte(`{"version":"4","status":"resolved","groupKey":"g","alerts":[{"status":"resolved","fingerprint":"f","labels":null}]}`))
	f.Add([]byte(`{"version":"4","alerts":[{"startsAt":"0001-01-01T00:00:00Z"}]}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := parseWebhook(body, started)
		if err != nil {
			return
		}
		data, err := json.Marshal(n)
		require.NoError(t, err)
		var back notification
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, n.identity(), back.identity())
		messages, _ := render([]notification{n}, minLimit)
		for _, m := range messages {
			require.NotEmpty(t, m.Markdown.Title)
			require.NotEmpty(t, m.Markdown.Text)
			require.LessOrEqual(t, jsonLen(m), minLimit)
		}
	})
}
