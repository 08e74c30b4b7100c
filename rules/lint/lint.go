// Package lint checks rules, dashboards and policies against the contract
// without running them: what they record is declared with exactly the labels
// that it will have, and what they read is there, at their tier, with the labels
// that they ask for. Where the labels of a result cannot be told from an
// expression, it is refused with advice, and never passed.
package lint

import (
	"slices"

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
	// Rules are the rule files of each tier.
	Rules map[rules.Tier][]File
	// Dashboards are Grafana's dashboards as JSON, and Policies files of YAML
	// documents. Both read at a central.
	Dashboards, Policies []File
}

// Check returns everything that does not fit as rules.Problems, each with its
// file and line. A contract that cannot be read is all that is told.
func Check(in Input) error {
	contract, err := rules.Parse(in.Contract.Name, in.Contract.Content)
	if err != nil {
		return err
	}
	l := &linter{contract: contract, file: in.Contract.Name, lines: rules.Lines(in.Contract.Content), recorded: map[string]bool{}}
	l.checkRules(in.Rules)
	for _, f := range in.Dashboards {
		l.checkDashboard(f)
	}
	for _, f := range in.Policies {
		l.checkPolicy(f)
	}
	return l.problems.Err()
}

// linter collects what is wrong.
type linter struct {
	contract rules.Contract
	// file is where the contract stands.
	file     string
	lines    map[string]int
	problems rules.Problems
	// recorded are the declared series that a rule records.
	recorded map[string]bool
}

func (l *linter) found(file string, line int, text string) {
	p := rules.Problem{File: file, Line: line, Text: text}
	if !slices.Contains(l.problems, p) {
		l.problems = append(l.problems, p)
	}
}
