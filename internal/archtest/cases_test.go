package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// allCases are those that the remediator answers for.
var allCases = strings.Fields(`C01 C02 C03 C04 C06 C08 C10 C11 C12 C13 C15 C16 C17 C19 C20 C21 C22 C23 C24 C26 C27 C28
	C29 C31 C32 C33 C35 C36 C37 C40 C41 C43`)

// absent is how the page says that there is nothing to test.
const absent = "Not there."

var (
	caseRow = regexp.MustCompile(`(?m)^\| (C\d\d) .*$`)
	// caseTest is a test by its folder and name, or a part of the one before it.
	caseTest = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)`|`/([^`]+)`")
)

// tested is what the tests of a folder are known by: the names of functions, all texts,
// among which are the names of subtests, and the comments.
type tested struct {
	funcs, texts map[string]bool
	comments     string
}

func testsOf(tree fs.FS) (map[string]*tested, error) {
	sources, err := read(tree)
	if err != nil {
		return nil, err
	}
	found := map[string]*tested{}
	for _, s := range sources {
		if !strings.HasSuffix(s.file, "_test.go") {
			continue
		}
		if found[s.dir] == nil {
			found[s.dir] = &tested{map[string]bool{}, map[string]bool{}, ""}
		}
		found[s.dir].add(s)
	}
	return found, nil
}

func (in *tested) add(s source) {
	for _, c := range s.ast.Comments {
		in.comments += c.Text()
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			in.funcs[n.Name.Name] = true
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				in.texts[text] = true
			}
		}
		return true
	})
}

// has says whether a subtest may be there: it is named in the code, or is a file.
func (in *tested) has(tree fs.FS, dir, name string) bool {
	if in.texts[name] {
		return true
	}
	is := false
	_ = fs.WalkDir(tree, path.Join(dir, "testdata"), func(file string, _ fs.DirEntry, err error) error {
		base := path.Base(file)
		is = is || err == nil && strings.TrimSuffix(base, path.Ext(base)) == name
		return err
	})
	return is
}

// checkCases says what is wrong with the page of cases.
func checkCases(tree fs.FS, page string, want []string) ([]string, error) {
	tests, err := testsOf(tree)
	if err != nil {
		return nil, err
	}
	var wrong, rows []string
	for _, row := range caseRow.FindAllStringSubmatch(page, -1) {
		rows = append(rows, row[1])
		for _, says := range checkCase(tree, tests, row[1], row[0]) {
			wrong = append(wrong, row[1]+": "+says)
		}
	}
	if !slices.Equal(rows, want) {
		wrong = append(wrong, fmt.Sprintf("the page has the cases %v, not %v", rows, want))
	}
	return wrong, nil
}

func checkCase(tree fs.FS, tests map[string]*tested, id, row string) []string {
	var wrong []string
	var dir string
	all := caseTest.FindAllStringSubmatch(row, -1)
	if len(all) == 0 && !strings.Contains(row, absent) {
		return []string{"names no test, and does not say " + absent}
	}
	for _, m := range all {
		switch {
		case m[1] != "":
			dir = m[1]
			if in := tests[dir]; in == nil || !in.funcs[m[2]] {
				wrong = append(wrong, fmt.Sprintf("there is no %s in %s", m[2], dir))
			} else if !strings.Contains(in.comments, "Case "+id+":") {
				wrong = append(wrong, fmt.Sprintf("no comment in the tests of %s says Case %s: …", dir, id))
			}
		case tests[dir] == nil:
			wrong = append(wrong, fmt.Sprintf("/%s is part of no test", m[3]))
		default:
			for name := range strings.SplitSeq(m[3], "/") {
				if !tests[dir].has(tree, dir, name) {
					wrong = append(wrong, fmt.Sprintf("nothing is named %q in the tests of %s", name, dir))
				}
			}
		}
	}
	return wrong
}

// TestEveryCaseHasItsTests holds the page of cases to the tree: each case has its row, and
// the tests that it names exist.
func TestEveryCaseHasItsTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "cases.md"))
	require.NoError(t, err)
	wrong, err := checkCases(os.DirFS(root), string(page), allCases)
	require.NoError(t, err)
	for _, says := range wrong {
		t.Error("docs/reference/cases.md: " + says)
	}
}

// TestCasesWithoutTestsAreFound sees to it that the test above sees anything.
func TestCasesWithoutTestsAreFound(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "cases.txt"))
	require.NoError(t, err)
	tree, err := txtar.FS(archive)
	require.NoError(t, err)
	page, err := fs.ReadFile(tree, "cases.md")
	require.NoError(t, err)
	wrong, err := checkCases(tree, string(page), []string{"C01", "C02", "C03", "C04"})
	require.NoError(t, err)
	require.Equal(t, lines(archive.Comment), wrong)
}
