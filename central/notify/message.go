package notify

import (
	"encoding/json"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/alertmanager/template"
)

// bodyLimit is below the provider's 20,000 bytes, with room for what it may
// count that we do not see.
const bodyLimit = 19_000

// message is one markdown message to a robot.
type message struct {
	MsgType  string       `json:"msgtype"`
	Markdown messageTexts `json:"markdown"`
}

type messageTexts struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

func newMessage(title, text string) message {
	return message{MsgType: "markdown", Markdown: messageTexts{Title: title, Text: text}}
}

// render turns notifications, oldest first, into at most maxMessages messages
// whose JSON is at most limit bytes. It cuts between alerts; only an alert that
// is too long by itself is shortened. Every alert is in exactly one message, in
// the given order; where that is too much, see bounded.
func render(batch []notification, limit int) (messages []message, leftOut int) {
	title := titleOf(batch)
	room := limit - jsonLen(newMessage(title+" (999/999)", ""))
	texts := pack(blocksOf(batch), room)
	if len(texts) > maxMessages {
		texts, leftOut = bounded(batch, room)
	}
	for i, text := range texts {
		numbered := title
		if len(texts) > 1 {
			numbered = fmt.Sprintf("%s (%d/%d)", title, i+1, len(texts))
		}
		messages = append(messages, newMessage(numbered, text))
	}
	return messages, leftOut
}

// separator keeps blocks apart in a message.
const separator = "\n\n---\n\n"

func pack(blocks []string, room int) []string {
	var texts []string
	var current strings.Builder
	used := 0
	for _, block := range blocks {
		block = shorten(block, room)
		size := jsonLen(block)
		if used > 0 && used+jsonLen(separator)+size > room {
			texts = append(texts, current.String())
			current.Reset()
			used = 0
		}
		if used > 0 {
			current.WriteString(separator)
			used += jsonLen(separator)
		}
		current.WriteString(block)
		used += size
	}
	return append(texts, current.String())
}

// shorten cuts s between runes so that its JSON is at most room bytes.
func shorten(s string, room int) string {
	if jsonLen(s) <= room {
		return s
	}
	const mark = "…"
	used := jsonLen(mark)
	for i, r := range s {
		used += jsonLen(string(r)) - jsonLen("")
		if used > room {
			return s[:i] + mark
		}
	}
	return s
}

// jsonLen is how many bytes v takes in a body.
func jsonLen(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and structs of strings always encode
	}
	return len(b)
}

func titleOf(batch []notification) string {
	firing, resolved := 0, 0
	names := map[string]bool{}
	for _, n := range batch {
		f := len(n.Alerts.Firing())
		firing, resolved = firing+f, resolved+len(n.Alerts)-f
		for _, a := range n.Alerts {
			names[a.Labels["alertname"]] = true
		}
	}
	what := fmt.Sprintf("%d alerts", len(names))
	if len(names) == 1 {
		what = batch[0].Alerts[0].Labels["alertname"]
	}
	var counts []string
	if firing > 0 {
		counts = append(counts, fmt.Sprintf("FIRING %d", firing))
	}
	if resolved > 0 {
		counts = append(counts, fmt.Sprintf("RESOLVED %d", resolved))
	}
	return shorten(oneLine("["+strings.Join(counts, ", ")+"] "+what), 200)
}

// blocksOf renders each alert, and after the alerts of a notification how many
// Alertmanager left out.
func blocksOf(batch []notification) []string {
	var blocks []string
	for _, n := range batch {
		for _, a := range n.Alerts {
			blocks = append(blocks, alertBlock(a))
		}
		if n.Truncated > 0 {
			blocks = append(blocks, fmt.Sprintf("and %d more of this group; see Alertmanager", n.Truncated))
		}
	}
	return blocks
}

func alertBlock(a template.Alert) string {
	lines := []string{heading(a)}
	if where := where(a.Labels); where != "" {
		lines = append(lines, "**where** "+where)
	}
	lines = append(lines, "**since** "+utc(a.StartsAt))
	if a.Status == statusResolved && !a.EndsAt.IsZero() {
		lines = append(lines, "**until** "+utc(a.EndsAt))
	}
	for _, key := range []string{"summary", "description"} {
		if text := a.Annotations[key]; text != "" {
			lines = append(lines, escape(text))
		}
	}
	if link := safeLink(a.Annotations["runbook_url"]); link != "" {
		lines = append(lines, "[runbook]("+link+")")
	}
	return strings.Join(lines, "\n\n")
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

// escape makes a foreign string harmless in markdown: one line, no markup.
func escape(s string) string {
	var b strings.Builder
	for _, r := range oneLine(s) {
		if strings.ContainsRune("\\`*_[]<>#|~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// oneLine replaces line breaks, control characters and invalid UTF-8.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// safeLink returns an http(s) address that cannot end the markdown link early,
// or nothing.
func safeLink(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return ""
	}
	return strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(u.String())
}
