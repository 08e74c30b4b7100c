package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/alertmanager/template"
)

// notification is what one webhook call asks to be told, in the form in which
// it is spooled.
type notification struct {
	ReceivedAt time.Time       `json:"receivedAt"`
	GroupKey   string          `json:"groupKey"`
	Status     string          `json:"status"`
	Truncated  uint64          `json:"truncated,omitempty"`
	Alerts     template.Alerts `json:"alerts"`
	// ExternalURL is where a person finds Alertmanager, as it says itself.
	ExternalURL string `json:"externalURL,omitempty"`
}

// Statuses of a notification and of an alert.
const (
	statusFiring   = "firing"
	statusResolved = "resolved"
)

// parseWebhook reads Alertmanager's webhook payload, version 4. Its errors are
// permanent: the same body will never be accepted.
func parseWebhook(body []byte, now time.Time) (notification, error) {
	var m webhook.Message
	if err := json.Unmarshal(body, &m); err != nil {
		return notification{}, fmt.Errorf("reading the webhook payload: %w", err)
	}
	if m.Data == nil || m.Version != "4" {
		return notification{}, fmt.Errorf("webhook payload has version %q, expected 4", m.Version)
	}
	n := notification{
		ReceivedAt: now, GroupKey: m.GroupKey, Status: m.Status,
		Truncated: m.TruncatedAlerts, Alerts: m.Alerts, ExternalURL: m.ExternalURL,
	}
	return n, n.validate()
}

func (n notification) validate() error {
	if n.GroupKey == "" {
		return errors.New("webhook payload has no groupKey")
	}
	if len(n.Alerts) == 0 {
		return errors.New("webhook payload has no alerts")
	}
	if !validStatus(n.Status) {
		return fmt.Errorf("webhook payload has status %q, expected firing or resolved", n.Status)
	}
	for i, a := range n.Alerts {
		if !validStatus(a.Status) || a.Fingerprint == "" {
			return fmt.Errorf("alert %d of the webhook payload has status %q and fingerprint %q", i, a.Status, a.Fingerprint)
		}
	}
	return nil
}

func validStatus(s string) bool { return s == statusFiring || s == statusResolved }

// identity is equal for two notifications that say the same: from two peers of
// one Alertmanager, or from one that asks again because our answer was lost.
// The status of each alert counts, because a group in which one of two alerts
// resolved is still firing, and the resolve must be told. Start times count,
// because an alert that comes back is news. Each peer has an address of its own.
func (n notification) identity() string {
	parts := make([]string, 0, len(n.Alerts))
	for _, a := range n.Alerts {
		parts = append(parts, fmt.Sprintf("%q %q %d", a.Fingerprint, a.Status, a.StartsAt.UnixMilli()))
	}
	slices.Sort(parts)
	parts = slices.Compact(parts)
	head := fmt.Sprintf("%q %q %d", n.GroupKey, n.Status, n.Truncated)
	sum := sha256.Sum256([]byte(head + "\n" + strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}

// episode names one firing of one alert. It is a hash, to be of one size.
func episode(a template.Alert) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d", a.Fingerprint, a.StartsAt.UnixMilli()))
	return hex.EncodeToString(sum[:16])
}
