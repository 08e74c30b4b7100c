// Package lint checks rules, dashboards and policies against the contract
// without running them: what they record is declared with exactly the labels
// that it will have, and what they read is there, at their tier, with the labels
// that they ask for. Where the labels of a result cannot be told from an
// expression, it is refused with advice, and never passed.
package lint

import (
	"github.com/pharos-fleet/pharos/rules"
)

// File is one file to check, with the name that problems bear.
type File struct {
	Name    string
	Content []byte
}

// Input is everything that is checked together.
type Input struct {
	Contract File
	// Rules are the rule files of each tier, Own those that a team has beside them:
	// they may take the place of nothing in Rules.
	Rules, Own map[rules.Tier][]File
	// Dashboards are Grafana's dashboards as JSON, and Policies files of YAML
	// documents. Both read at a central.
	Dashboards, Policies []File
}

// Checked is how much was found to check, so that nobody takes for checked what
// says nothing.
type Checked struct {
	// Queries of rules, of dashboards and of policies.
	Rules, Dashboards, Policies int
}

// Check returns everything that does not fit as rules.Problems, each with its
// file and line, and how many queries it checked. A contract that cannot be read
// is all that is told.
func Check(in Input) (Checked, error) {
	if contractSize := len(in.Contract.Content); contractSize > MaxFile {
		return Checked{}, rules.Problems{{File: in.Contract.Name, Text: tooLarge}}
	}
	contract, err := rules.Parse(in.Contract.Name, in.Contract.Content)
	if err != nil {
		return Checked{}, err
	}
	l := &linter{contract: contract, file: in.Contract.Name, lines: rules.Lines(in.Contract.Content), recorded: map[string]bool{}, told: map[rules.Problem]bool{}}
	var checked Checked
	since := func() int { n := l.queries; l.queries = 0; return n }
	builtIn, err := rules.Load()
	if err != nil {
		return Checked{}, err
	}
	l.checkMeaning(builtIn)
	l.checkRules(in)
	l.checkOwn(in)
	checked.Rules = since()
	for _, f := range in.Dashboards {
		l.checkDashboard(f)
	}
	checked.Dashboards = since()
	for _, f := range in.Policies {
		l.checkPolicy(f)
	}
	checked.Policies = since()
	return checked, l.problems.Err()
}

// linter collects what is wrong.
type linter struct {
	contract rules.Contract
	// file is where the contract stands.
	file     string
	lines    map[string]int
	problems rules.Problems
	// queries is how many there have been.
	queries int
	// told are the problems, so that each is told once.
	told map[rules.Problem]bool
	// recorded are the declared series that a rule records.
	recorded map[string]bool
}

func (l *linter) found(file string, line int, text string) {
	p := rules.Problem{File: file, Line: line, Text: text}
	if !l.told[p] {
		l.told[p] = true
		l.problems = append(l.problems, p)
	}
}

// MaxFile is how large a file may be, in bytes. All of them are put into
// ConfigMaps, none of which holds more.
const MaxFile = 1 << 20

const tooLarge = "is larger than 1 MiB, which is more than a ConfigMap holds; divide it"

func (l *linter) tooLarge(f File) bool {
	if len(f.Content) <= MaxFile {
		return false
	}
	l.found(f.Name, 0, tooLarge)
	return true
}
