package notify

import (
	"strings"
	"testing"

	"github.com/prometheus/alertmanager/template"
	"github.com/stretchr/testify/require"
)

func titleFor(t *testing.T, batch ...notification) string {
	t.Helper()
	messages, _ := render(batch, bodyLimit)
	return messages[0].Markdown.Title
}

func TestTitleSaysWhatIsBrokenAndWhere(t *testing.T) {
	for name, c := range map[string]struct {
		labels template.KV
		want   string
	}{
		"node":        {template.KV{"severity": "warning", "geography": "asia", "cell": "asia-1", "cluster": "shop", "node": "n1", "rack": "rack-3"}, "[FIRING] warning: node n1 of shop in asia-1 — Down"},
		"rack":        {template.KV{"severity": "critical", "cell": "europe-1", "cluster": "bank", "zone": "zone-a", "rack": "rack-3"}, "[FIRING] critical: rack rack-3 of bank in europe-1 — Down"},
		"meta node":   {template.KV{"severity": "critical", "cell": "europe-1", "node": "n1"}, "[FIRING] critical: node n1 in europe-1 — Down"},
		"cluster":     {template.KV{"severity": "critical", "cell": "europe-1", "cluster": "bank"}, "[FIRING] critical: cluster bank in europe-1 — Down"},
		"cell":        {template.KV{"severity": "critical", "geography": "europe", "cell": "europe-1"}, "[FIRING] critical: cell europe-1 — Down"},
		"central":     {template.KV{"severity": "critical", "central": "a"}, "[FIRING] critical: central a — Down"},
		"nowhere":     {template.KV{"severity": "warning"}, "[FIRING] warning: Down"},
		"no severity": {template.KV{"cell": "asia-1"}, "[FIRING] no severity: cell asia-1 — Down"},
		"two lines":   {template.KV{"severity": "warning", "cell": "a\nb"}, "[FIRING] warning: cell a b — Down"},
	} {
		t.Run(name, func(t *testing.T) {
			a := alertOf("Down", "", statusFiring)
			c.labels["alertname"] = "Down"
			a.Labels = c.labels
			require.Equal(t, c.want, titleFor(t, notificationOf("g", statusFiring, a)))
		})
	}
}

func TestTitleOfSeveralIsTheMostSevereAndTheNumberOfTheOthers(t *testing.T) {
	low := severe("warning", alertOf("Slow", "n1", statusFiring))
	high := severe("critical", alertOf("Down", "n2", statusFiring))
	ended := severe("critical", alertOf("Down", "n3", statusResolved))
	require.Equal(t, "[FIRING] critical: node n2 of shop in asia-1 — Down, and 1 more, 1 resolved",
		titleFor(t, notificationOf("a", statusFiring, ended, low), notificationOf("b", statusFiring, high)))
	require.Equal(t, "[FIRING] warning: node n1 of shop in asia-1 — Slow, and 1 resolved",
		titleFor(t, notificationOf("a", statusFiring, ended, low)), "what fires goes before what has ended, however severe")
	require.Equal(t, "[RESOLVED] critical: node n3 of shop in asia-1 — Down",
		titleFor(t, notificationOf("a", statusResolved, ended)))
}

func TestTitleIsBoundedAndKeepsTheNumber(t *testing.T) {
	a := alertOf(strings.Repeat("长", 300), strings.Repeat("n", 300), statusFiring)
	a.Labels["cell"], a.Labels["cluster"] = strings.Repeat("<", 300), strings.Repeat("s", 300)
	title := titleFor(t, notificationOf("g", statusFiring, a, alertOf("Down", "n2", statusFiring)))
	require.LessOrEqual(t, jsonLen(title), titleLimit)
	require.True(t, strings.HasPrefix(title, "[FIRING] critical: node nnn"), title)
	require.True(t, strings.HasSuffix(title, ", and 1 more"), title)
}
