package lint

import (
	"maps"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/rules"
)

// shape is what can be told of the labels of a result before there is one. The
// metric's name is no part of it.
type shape struct {
	// scalar is a number or a string, without labels.
	scalar bool
	// unknown is a result of which nothing can be told. What is wrong has been
	// said where it became so.
	unknown bool
	// open is a result that may have labels which are not known.
	open bool
	// may are the labels that elements of the result can have, must those that
	// each of them has, if what is selected has all that is declared.
	may, must map[string]bool
	// carried are the labels of may that nobody asked for: who told it, and where
	// it was scraped.
	carried map[string]bool
	// worst are the series whose values these are, and of each whether the lesser of
	// two is the worse one. What is computed of values has none.
	worst map[string]bool
	// key are labels of may by which an element is the only one.
	key map[string]bool
}

func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

func union(a, b map[string]bool) map[string]bool {
	out := make(map[string]bool, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func intersect(a, b map[string]bool) map[string]bool {
	out := map[string]bool{}
	for n := range a {
		if b[n] {
			out[n] = true
		}
	}
	return out
}

func minus(a map[string]bool, names ...string) map[string]bool {
	out := maps.Clone(a)
	for _, n := range names {
		delete(out, n)
	}
	return out
}

func within(a, b map[string]bool) bool { return len(intersect(a, b)) == len(a) }

// vector is a result whose elements have the labels, no more and no less.
func vector(names []string) shape {
	return shape{may: set(names), must: set(names), carried: map[string]bool{}, key: set(names)}
}

func unknown() shape {
	s := vector(nil)
	s.unknown, s.open = true, true
	return s
}

// carrying adds labels that nobody asked for.
func (s shape) carrying(names []string) shape {
	extra := minus(set(names), slices.Collect(maps.Keys(s.may))...)
	s.may, s.carried, s.key = union(s.may, extra), union(s.carried, extra), union(s.key, extra)
	return s
}

// perhaps says of labels that they need not be there.
func (s shape) perhaps(names ...string) shape {
	s.must = minus(s.must, names...)
	return s
}

func (s shape) without(names ...string) shape {
	s.may, s.must = minus(s.may, names...), minus(s.must, names...)
	s.carried, s.key = minus(s.carried, names...), minus(s.key, names...)
	return s
}

// only keeps some of the labels.
func (s shape) only(names ...string) shape {
	keep := set(names)
	s.may, s.must = intersect(s.may, keep), intersect(s.must, keep)
	s.carried, s.key = intersect(s.carried, keep), intersect(s.key, keep)
	return s
}

func (s shape) has(name string) bool { return s.may[name] || s.open }

// told are the labels of those who told it that are carried along.
func (s shape) told() []string {
	return slices.Sorted(maps.Keys(intersect(s.carried, set(rules.Tellers()))))
}

// beside are all labels that are carried along.
func (s shape) beside() []string { return slices.Sorted(maps.Keys(s.carried)) }

// meant are the labels that are not carried along.
func (s shape) meant() []string {
	return slices.Sorted(maps.Keys(minus(s.may, s.beside()...)))
}

// String lists the labels that are meant, for a person.
func (s shape) String() string {
	switch {
	case len(s.meant()) == 0 && s.open:
		return "labels that depend on what it is about"
	case len(s.meant()) == 0:
		return "no labels"
	}
	return list(s.meant())
}

func list(names []string) string { return "(" + strings.Join(names, ", ") + ")" }
