package archtest

import (
	"slices"
	"strings"
)

// checkImports judges the imports of one file by the layout.
func checkImports(s source, module string) []Violation {
	from, ok := roomOf(s.dir)
	if !ok {
		return []Violation{s.violation(s.ast.Package, "%s is not a room of the layout: give it a place in internal/archtest/layout.go", s.dir)}
	}
	var out []Violation
	for _, spec := range s.ast.Imports {
		name := importPath(spec)
		says := ""
		if within(name, module) {
			says = from.refuses(strings.TrimPrefix(strings.TrimPrefix(name, module), "/"), s.test)
		} else if !s.test {
			says = from.refusesLibrary(name)
		}
		if says != "" {
			out = append(out, s.violation(spec.Pos(), "%s", says))
		}
	}
	return out
}

// refuses says why a room may not import a folder of ours; empty means it may.
func (from room) refuses(dir string, test bool) string {
	to, ok := roomOf(dir)
	if !ok {
		return "imports " + dir + ", which is not a room of the layout"
	}
	if forTesting(dir) && !test {
		return dir + " is for tests: nothing else may import it"
	}
	if to.dir == from.dir || slices.Contains(from.imports, to.dir) || test && slices.Contains(forTests(), to.dir) {
		return ""
	}
	// A room reaches its own folders that have rules. The folders of internal
	// have nothing in common, so that this does not hold there.
	if within(to.dir, from.dir) && from.dir != "internal" {
		return ""
	}
	return from.dir + " may not import " + to.dir
}

// refusesLibrary says why a room may not import a foreign package; empty means
// it may.
func (from room) refusesLibrary(name string) string {
	if !from.closed || standard(name) || slices.ContainsFunc(from.libraries, func(l string) bool { return within(name, l) }) {
		return ""
	}
	return from.dir + " may not import " + name + ": beside the standard library it knows only " +
		strings.Join(append(slices.Clone(from.imports), from.libraries...), ", ")
}

// standard tells whether a package is of the standard library, whose first
// path element has no dot.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}
