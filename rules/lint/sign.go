package lint

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// fromNought says whether an expression is sure to give nothing below nought. What is
// scraped is taken for that; of what rules record the contract says it.
func (l *linter) fromNought(e parser.Expr) bool {
	if inner, ok := unwrapped(e); ok {
		return l.fromNought(inner)
	}
	switch n := e.(type) {
	case *parser.NumberLiteral:
		return n.Val >= 0
	case *parser.VectorSelector:
		return l.selectsNatural(n)
	case *parser.AggregateExpr:
		return slices.Contains([]parser.ItemType{parser.COUNT, parser.COUNT_VALUES, parser.GROUP, parser.STDDEV, parser.STDVAR}, n.Op) || l.fromNought(n.Expr)
	case *parser.BinaryExpr:
		return l.resultFromNought(n)
	case *parser.Call:
		return l.callFromNought(n)
	default:
		return false // a minus before something among them
	}
}

// unwrapped is what an expression gives the values of as they are.
func unwrapped(e parser.Expr) (parser.Expr, bool) {
	switch n := e.(type) {
	case *parser.MatrixSelector:
		return n.VectorSelector, true
	case *parser.SubqueryExpr:
		return n.Expr, true
	case *parser.StepInvariantExpr:
		return n.Expr, true
	case *parser.ParenExpr:
		return n.Expr, true
	default:
		return nil, false
	}
}

// selectsNatural says whether a series that is selected has no value below nought.
func (l *linter) selectsNatural(n *parser.VectorSelector) bool {
	name, _ := nameOf(n)
	declared, _, recorded := declaredAs(l.contract, name)
	return !recorded || declared.Natural
}

// resultFromNought is fromNought of two sides. A comparison gives its left side, or 1 and 0.
func (l *linter) resultFromNought(n *parser.BinaryExpr) bool {
	left := l.fromNought(n.LHS)
	switch n.Op {
	case parser.LAND, parser.LUNLESS:
		return left
	case parser.GTE, parser.GTR:
		_, literal := n.RHS.(*parser.NumberLiteral)
		return n.ReturnBool || left || literal && l.fromNought(n.RHS)
	case parser.EQLC, parser.NEQ, parser.LSS, parser.LTE:
		return n.ReturnBool || left
	case parser.LOR, parser.ADD, parser.MUL, parser.DIV, parser.MOD, parser.POW:
		return left && l.fromNought(n.RHS)
	default:
		return false
	}
}

// callFromNought is fromNought of a function.
func (l *linter) callFromNought(n *parser.Call) bool {
	switch n.Func.Name {
	case "abs", "absent", "absent_over_time", "changes", "count_over_time", "exp", "histogram_count", "histogram_fraction", "increase", "irate", "present_over_time",
		"rate", "resets", "sqrt", "stddev_over_time", "stdvar_over_time", "time", "timestamp":
		return true
	case "clamp", "clamp_min":
		return l.fromNought(n.Args[1]) // what is clamped may be anything
	case "avg_over_time", "ceil", "floor", "histogram_avg", "histogram_sum", "label_join", "label_replace", "last_over_time", "max_over_time", "min_over_time",
		"round", "scalar", "sort", "sort_desc", "sum_over_time", "vector":
		return l.fromNought(n.Args[0])
	case "clamp_max":
		return l.fromNought(n.Args[0]) && l.fromNought(n.Args[1])
	case "histogram_quantile", "quantile_over_time":
		return l.fromNought(n.Args[1])
	default:
		return false
	}
}
