package rules

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// Narrow has rules look only at raw series that have the label cluster, for a
// server that others use, too. Every job of an edge sets that label, and hardly
// another does: a Prometheus that scrapes its own cluster by kube-prometheus has
// series of the same names, which are not the fleet's.
func (c Contract) Narrow(groups []rulefmt.RuleGroup) error {
	raw := map[string]bool{}
	for _, r := range c.Raw {
		for _, name := range r.Kind.Names(r.Name) {
			raw[name] = true
		}
	}
	for _, g := range groups {
		for i, r := range g.Rules {
			expr, err := narrow(r.Expr, raw)
			if err != nil {
				return fmt.Errorf("group %q, rule %d: %w", g.Name, i, err)
			}
			g.Rules[i].Expr = expr
		}
	}
	return nil
}

// narrow adds to every selector of a raw series that the label cluster is there.
func narrow(query string, raw map[string]bool) (string, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return "", err
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok || !raw[s.Name] || slices.ContainsFunc(s.LabelMatchers, excludesNone) {
			return nil
		}
		s.LabelMatchers = append(s.LabelMatchers, labels.MustNewMatcher(labels.MatchNotEqual, "cluster", ""))
		return nil
	})
	return expr.Pretty(0), nil
}

// excludesNone tells whether a matcher refuses series without the label cluster.
func excludesNone(m *labels.Matcher) bool { return m.Name == "cluster" && !m.Matches("") }
