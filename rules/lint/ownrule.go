package lint

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// checkOwnRule refuses what a team's own rule could do to everybody's numbers: count
// what it says as another place's, read what nobody has said yet, or record a value by
// which the whole cell is no longer believed.
func (f *ruleFile) checkOwnRule(r rulefmt.Rule, node *yaml.Node) {
	expr, err := newParser().ParseExpr(r.Expr)
	if err != nil {
		return // which has been said
	}
	line := lineIn(rules.Descend(node, "expr"))
	found := func(n parser.Node, format string, args ...any) {
		f.found(f.name, line(int(n.PositionRange().Start)), fmt.Sprintf(format, args...))
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if label, sets := labelSet(n); sets && (slices.Contains(places(), label) || slices.Contains(rules.Tellers(), label)) {
			found(n, "sets label %q, by which what it says would count as of another place or as told by another server; set another label", label)
		}
		if fixed, ahead := otherTime(n); fixed {
			found(n, "reads a moment that is fixed by @, which is the same for ever; take it out")
		} else if ahead {
			found(n, "reads what is stamped later than now, by a negative offset: only a server whose clock is wrong has any; take it out")
		}
		return nil
	})
	if declared, _, ok := declaredAs(f.contract, r.Record); ok && declared.Natural && !f.fromNought(expr) {
		found(expr, "records %q, which is natural by the contract, and may be below nought: then the cell counts as one that tells what cannot be, "+
			"and contributes nothing; put clamp_min(…, 0) around it", r.Record)
	}
}

// labelSet is the label that a node sets on what it gives, if it sets one.
func labelSet(n parser.Node) (label string, sets bool) {
	switch n := n.(type) {
	case *parser.Call:
		if n.Func.Name == "label_replace" || n.Func.Name == "label_join" {
			return literal(n.Args[1])
		}
	case *parser.AggregateExpr:
		if n.Op == parser.COUNT_VALUES {
			return literal(n.Param)
		}
	}
	return "", false
}

// otherTime says whether a selector or subquery is of a moment that does not move, and
// whether it is of one that is still to come.
func otherTime(n parser.Node) (fixed, ahead bool) {
	switch n := n.(type) {
	case *parser.VectorSelector:
		return n.Timestamp != nil || n.StartOrEnd != 0, n.OriginalOffset < 0
	case *parser.SubqueryExpr:
		return n.Timestamp != nil || n.StartOrEnd != 0, n.OriginalOffset < 0
	}
	return false, false
}
