package archtest

import (
	"go/ast"
	"slices"
)

// maxLines is the longest file that we read in one sitting; longer ones are split.
const maxLines = 400

// checkStyle refuses long files and tests that do not run.
func checkStyle(s source) []Violation {
	var out []Violation
	lines := s.set.File(s.ast.Pos()).LineCount()
	if lines > maxLines && !ast.IsGenerated(s.ast) {
		out = append(out, s.violation(s.ast.Package, "the file has %d lines, more than %d: split it", lines, maxLines))
	}
	ast.Inspect(s.ast, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && skips(call) {
			out = append(out, s.violation(call.Pos(), "a test may not skip itself: make it run, or delete it"))
		}
		return true
	})
	return out
}

// skips tells whether a call is one that ends a test without a verdict. The
// receiver is known by its usual names, because types are not looked up.
func skips(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, method.Sel.Name) {
		return false
	}
	receiver, ok := method.X.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "tb", "b", "f"}, receiver.Name)
}
