package lint

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/pharos-fleet/pharos/rules"
)

// problem is something wrong at an offset of an expression.
type problem struct {
	offset int
	text   string
}

// inference tells the labels of a result from its expression.
type inference struct {
	lookup   func(name string) (shape, error)
	problems []problem
	// spread counts the differences between the greatest and the least of the same
	// that the expression is in.
	spread int
}

// infer tells what a parsed expression gives at a tier.
func infer(c rules.Contract, at rules.Tier, expr parser.Expr) (shape, []problem) {
	i := &inference{}
	i.lookup = func(name string) (shape, error) { return atTier(c, name, at) }
	s := i.expr(expr)
	return s, i.problems
}

func (i *inference) expr(e parser.Expr) shape {
	switch n := e.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral:
		return shape{scalar: true}
	case *parser.VectorSelector:
		return i.selector(n)
	case *parser.MatrixSelector:
		return i.expr(n.VectorSelector)
	case *parser.SubqueryExpr:
		return i.expr(n.Expr)
	case *parser.StepInvariantExpr:
		return i.expr(n.Expr)
	case *parser.ParenExpr:
		return i.expr(n.Expr)
	case *parser.UnaryExpr:
		return i.expr(n.Expr).computed()
	case *parser.AggregateExpr:
		return i.aggregate(n)
	case *parser.BinaryExpr:
		return i.binary(n)
	case *parser.Call:
		return i.call(n)
	default:
		i.wrong(e, "is a kind of expression whose labels nobody can tell before it runs; aggregate by (…) of something simpler")
		return unknown()
	}
}

// aggregate is an aggregation over by, without, or everything.
func (i *inference) aggregate(n *parser.AggregateExpr) shape {
	if n.Param != nil {
		i.expr(n.Param)
	}
	inner := i.expr(n.Expr)
	if inner.unknown {
		return grouped(inner, n)
	}
	i.grouping(n, inner)
	if told := inner.told(); len(told) > 0 && !harmless(n.Op) {
		i.wrong(n, "%s over series that still say who told them %s counts each as often as it is told; take max by %s (…) of them first",
			n.Op, list(told), list(inner.meant()))
	}
	i.timid(n, inner)
	if keepsElements(n.Op) {
		return chosen(inner, n)
	}
	out := grouped(inner, n)
	if n.Op == parser.COUNT_VALUES {
		if label, ok := literal(n.Param); ok {
			out = out.without(label).with(label)
			out.must[label] = true // each distinct value makes an element
		}
	}
	return out
}

// grouping refuses labels that are grouped by and are not there.
func (i *inference) grouping(n *parser.AggregateExpr, inner shape) {
	for _, label := range n.Grouping {
		if n.Without && slices.Contains(slices.Concat(rules.Tellers(), scraped()), label) {
			continue // to take off what may not be there is as well
		}
		if !inner.has(label) {
			i.wrong(n, "groups by label %q, which what it aggregates does not have; that has %s", label, inner)
		}
	}
}

// harmless are the aggregations that give the same whether something is told
// once or twice.
func harmless(op parser.ItemType) bool {
	return op == parser.MAX || op == parser.MIN || op == parser.GROUP
}

// keepsElements are the aggregations that choose elements instead of making one.
func keepsElements(op parser.ItemType) bool {
	return slices.Contains([]parser.ItemType{parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO}, op)
}

// grouped is the shape of one element for each group.
func grouped(inner shape, n *parser.AggregateExpr) shape {
	var out shape
	if n.Without {
		out = inner.without(n.Grouping...)
		out.key = out.may
		return out.computed()
	}
	out = inner.only(n.Grouping...)
	out.unknown, out.open = false, false
	for _, label := range n.Grouping {
		if inner.open {
			out = out.with(label)
		}
	}
	out.carried = map[string]bool{} // they are named, so they are meant
	out.key = out.may
	return out.computed()
}

// chosen is the shape of elements that are chosen from groups.
func chosen(inner shape, n *parser.AggregateExpr) shape {
	if one, ok := n.Param.(*parser.NumberLiteral); ok && one.Val == 1 && n.Op != parser.LIMIT_RATIO && !n.Without {
		inner.key = set(n.Grouping)
	}
	return inner
}

// with adds a label that elements may have.
func (s shape) with(label string) shape {
	s.may, s.key = union(s.may, set([]string{label})), union(s.key, set([]string{label}))
	s.carried, s.must = minus(s.carried, label), minus(s.must, label)
	return s
}

func literal(e parser.Expr) (string, bool) {
	for {
		switch n := e.(type) {
		case *parser.StringLiteral:
			return n.Val, true
		case *parser.ParenExpr:
			e = n.Expr
		case *parser.StepInvariantExpr:
			e = n.Expr
		default:
			return "", false
		}
	}
}
