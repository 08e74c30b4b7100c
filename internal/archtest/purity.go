package archtest

import (
	"go/ast"
	"slices"
)

// pureDir holds the decisions, which must be functions of their inputs.
const pureDir = "remediator/policy"

// impureImports give a package a logger, a client, files or goroutines' tools.
func impureImports() []string {
	return []string{"log", "net", "os", "sync", "context", "io/fs", "math/rand"}
}

// clocks are the functions of package time that read or wait for the clock.
func clocks() []string {
	return []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "Sleep", "NewTimer", "NewTicker"}
}

// checkPurity refuses clocks, goroutines, loggers and clients in decisions.
// Tests of them are free.
func checkPurity(s source) []Violation {
	if s.test || !within(s.dir, pureDir) {
		return nil
	}
	var out []Violation
	for _, spec := range s.ast.Imports {
		if slices.ContainsFunc(impureImports(), func(dir string) bool { return within(importPath(spec), dir) }) {
			out = append(out, s.violation(spec.Pos(), "%s decides from its inputs: it may not import %s", pureDir, importPath(spec)))
		}
	}
	clock := localName(s, "time")
	ast.Inspect(s.ast, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			out = append(out, s.violation(n.Pos(), "%s decides from its inputs: it may not start a goroutine", pureDir))
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && clock != "" && x.Name == clock && slices.Contains(clocks(), n.Sel.Name) {
				out = append(out, s.violation(n.Pos(), "%s decides from its inputs: it may not use time.%s; take the time as a parameter", pureDir, n.Sel.Name))
			}
		}
		return true
	})
	return out
}

// localName is the name under which a file imports a package; empty when it
// does not.
func localName(s source, path string) string {
	for _, spec := range s.ast.Imports {
		if importPath(spec) != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path
	}
	return ""
}
