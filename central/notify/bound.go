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

// bounded packs as much as maxMessages hold. The most severe alerts are chosen,
// and the end says how many are left out and where to see them.
func bounded(alerts []template.Alert, batch []notification, room int) (texts []string, leftOut int) {
	chosen := mostSevereFirst(alerts)
	missing := missingFrom(batch)
	blocks := make(map[string]string, len(chosen))
	for _, a := range chosen {
		blocks[episode(a)] = shorten(alertBlock(a), room)
	}
	first := func(n int) []string {
		shown := make([]string, 0, n+1)
		for _, a := range firingFirst(chosen[:n]) {
			shown = append(shown, blocks[episode(a)])
		}
		if len(chosen)-n+missing > 0 {
			shown = append(shown, rest(chosen[n:], missing, batch))
		}
		return pack(shown, room)
	}
	fit := sort.Search(len(chosen)+1, func(n int) bool { return len(first(n)) > maxMessages }) - 1
	return first(fit), len(chosen) - fit + missing
}

// missingFrom is how many alerts Alertmanager itself has not handed over.
func missingFrom(batch []notification) int {
	missing := 0
	for _, n := range batch {
		missing += int(min(n.Truncated, 1<<31))
	}
	return missing
}

// lastWords keeps of each alert's every firing what was said last, because what
// was said before is no longer so. The given order stays.
func lastWords(batch []notification) []template.Alert {
	var all []template.Alert
	for _, n := range batch {
		all = append(all, n.Alerts...)
	}
	last := map[string]int{}
	for i, a := range all {
		last[episode(a)] = i
	}
	alerts := make([]template.Alert, 0, len(last))
	for i, a := range all {
		if last[episode(a)] == i {
			alerts = append(alerts, a)
		}
	}
	return alerts
}

// firingFirst is the order in which alerts are told: the firing ones, then the
// ended ones, the most severe of each first, and otherwise as given.
func firingFirst(alerts []template.Alert) []template.Alert {
	return slices.SortedStableFunc(slices.Values(alerts), func(a, b template.Alert) int {
		return cmp.Or(
			cmp.Compare(a.Status, b.Status), // firing is before resolved
			cmp.Compare(severityOf(a), severityOf(b)),
		)
	})
}

// mostSevereFirst is the order in which alerts are chosen when not all can be
// told: that something critical has ended is worth more than one warning of many.
func mostSevereFirst(alerts []template.Alert) []template.Alert {
	return slices.SortedStableFunc(slices.Values(alerts), func(a, b template.Alert) int {
		return cmp.Or(
			cmp.Compare(severityOf(a), severityOf(b)),
			cmp.Compare(a.Status, b.Status),
		)
	})
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
