package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/rules"
)

// checkDashboard checks every query of a dashboard of Grafana's: of panels, of
// annotations and of variables. Dashboards read at a central.
func (l *linter) checkDashboard(f File) {
	if l.tooLarge(f) {
		return
	}
	root, err := parseJSON(f.Content)
	if err != nil {
		l.found(f.Name, err.line, err.text)
		return
	}
	if panels := root.at("panels"); panels == nil || len(panels.items) == 0 {
		l.found(f.Name, root.line, "has no panels; a dashboard that shows nothing is taken for a mistake")
	}
	root.walk(func(key string, n *jsonNode) {
		if text, ok := n.string(); ok && key == "expr" {
			l.checkPanel(f.Name, n.line, text)
		}
	})
	if list := root.at("templating").at("list"); list != nil {
		for _, v := range list.items {
			l.checkTemplating(f.Name, v)
		}
	}
}

// checkTemplating checks a variable of a dashboard, if it is one that asks.
func (l *linter) checkTemplating(file string, v *jsonNode) {
	if kind, _ := v.at("type").string(); kind != "query" {
		return
	}
	query := v.at("query")
	if _, ok := query.string(); !ok {
		query = query.at("query")
	}
	text, ok := query.string()
	if !ok {
		l.found(file, v.line, "is a variable without a query")
		return
	}
	l.checkVariable(file, query.line, text)
}

// checkPanel checks a query whose variables Grafana fills in.
func (l *linter) checkPanel(file string, line int, query string) {
	s, ok := l.query(rules.Central, file, filledIn(query), func(int) int { return line })
	if told := s.told(); ok && len(told) > 0 {
		l.found(file, line, fmt.Sprintf("shows everything once for each who tells of it, by %s; aggregate by %s", list(told), s))
	}
}

var (
	// spans are the variables of Grafana's that stand for a duration.
	spans = regexp.MustCompile(`\$(?:__rate_interval|__interval|__range)\b|\$\{(?:__rate_interval|__interval|__range)\}`)
	// variables are all others.
	variables = regexp.MustCompile(`\$\w+|\$\{[^}]*\}|\[\[[^\]]*\]\]`)
	// values is how a variable gets the values of a label.
	values = regexp.MustCompile(`^label_values\((?:(.+), *)?(\w+)\)$`)
	// results is how a variable gets the results of a query.
	results = regexp.MustCompile(`^query_result\((.+)\)$`)
)

// filledIn puts something that can be parsed in the place of variables.
func filledIn(query string) string {
	return variables.ReplaceAllString(spans.ReplaceAllString(query, "5m"), "x")
}

// checkVariable checks what a variable asks for.
func (l *linter) checkVariable(file string, line int, query string) {
	at := func(int) int { return line }
	if m := results.FindStringSubmatch(query); m != nil {
		l.query(rules.Central, file, filledIn(m[1]), at)
		return
	}
	m := values.FindStringSubmatch(strings.TrimSpace(query))
	if m == nil || m[1] == "" {
		l.found(file, line, fmt.Sprintf("variable asks %q, of which nobody can tell what it reads; use label_values(series, label)", query))
		return
	}
	s, ok := l.query(rules.Central, file, filledIn(m[1]), at)
	if ok && !s.has(m[2]) {
		l.found(file, line, fmt.Sprintf("variable asks for label %q, which its series do not have; they have %s", m[2], s))
	}
	if slices.Contains(rules.Tellers(), m[2]) {
		l.found(file, line, fmt.Sprintf("variable asks for label %q, which says who told a series and not what it is about", m[2]))
	}
}
