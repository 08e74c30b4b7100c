package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// checkAlert checks what an alert is about, and what its texts read.
func (f *ruleFile) checkAlert(r rulefmt.Rule, node *yaml.Node, s shape) {
	line := rules.Descend(node, "alert").Line
	if told := s.told(); len(told) > 0 {
		f.found(f.name, line, fmt.Sprintf("alert %q is one alert for each who tells of it, by %s; aggregate by %s", r.Alert, list(told), s))
	}
	for _, texts := range []struct {
		of  string
		all map[string]string
	}{{"labels", r.Labels}, {"annotations", r.Annotations}} {
		for _, name := range slices.Sorted(maps.Keys(texts.all)) {
			f.checkText(texts.all[name], rules.Descend(node, texts.of, name), s)
		}
	}
}

var (
	// quoted is a string of a template.
	quoted = `("(?:[^"\\]|\\.)*"|` + "`[^`]*`)"
	// asked are the queries of a template: given to the function, or put together
	// and then given to it.
	asked = regexp.MustCompile(`query ` + quoted + `|printf ` + quoted + `[^{}|]*\| *query`)
	// labelled are the labels that a template names.
	labelled = regexp.MustCompile(`(?:\$labels|\.Labels)\.([a-zA-Z_]\w*)`)
	// verbs are what printf fills in.
	verbs = strings.NewReplacer("%q", `"x"`, "%s", "x", "%v", "x", "%d", "1")
)

// checkText checks the queries and the labels in a template.
func (f *ruleFile) checkText(text string, node *yaml.Node, s shape) {
	for _, m := range asked.FindAllStringSubmatch(text, -1) {
		literal := m[1] + m[2]
		query, err := strconv.Unquote(literal)
		if err != nil {
			f.found(f.name, f.lineOf(node.Line, literal), fmt.Sprintf("query %s is no string: %s", literal, err))
			continue
		}
		line := f.lineOf(node.Line, literal)
		f.query(f.tier, f.name, verbs.Replace(query), func(int) int { return line })
	}
	for _, m := range labelled.FindAllStringSubmatch(text, -1) {
		if !s.has(m[1]) && m[1] != "alertname" {
			f.found(f.name, f.lineOf(node.Line, m[0]), fmt.Sprintf("names label %q, which the alert does not have; it has %s", m[1], s))
		}
	}
}
