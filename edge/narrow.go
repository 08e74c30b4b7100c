package edge

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// narrowRules renders the edge's rules for a server that others use, too: as
// files by name, and all groups in the order of the files.
func narrowRules(o Options, contract rules.Contract) (promcfg.Files, []rulefmt.RuleGroup, error) {
	rendered, err := rules.Files(rules.Edge, o.Interval, o.constants())
	if err != nil {
		return nil, nil, err
	}
	raw := map[string]bool{}
	for _, r := range contract.Raw {
		for _, name := range r.Kind.Names(r.Name) {
			raw[name] = true
		}
	}
	files := promcfg.Files{}
	var all []rulefmt.RuleGroup
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		groups, err := narrowFile(rendered[name], raw, model.Duration(o.Interval))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if files[name], err = promcfg.Marshal(groups); err != nil {
			return nil, nil, err
		}
		all = append(all, groups.Groups...)
	}
	return files, all, nil
}

func narrowFile(content []byte, raw map[string]bool, interval model.Duration) (*rulefmt.RuleGroups, error) {
	groups, errs := rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for i, g := range groups.Groups {
		groups.Groups[i].Interval = interval
		for j, r := range g.Rules {
			expr, err := narrow(r.Expr, raw)
			if err != nil {
				return nil, err
			}
			g.Rules[j].Expr = expr
		}
	}
	return groups, nil
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
