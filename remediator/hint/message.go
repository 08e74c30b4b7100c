package hint

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/common/model"
)

const (
	// maxLabels and maxValueBytes are far beyond what alerts about a fleet bear.
	maxLabels     = 64
	maxValueBytes = 1024
	// maxSaid bounds what an error repeats of a call.
	maxSaid = 200
)

// parse reads what Alertmanager's web hook sends, version 4. All that becomes of it is
// a number and some names; whatever else it says is looked at only to refuse what no
// Alertmanager of ours would send.
func parse(body []byte) (Hint, error) {
	if !utf8.Valid(body) {
		return Hint{}, errors.New("the call is no UTF-8")
	}
	var m webhook.Message
	if err := json.Unmarshal(body, &m); err != nil {
		return Hint{}, fmt.Errorf("reading the call: %.*s", maxSaid, err.Error())
	}
	if m.Data == nil || m.Version != "4" {
		return Hint{}, fmt.Errorf("the call has version %.*q, want 4", maxSaid, m.Version)
	}
	if len(m.Alerts) == 0 {
		return Hint{}, errors.New("the call tells of no alert")
	}
	names := make([]string, 0, len(m.Alerts))
	for i := range m.Alerts {
		if why := wrong(&m.Alerts[i]); why != "" {
			return Hint{}, fmt.Errorf("alert %d of the call %s", i, why)
		}
		names = append(names, m.Alerts[i].Labels[model.AlertNameLabel])
	}
	return Hint{Source: sourceWebhook, Alerts: len(names), Names: some(names)}, nil
}

// wrong says why an alert is none that an Alertmanager of ours would send.
func wrong(a *template.Alert) string {
	switch {
	case a.Status != string(model.AlertFiring) && a.Status != string(model.AlertResolved):
		return fmt.Sprintf("has status %.*q, want firing or resolved", maxSaid, a.Status)
	case a.Labels[model.AlertNameLabel] == "":
		return "has no label alertname"
	case len(a.Labels) > maxLabels:
		return fmt.Sprintf("has %d labels, at most %d are taken", len(a.Labels), maxLabels)
	}
	for name, value := range a.Labels {
		if name == "" || len(name) > maxValueBytes || len(value) > maxValueBytes || hostile(name) || hostile(value) {
			return fmt.Sprintf("has a label that is longer than %d bytes, or has characters that cannot be shown: %.*q", maxValueBytes, maxSaid, name)
		}
	}
	return ""
}

// hostile finds what would change how a line of a log looks.
func hostile(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) })
}
