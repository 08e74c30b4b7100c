package lint

import (
	"maps"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// timid refuses to take the better of what several servers told of the same: a
// server that sees worse may be the one that sees right. The contract says of each
// series which of two values is worse.
func (i *inference) timid(n *parser.AggregateExpr, inner shape) {
	if n.Op != parser.MAX && n.Op != parser.MIN || i.spread > 0 || len(inner.told()) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(inner.worst)) {
		lesser := inner.worst[name]
		if lesser == (n.Op == parser.MIN) {
			continue
		}
		op, word := "max", "greater"
		if lesser {
			op, word = "min", "lesser"
		}
		i.wrong(n, "takes the %s of what several servers tell of %s, of which the %s is the worse; take %s by %s (…), or change lesser in the contract",
			n.Op, name, word, op, list(inner.meant()))
	}
}

// computed is a result whose values are no series' own any more.
func (s shape) computed() shape {
	s.worst = nil
	return s
}

// keepsValues are the functions whose result is still a value of the series.
func keepsValues() []string {
	return []string{
		"avg_over_time", "ceil", "clamp", "clamp_max", "clamp_min", "floor", "label_join", "label_replace", "last_over_time",
		"max_over_time", "min_over_time", "round", "sort", "sort_desc",
	}
}

// sides are those of an operation. A filter's are still values of their series.
func (i *inference) sides(n *parser.BinaryExpr) (left, right shape) {
	if isSpread(n) {
		i.spread++
		defer func() { i.spread-- }()
	}
	left, right = i.expr(n.LHS), i.expr(n.RHS)
	if !n.Op.IsSetOperator() && (!n.Op.IsComparisonOperator() || n.ReturnBool) {
		left, right = left.computed(), right.computed()
	}
	return left, right
}

// arguments are those of a function.
func (i *inference) arguments(n *parser.Call) []shape {
	args := make([]shape, len(n.Args))
	for at, arg := range n.Args {
		args[at] = i.expr(arg)
		if !slices.Contains(keepsValues(), n.Func.Name) {
			args[at] = args[at].computed()
		}
	}
	return args
}

// isSpread tells whether a subtraction is of the least from the greatest of the
// same, which is how far servers disagree.
func isSpread(n *parser.BinaryExpr) bool {
	left, right := aggregation(n.LHS), aggregation(n.RHS)
	return n.Op == parser.SUB && left != nil && right != nil &&
		left.Op == parser.MAX && right.Op == parser.MIN && left.Expr.String() == right.Expr.String()
}

// aggregation is the aggregation that an expression is, in parentheses or not.
func aggregation(e parser.Expr) *parser.AggregateExpr {
	for {
		switch n := e.(type) {
		case *parser.AggregateExpr:
			return n
		case *parser.ParenExpr:
			e = n.Expr
		case *parser.StepInvariantExpr:
			e = n.Expr
		default:
			return nil
		}
	}
}
