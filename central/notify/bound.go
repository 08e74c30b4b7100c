package notify

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/prometheus/alertmanager/template"
)

// maxMessages bounds what is sent at once. At the robots' pace they take some
// twenty seconds: nobody reads more, and the next alert must not wait longer.
const maxMessages = 5

// severities are known by name, the highest first. One that we do not know, or
// none, may be a high one, and comes right after critical.
var severities = map[string]int{"critical": 0, "warning": 2, "info": 3, "none": 3}

func severityOf(a template.Alert) int {
	if rank, known := severities[a.Labels["severity"]]; known {
		return rank
	}
	return 1
}

// bounded packs as much as maxMessages hold, the most severe alerts first, and
// says at the end how many are left out and where to see them.
func bounded(batch []notification, room int) (texts []string, leftOut int) {
	alerts := mostSevereFirst(batch)
	missing := 0
	for _, n := range batch {
		missing += int(min(n.Truncated, 1<<31))
	}
	blocks := make([]string, len(alerts))
	for i, a := range alerts {
		blocks[i] = shorten(alertBlock(a), room)
	}
	first := func(n int) []string {
		shown := slices.Clone(blocks[:n])
		if len(alerts)-n+missing > 0 {
			shown = append(shown, rest(alerts[n:], missing, batch))
		}
		return pack(shown, room)
	}
	fit := sort.Search(len(blocks)+1, func(n int) bool { return len(first(n)) > maxMessages }) - 1
	return first(fit), len(blocks) - fit + missing
}

// mostSevereFirst keeps of each alert its last word, because the one before it
// would say what is no longer so. What fires comes before what has ended, and
// otherwise the given order stays.
func mostSevereFirst(batch []notification) []template.Alert {
	var all []template.Alert
	for _, n := range batch {
		all = append(all, n.Alerts...)
	}
	last := map[string]int{}
	for i, a := range all {
		last[a.Fingerprint] = i
	}
	alerts := make([]template.Alert, 0, len(last))
	for i, a := range all {
		if last[a.Fingerprint] == i {
			alerts = append(alerts, a)
		}
	}
	slices.SortStableFunc(alerts, func(a, b template.Alert) int {
		return cmp.Or(
			cmp.Compare(severityOf(a), severityOf(b)),
			cmp.Compare(a.Status, b.Status), // firing is before resolved
		)
	})
	return alerts
}

// rest tells of what is left out: the alerts given, and those that Alertmanager
// itself has not handed over.
func rest(alerts []template.Alert, missing int, batch []notification) string {
	text := fmt.Sprintf("**… and %d more**", len(alerts)+missing)
	critical := 0
	for _, a := range alerts {
		if a.Status == statusFiring && a.Labels["severity"] == "critical" {
			critical++
		}
	}
	if critical > 0 {
		text += fmt.Sprintf(", %d of them critical and firing", critical)
	}
	for _, n := range slices.Backward(batch) {
		if link := safeLink(n.ExternalURL); link != "" {
			return text + "; see [Alertmanager](" + link + ")"
		}
	}
	return text + "; see Alertmanager"
}
