package lint

import (
	"fmt"
	"log/slog"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// Own checks the Input, and gives the contract with what a team has of its own. That
// has to fit the contract together with the rest, as Check has it; and nothing of it
// may take the place of what is there already, or be an alert at a tier from which
// nobody is told.
func Own(in Input) (rules.Contract, error) {
	if _, err := Check(in); err != nil {
		return rules.Contract{}, err
	}
	contract, err := rules.Parse(in.Contract.Name, in.Contract.Content)
	if err != nil {
		return rules.Contract{}, err
	}
	files := map[rules.Tier]map[string][]byte{}
	for _, tier := range rules.Tiers() {
		files[tier] = map[string][]byte{}
		for _, f := range in.Own[tier] {
			files[tier][path.Base(f.Name)] = f.Content
		}
	}
	return contract.WithOwn(files), nil
}

// checkOwn refuses what is a team's own and has its place taken, or none.
func (l *linter) checkOwn(in Input) {
	taken := names{}
	for _, tier := range rules.Tiers() {
		if len(in.Own[tier]) > 0 && len(taken) == 0 {
			taken.take(in.Rules)
		}
		for _, f := range in.Own[tier] {
			for _, p := range taken.refuse(tier, f) {
				if !told(l.problems, p) {
					l.found(p.File, p.Line, p.Text)
				}
			}
		}
	}
}

// told says whether something is wrong with a line already.
func told(problems rules.Problems, p rules.Problem) bool {
	return slices.ContainsFunc(problems, func(other rules.Problem) bool { return other.File == p.File && other.Line == p.Line && p.Line > 0 })
}

// names are those of groups, records and alerts, and where each is.
type names map[string]string

// named is one name in a rule file.
type named struct {
	what, name string
	line       int
}

func (n named) String() string { return fmt.Sprintf("%s %q", n.what, n.name) }

const (
	aGroup  = "group"
	aRecord = "series"
	anAlert = "alert"
)

// reserved begin the names of groups that are rendered for each server.
const reserved = "topology"

// take notes the names in files of all tiers.
func (n names) take(files map[rules.Tier][]File) {
	for _, tier := range rules.Tiers() {
		for _, f := range files[tier] {
			for _, is := range namesIn(f) {
				n[is.String()] = fmt.Sprintf("%s:%d", f.Name, is.line)
			}
		}
	}
}

// key is what a file may be called as one of a ConfigMap's.
var key = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,200}$`)

// refuse tells what of a team's file is taken already, and what nobody would hear.
func (n names) refuse(tier rules.Tier, f File) (problems rules.Problems) {
	found := func(line int, format string, args ...any) {
		problems = append(problems, rules.Problem{File: f.Name, Line: line, Text: fmt.Sprintf(format, args...)})
	}
	if base := path.Base(f.Name); !key.MatchString(base) {
		found(0, "its name can be that of no file in a ConfigMap: use letters, digits, dots, dashes and underscores, at most 200")
	}
	for _, is := range namesIn(f) {
		at, taken := n[is.String()]
		switch {
		case taken:
			found(is.line, "%s is in %s already, which is not the team's; take another name", is, at)
		case is.what == aGroup && strings.HasPrefix(is.name, reserved):
			found(is.line, "%s has a name that begins with %q, as those that are rendered for each server; take another name", is, reserved)
		case is.what == anAlert && tier != rules.Central:
			found(is.line, "%s would reach nobody: only centrals send alerts; record at the %s what it is about, and alert at the central", is, tier)
		}
	}
	return problems
}

// namesIn are the names in a file that Check has passed, with their lines.
func namesIn(f File) []named {
	groups, _ := rulefmt.Parse(f.Content, false, model.UTF8Validation, newParser(), slog.New(slog.DiscardHandler))
	var doc yaml.Node
	if groups == nil || yaml.Unmarshal(f.Content, &doc) != nil {
		return nil // which Check has refused
	}
	var out []named
	for g, group := range groups.Groups {
		at := rules.Descend(&doc, "groups", g)
		out = append(out, named{aGroup, group.Name, rules.Descend(at, "name").Line})
		for r, rule := range group.Rules {
			node := rules.Descend(at, "rules", r)
			if rule.Alert != "" {
				out = append(out, named{anAlert, rule.Alert, rules.Descend(node, "alert").Line})
			} else {
				out = append(out, named{aRecord, rule.Record, rules.Descend(node, "record").Line})
			}
		}
	}
	return out
}
