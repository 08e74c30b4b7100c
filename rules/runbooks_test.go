package rules_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

// asked is a query that a document tells a person to run, and the tiers whose
// servers it is meant for.
type asked struct {
	file  string
	line  int
	query string
	at    []rules.Tier
}

var (
	// step begins what a runbook says to do next.
	step = regexp.MustCompile(`^(\d+\. |- |#)`)
	// meant is how a step says whom to ask. Where it says nothing it is any central.
	meant = regexp.MustCompile(`(?i)\bask (?:the |an |that )?(server|edge or (?:the )?cascade|edge|cascade)\b|\bthe second for the (edge)\b|# (edge)\b`)
	// quoted is code within a sentence.
	quoted = regexp.MustCompile("`([^`]+)`")
)

// queriesIn finds the queries of a document: the lines of its blocks, and code in its
// sentences that names a recorded series.
func queriesIn(file, text string) []asked {
	var out []asked
	at, inBlock := []rules.Tier{rules.Central}, false
	said := ""
	for i, line := range strings.Split(text, "\n") {
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "```"):
			if inBlock = !inBlock; inBlock {
				at = whom(said)
			}
		case inBlock:
			if command, _, _ := strings.Cut(bare, " "); bare != "" && !slices.Contains([]string{"kubectl", "amtool"}, command) {
				out = append(out, asked{file, i + 1, bare, at})
			}
		default:
			if step.MatchString(line) {
				said = ""
			}
			said += " " + bare
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				if recorded.MatchString(m[1]) {
					out = append(out, asked{file, i + 1, m[1], nil})
				}
			}
		}
	}
	return out
}

// recorded is how the name of a series begins that a rule records.
var recorded = regexp.MustCompile(`\b(fleet|geography|cell|cluster|node|pool|rack|zone|namespace|cascade|central|edge):[a-z_0-9]+:[a-z0-9]+`)

// whom are the tiers that a step is about, by the last thing that it says of it.
func whom(said string) []rules.Tier {
	all := meant.FindAllStringSubmatch(said, -1)
	if len(all) == 0 {
		return []rules.Tier{rules.Central}
	}
	last := all[len(all)-1]
	switch who := strings.ToLower(strings.Join(last[1:], "")); {
	case who == "server":
		return rules.Tiers()
	case strings.Contains(who, " or "):
		return []rules.Tier{rules.Edge, rules.Cascade}
	default:
		return []rules.Tier{rules.Tier(who)}
	}
}

// kept refuses a series that no server of a tier keeps. Of each scrape every Prometheus
// keeps how much it was, and of themselves cascades and centrals keep everything; an edge
// keeps what is declared.
func kept(c rules.Contract, name string, at rules.Tier) error {
	if name == "scrape_samples_scraped" || at != rules.Edge && strings.HasPrefix(name, "prometheus_") {
		return nil
	}
	return c.Readable(name, at)
}

// check refuses a query that cannot be parsed, or reads what nobody has there.
func (a asked) check(c rules.Contract) error {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(a.query)
	if err != nil && a.at == nil {
		return nil // a sentence's code need not be a whole query
	}
	if err != nil {
		return fmt.Errorf("%s:%d: %q cannot be parsed: %w", a.file, a.line, a.query, err)
	}
	var wrong []error
	for _, name := range namesRead(expr) {
		var refused []error
		for _, tier := range rules.Tiers() {
			err := kept(c, name, tier)
			if a.at == nil || slices.Contains(a.at, tier) {
				refused = append(refused, err)
			}
		}
		// Of a sentence it is enough that one tier has it.
		if err := errors.Join(refused...); err != nil && (a.at != nil || !slices.Contains(refused, nil)) {
			wrong = append(wrong, fmt.Errorf("%s:%d: %q, which is for %v: %w", a.file, a.line, a.query, a.at, err))
		}
	}
	return errors.Join(wrong...)
}

// namesRead are the series that an expression reads by name.
func namesRead(expr parser.Expr) []string {
	var out []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			for _, m := range s.LabelMatchers {
				if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
					out = append(out, m.Value)
				}
			}
		}
		return nil
	})
	return out
}

// TestEveryQueryForAPersonReadsWhatIsThere asks of each query in a runbook, and of each
// recorded series that a document names, whether the server that it is meant for keeps it.
func TestEveryQueryForAPersonReadsWhatIsThere(t *testing.T) {
	c := contract(t)
	found := 0
	for _, pattern := range []string{"docs/runbooks/*.md", "docs/reference/[^c]*.md", "docs/*.md", "README.md"} { // the contract's page is made of it
		files, err := filepath.Glob(filepath.Join(testkit.Root(t), pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			name := filepath.Join(filepath.Dir(pattern), filepath.Base(file))
			for _, a := range queriesIn(name, string(raw)) {
				if a.at != nil && !strings.HasPrefix(name, "docs/runbooks/") {
					continue // the blocks of other documents are commands and files
				}
				if err := a.check(c); err != nil {
					t.Error(err)
				}
				found++
			}
		}
	}
	require.Greater(t, found, 250)
}

// TestAQueryOfNothingIsFound sees to it that the test above sees anything.
func TestAQueryOfNothingIsFound(t *testing.T) {
	c := contract(t)
	page := "1. Look.\n   ```\n   kube_node_info\n   ```\n2. Ask the edge of the cell.\n   ```\n   kube_node_info\n   fleet:nodes:count\n   max by (\n   ```\n" +
		"Then `cell:edges_gone:count` of any.\n"
	var wrong []string
	for _, a := range queriesIn("page.md", page) {
		if err := a.check(c); err != nil {
			wrong = append(wrong, strings.SplitN(err.Error(), ":", 3)[1])
		}
	}
	require.Equal(t, []string{"3", "8", "9", "11"}, wrong)
}
