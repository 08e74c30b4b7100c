// Package archtest holds the walls of the house: which room of the source tree
// may import which, what a pure package may not do, and the few points of style
// that no linter of ours knows. It reads source files only, whatever their
// build tags, and judges nothing that the compiler or the linters judge.
package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Violation is one breach of a rule.
type Violation struct {
	File string // path from the root of the tree
	Line int
	Says string // what is wrong and what the rule is
}

// String formats the violation as compilers do, so that editors can jump to it.
func (v Violation) String() string { return fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.Says) }

// source is one parsed Go file.
type source struct {
	file string // path from the root of the tree
	dir  string // folder of the package, "." for the root
	test bool   // it is a test, or in a package for tests
	ast  *ast.File
	set  *token.FileSet
}

// Check reads every Go file of a module, without nested modules and testdata,
// and returns the violations in the order of files and lines. It fails when a
// file cannot be read or parsed.
func Check(tree fs.FS, module string) ([]Violation, error) {
	sources, err := read(tree)
	if err != nil {
		return nil, err
	}
	var out []Violation
	for _, s := range sources {
		out = append(out, checkImports(s, module)...)
		out = append(out, checkPurity(s)...)
		out = append(out, checkStyle(s)...)
	}
	slices.SortStableFunc(out, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return out, nil
}

func read(tree fs.FS) ([]source, error) {
	var sources []source
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && foreign(tree, name):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		s, err := parse(tree, name)
		sources = append(sources, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the source tree: %w", err)
	}
	return sources, nil
}

// foreign tells whether a folder holds no package of the module.
func foreign(tree fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	return err == nil
}

func parse(tree fs.FS, name string) (source, error) {
	data, err := fs.ReadFile(tree, name)
	if err != nil {
		return source{}, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	dir := path.Dir(name)
	return source{file: name, dir: dir, test: strings.HasSuffix(name, "_test.go") || forTesting(dir), ast: file, set: set}, nil
}

// forTesting tells whether a folder holds a package that serves tests, named in
// the way of httptest.
func forTesting(dir string) bool { return strings.HasSuffix(path.Base(dir), "test") }

// violation is a breach at a place in the file.
func (s source) violation(at token.Pos, format string, args ...any) Violation {
	return Violation{File: s.file, Line: s.set.Position(at).Line, Says: fmt.Sprintf(format, args...)}
}

// importPath is the path that an import names, which the parser has checked.
func importPath(spec *ast.ImportSpec) string {
	unquoted, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(fmt.Sprintf("archtest: the parser let through the import %s", spec.Path.Value))
	}
	return unquoted
}

// within tells whether a path is dir or lies below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}
