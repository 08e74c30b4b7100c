package lint

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// severities are those that alerts are routed by. None is for what should reach
// nobody.
func severities() []string { return []string{"critical", "warning", "none"} }

// checkAlert checks what an alert is about, that it tells a person what to do,
// and what its texts read.
func (f *ruleFile) checkAlert(r rulefmt.Rule, node *yaml.Node, s shape) {
	line := rules.Descend(node, "alert").Line
	if told := s.told(); len(told) > 0 {
		f.found(f.name, line, fmt.Sprintf("alert %q is one alert for each who tells of it, by %s; aggregate by %s", r.Alert, list(told), s))
	}
	f.checkAdvice(r, node)
	for _, texts := range []struct {
		of  string
		all map[string]string
	}{{"labels", r.Labels}, {"annotations", r.Annotations}} {
		for _, name := range slices.Sorted(maps.Keys(texts.all)) {
			f.checkText(texts.all[name], rules.Descend(node, texts.of, name), s)
		}
	}
}

// checkAdvice refuses an alert that would wake somebody without saying how
// urgent it is, what is wrong, and what to do.
func (f *ruleFile) checkAdvice(r rulefmt.Rule, node *yaml.Node) {
	line := rules.Descend(node, "alert").Line
	if severity, ok := r.Labels["severity"]; !ok {
		f.found(f.name, line, fmt.Sprintf("alert %q has no label severity, by which it is routed; it is one of %q", r.Alert, severities()))
	} else if !slices.Contains(severities(), severity) {
		f.found(f.name, rules.Descend(node, "labels", "severity").Line, fmt.Sprintf("alert %q has severity %q, which is none of %q", r.Alert, severity, severities()))
	}
	for _, name := range []string{"summary", "description"} {
		if r.Annotations[name] == "" {
			f.found(f.name, line, fmt.Sprintf("alert %q has no annotation %s: whoever is woken by it must be told what is wrong", r.Alert, name))
		}
	}
	const where = "runbook_url"
	page, ok := r.Annotations[where]
	if !ok {
		f.found(f.name, line, fmt.Sprintf("alert %q has no annotation %s: whoever is woken by it must be told what to do", r.Alert, where))
	} else if u, err := url.Parse(page); err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		f.found(f.name, rules.Descend(node, "annotations", where).Line, fmt.Sprintf("alert %q has %s %q, which is no address that a browser opens", r.Alert, where, page))
	}
}
