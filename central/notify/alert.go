package notify

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/prometheus/alertmanager/template"
)

// blocksOf renders each alert, and at the end how many Alertmanager left out.
func blocksOf(alerts []template.Alert, batch []notification) []string {
	blocks := make([]string, 0, len(alerts)+1)
	for _, a := range alerts {
		blocks = append(blocks, alertBlock(a))
	}
	if missing := missingFrom(batch); missing > 0 {
		blocks = append(blocks, rest(nil, missing, batch))
	}
	return blocks
}

// alertBlock tells of one alert. What has ended is told as the past: its
// description was written when it fired, and would read as if it still did.
func alertBlock(a template.Alert) string {
	lines := []string{heading(a)}
	if where := where(a.Labels); where != "" {
		lines = append(lines, "**where** "+where)
	}
	summary := escape(a.Annotations["summary"])
	if a.Status == statusResolved {
		lines = append(lines, wasFiring(a.StartsAt, a.EndsAt))
		if summary != "" {
			lines = append(lines, "**alert was** "+summary)
		}
		return strings.Join(lines, "\n\n")
	}
	lines = append(lines, "**firing since** "+utc(a.StartsAt))
	for _, text := range []string{summary, escape(a.Annotations["description"])} {
		if text != "" {
			lines = append(lines, text)
		}
	}
	if link := safeLink(a.Annotations["runbook_url"]); link != "" {
		lines = append(lines, "[runbook]("+link+")")
	}
	return strings.Join(lines, "\n\n")
}

// wasFiring says no more than is known: an end may be missing, or before the
// start where two clocks differ.
func wasFiring(from, until time.Time) string {
	if until.IsZero() || until.Before(from) {
		return "**was firing** from " + utc(from)
	}
	end := utc(until)
	if from.UTC().Format(time.DateOnly) == until.UTC().Format(time.DateOnly) {
		end = until.UTC().Format("15:04:05 UTC")
	}
	return fmt.Sprintf("**was firing for** %s, from %s until %s", duration(until.Sub(from)), utc(from), end)
}

// duration says how long in at most two units.
func duration(d time.Duration) string {
	seconds := int64(d / time.Second)
	for _, unit := range []struct {
		size, part int64
		name, rest string
	}{
		{86400, 3600, "d", "h"}, {3600, 60, "h", "min"}, {60, 1, "min", "s"},
	} {
		if seconds < unit.size {
			continue
		}
		text := fmt.Sprintf("%d %s", seconds/unit.size, unit.name)
		if more := seconds % unit.size / unit.part; more > 0 {
			text += fmt.Sprintf(" %d %s", more, unit.rest)
		}
		return text
	}
	return fmt.Sprintf("%d s", seconds)
}

func heading(a template.Alert) string {
	parts := []string{strings.ToUpper(a.Status)}
	if severity := a.Labels["severity"]; severity != "" {
		parts = append(parts, escape(severity))
	}
	return "### " + strings.Join(append(parts, escape(a.Labels["alertname"])), " · ")
}

// where names the target: the place labels from the widest to the narrowest,
// then every other label by name, so that nothing that tells two alerts apart
// is left out.
func where(labels template.KV) string {
	shown := map[string]bool{"alertname": true, "severity": true}
	var parts []string
	add := func(key string) {
		if v := labels[key]; v != "" && !shown[key] {
			shown[key] = true
			parts = append(parts, escape(key)+" "+escape(v))
		}
	}
	for _, key := range []string{"geography", "region", "cell", "cluster", "zone", "rack", "node"} {
		add(key)
	}
	keys := make([]string, 0, len(labels))
	for key := range labels {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		add(key)
	}
	return strings.Join(parts, " · ")
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
