package lint

import (
	"maps"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// binary is an operation between two expressions.
func (i *inference) binary(n *parser.BinaryExpr) shape {
	left, right := i.sides(n)
	switch {
	case left.scalar && right.scalar:
		return left
	case left.scalar:
		return right
	case right.scalar:
		return left
	}
	m := n.VectorMatching
	i.matching(n, left, right)
	switch {
	case n.Op == parser.LOR:
		return either(left, right)
	case n.Op.IsSetOperator():
		return left
	case m.Card == parser.CardManyToOne:
		i.unique(n, "right", right, m)
		return i.joined(n, left, right)
	case m.Card == parser.CardOneToMany:
		i.unique(n, "left", left, m)
		return i.joined(n, right, left)
	}
	i.unique(n, "left", left, m)
	i.unique(n, "right", right, m)
	if m.On {
		left = left.only(m.MatchingLabels...)
		left.open, left.key = false, left.may
		return left
	}
	return left.without(m.MatchingLabels...)
}

// matching refuses sides that can never match: labels that one of them lacks.
func (i *inference) matching(n *parser.BinaryExpr, left, right shape) {
	m := n.VectorMatching
	if left.unknown || right.unknown {
		return
	}
	if m.On {
		i.matchable(n, "left", left)
		i.matchable(n, "right", right)
		return
	}
	if n.Op == parser.LOR {
		return
	}
	a, b := left.without(m.MatchingLabels...), right.without(m.MatchingLabels...)
	if a.open != b.open || !maps.Equal(a.may, b.may) {
		i.wrong(n, "the sides have different labels, %s and %s, so nothing may match; say on (…) by which labels they match",
			list(slices.Sorted(maps.Keys(a.may))), list(slices.Sorted(maps.Keys(b.may))))
	}
}

func (i *inference) matchable(n *parser.BinaryExpr, side string, s shape) {
	for _, label := range n.VectorMatching.MatchingLabels {
		if !s.has(label) {
			i.wrong(n, "matches on label %q, which the %s side does not have; that has %s", label, side, s)
		}
	}
}

// unique refuses a side of which several elements may match one of the other's:
// Prometheus then fails the whole rule.
func (i *inference) unique(n *parser.BinaryExpr, side string, s shape, m *parser.VectorMatching) {
	if s.unknown {
		return
	}
	matched := s.without(m.MatchingLabels...).key
	if m.On {
		matched = intersect(s.key, set(m.MatchingLabels))
	}
	if len(matched) == len(s.key) && (!m.On || !s.open) {
		return
	}
	if m.On {
		i.wrong(n, "several elements of the %s side may have the same %s, which fails the whole expression; aggregate that side by %s",
			side, list(m.MatchingLabels), list(m.MatchingLabels))
		return
	}
	i.wrong(n, "several elements of the %s side may differ in nothing but %s, which fails the whole expression; aggregate that side without them",
		side, list(m.MatchingLabels))
}

// joined is the shape of a many side with labels of the one side.
func (i *inference) joined(n *parser.BinaryExpr, many, one shape) shape {
	out := many
	for _, label := range n.VectorMatching.Include {
		if !one.has(label) {
			i.wrong(n, "takes over label %q, which the one side does not have; that has %s", label, one)
		}
		if many.key[label] && !many.unknown {
			i.wrong(n, "takes over label %q, by which elements of the many side differ; they may be the same afterwards, which fails the whole expression", label)
		}
		out = out.without(label).with(label)
		if one.must[label] {
			out.must[label] = true
		}
	}
	out.key = many.key
	return out
}

// either is the shape of elements of one side or the other.
func either(left, right shape) shape {
	out := shape{
		unknown: left.unknown || right.unknown, open: left.open || right.open,
		may: union(left.may, right.may), must: intersect(left.must, right.must), carried: union(left.carried, right.carried),
		worst: union(left.worst, right.worst),
	}
	out.key = out.may
	return out
}
